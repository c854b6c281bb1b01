//! Terminal session protocol between an attached client and the supervisor that owns a task's terminal, as bytes.
//! Relays in between pass the bytes on unchanged. No sockets or terminals here.
//!
//! A frame is one byte for its kind, four for the length of the payload (little endian), and the payload. Unknown
//! kinds are skipped, so either side may be older than the other.
//!
//! | to the session | kind | payload |
//! |---|---|---|
//! | [`ClientFrame::Join`], once and first | 1 | rows and columns (two bytes each), bytes seen before (eight) |
//! | [`ClientFrame::Input`] | 2 | typed bytes |
//! | [`ClientFrame::Resize`] | 3 | rows and columns |
//!
//! | from the session | kind | payload |
//! |---|---|---|
//! | [`SessionFrame::Offset`], once and first | 1 | number of bytes printed before those that follow (eight) |
//! | [`SessionFrame::Output`] | 2 | printed bytes |
//! | [`SessionFrame::Notice`] | 3 | a line of the session's own, in UTF-8 |
//! | [`SessionFrame::End`], last | 4 | |

/// Protocol name in the `Upgrade` header.
pub const PROTOCOL: &str = "warpyard-terminal";

/// Header with the number of the attached attempt.
pub const ATTEMPT_HEADER: &str = "warpyard-attempt";

/// Clients that may be attached to one terminal.
pub const MAX_CLIENTS: usize = 8;

/// Largest payload of a frame in bytes.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Input or output per frame in bytes.
const CHUNK: usize = 64 << 10;

const HEADER_LEN: usize = 5;

/// Terminal size in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of lines.
    pub rows: u16,
    /// Characters per line.
    pub columns: u16,
}

impl Default for Size {
    /// The VT100's 24 by 80, which every program supports.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Frame from a client to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// Attaches the client.
    Join {
        /// Size of its terminal.
        size: Size,
        /// Bytes of output it has seen already.
        seen: u64,
    },
    /// Typed bytes.
    Input(Vec<u8>),
    /// New size of its terminal.
    Resize(Size),
}

/// Frame from the session to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFrame {
    /// Number of bytes printed before those that follow.
    Offset(u64),
    /// Bytes printed by the program.
    Output(Vec<u8>),
    /// Message about the session itself.
    Notice(String),
    /// End of the attempt; its exit is on record.
    End,
}

/// Frame of either direction.
pub trait Frame: Sized {
    /// Appends the encoded frame; long content is split into several frames.
    fn put(&self, to: &mut Vec<u8>);

    /// Decodes a frame; `None` where the kind is unknown or the payload does not fit it.
    fn read(kind: u8, payload: &[u8]) -> Option<Self>;
}

/// Frame length beyond [`MAX_PAYLOAD`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes is longer than the protocol allows")]
pub struct FrameTooLong(usize);

impl Frame for ClientFrame {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            ClientFrame::Join { size, seen } => {
                frame(to, 1, &[&size.bytes(), &seen.to_le_bytes()[..]].concat())
            }
            ClientFrame::Input(bytes) => frames(to, 2, bytes),
            ClientFrame::Resize(size) => frame(to, 3, &size.bytes()),
        }
    }

    fn read(kind: u8, payload: &[u8]) -> Option<Self> {
        Some(match kind {
            1 => {
                ClientFrame::Join { size: Size::read(payload.get(..4)?)?, seen: number(payload.get(4..12)?)? }
            }
            2 => ClientFrame::Input(payload.to_vec()),
            3 => ClientFrame::Resize(Size::read(payload.get(..4)?)?),
            _ => return None,
        })
    }
}

impl Frame for SessionFrame {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            SessionFrame::Offset(position) => frame(to, 1, &position.to_le_bytes()),
            SessionFrame::Output(bytes) => frames(to, 2, bytes),
            SessionFrame::Notice(text) => frame(to, 3, text.as_bytes()),
            SessionFrame::End => frame(to, 4, &[]),
        }
    }

    fn read(kind: u8, payload: &[u8]) -> Option<Self> {
        Some(match kind {
            1 => SessionFrame::Offset(number(payload.get(..8)?)?),
            2 => SessionFrame::Output(payload.to_vec()),
            3 => SessionFrame::Notice(String::from_utf8_lossy(payload).into_owned()),
            4 => SessionFrame::End,
            _ => return None,
        })
    }
}

impl Size {
    fn bytes(self) -> [u8; 4] {
        let ([a, b], [c, d]) = (self.rows.to_le_bytes(), self.columns.to_le_bytes());
        [a, b, c, d]
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, d] = bytes else { return None };
        Some(Self { rows: u16::from_le_bytes([a, b]), columns: u16::from_le_bytes([c, d]) })
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

fn frame(to: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let payload = &payload[..payload.len().min(MAX_PAYLOAD)];
    to.push(kind);
    to.extend((payload.len() as u32).to_le_bytes());
    to.extend(payload);
}

fn frames(to: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    for piece in bytes.chunks(CHUNK) {
        frame(to, kind, piece);
    }
}

/// Incremental decoder: received bytes that are not decoded yet.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    bytes: Vec<u8>,
    taken: usize,
}

impl FrameDecoder {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend(bytes);
    }

    /// Next complete frame, if any; unknown kinds are skipped.
    pub fn next_frame<F: Frame>(&mut self) -> Result<Option<F>, FrameTooLong> {
        loop {
            let here = &self.bytes[self.taken..];
            let Some((&[kind, a, b, c, d], after)) = here.split_first_chunk::<HEADER_LEN>() else {
                return Ok(None);
            };
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            if length > MAX_PAYLOAD {
                return Err(FrameTooLong(length));
            }
            let Some(payload) = after.get(..length) else { return Ok(None) };
            let known = F::read(kind, payload);
            self.taken += HEADER_LEN + length;
            if known.is_some() {
                return Ok(known);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all<F: Frame>(decoder: &mut FrameDecoder) -> Vec<F> {
        std::iter::from_fn(|| decoder.next_frame().expect("frames only")).collect()
    }

    fn sizes() -> impl Strategy<Value = Size> {
        (any::<u16>(), any::<u16>()).prop_map(|(rows, columns)| Size { rows, columns })
    }

    fn client_frames() -> impl Strategy<Value = ClientFrame> {
        prop_oneof![
            (sizes(), any::<u64>()).prop_map(|(size, seen)| ClientFrame::Join { size, seen }),
            prop::collection::vec(any::<u8>(), 1..100).prop_map(ClientFrame::Input),
            sizes().prop_map(ClientFrame::Resize),
        ]
    }

    proptest! {
        #[test]
        fn frames_round_trip_however_the_bytes_are_split(
            sent in prop::collection::vec(client_frames(), 0..20),
            cut in 1usize..40,
        ) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|sent_frame| sent_frame.put(&mut bytes));
            let (mut decoder, mut got) = (FrameDecoder::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                got.extend(all::<ClientFrame>(&mut decoder));
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = FrameDecoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_frame::<SessionFrame>() {}
        }
    }

    #[test]
    fn long_output_is_split_into_frames_without_loss() {
        let printed: Vec<u8> = (0..3 * CHUNK + 5).map(|i| i as u8).collect();
        let mut bytes = Vec::new();
        SessionFrame::Output(printed.clone()).put(&mut bytes);
        let mut decoder = FrameDecoder::default();
        decoder.push(&bytes);
        let frames = all::<SessionFrame>(&mut decoder);
        assert_eq!(frames.len(), 4);
        let got: Vec<u8> = frames
            .into_iter()
            .flat_map(|say| match say {
                SessionFrame::Output(bytes) => bytes,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(got, printed);
    }

    #[test]
    fn unknown_kinds_are_skipped_and_excessive_lengths_rejected() {
        let mut bytes = Vec::new();
        frame(&mut bytes, 77, b"from the future");
        SessionFrame::End.put(&mut bytes);
        let mut decoder = FrameDecoder::default();
        decoder.push(&bytes);
        assert_eq!(decoder.next_frame(), Ok(Some(SessionFrame::End)));
        decoder.push(&[2, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(decoder.next_frame::<SessionFrame>(), Err(FrameTooLong(u32::MAX as usize)));
    }
}
