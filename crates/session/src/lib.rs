//! What whoever is attached to a task's terminal and the supervisor that keeps it say to each other, as bytes. Whatever is
//! between the two passes the bytes on as they are. Neither sockets nor terminals are here.
//!
//! A frame is one byte for its kind, four for the length of the rest (least significant first), and the rest. A kind that
//! is not known is passed over, so either side may be older than the other.
//!
//! | to the session | kind | rest |
//! |---|---|---|
//! | [`Ask::Join`], once and first | 1 | rows and columns (two bytes each), bytes seen before (eight) |
//! | [`Ask::Type`] | 2 | what was typed |
//! | [`Ask::Resize`] | 3 | rows and columns |
//!
//! | from the session | kind | rest |
//! |---|---|---|
//! | [`Say::From`], once and first | 1 | how many bytes were printed before those that follow (eight) |
//! | [`Say::Printed`] | 2 | what was printed |
//! | [`Say::Note`] | 3 | a line of the session's own, in UTF-8 |
//! | [`Say::Over`], last | 4 | |

/// What a connection is to become, in the header `Upgrade`.
pub const PROTOCOL: &str = "warpyard-terminal";

/// Where the number of the attempt one is attached to is told.
pub const ATTEMPT_HEADER: &str = "warpyard-attempt";

/// How many may be attached to a terminal.
pub const GUESTS: usize = 8;

/// The rest of a frame has no more bytes than this.
pub const LARGEST: usize = 1 << 20;

/// How much is typed or printed in one frame.
const PIECE: usize = 64 << 10;

const HEAD: usize = 5;

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many lines.
    pub rows: u16,
    /// How many characters to a line.
    pub columns: u16,
}

impl Default for Size {
    /// That of the terminals of old, which everything knows how to live with.
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// What is said to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Someone joins.
    Join {
        /// The size of their terminal.
        size: Size,
        /// How much of what was printed they have seen already.
        seen: u64,
    },
    /// They type.
    Type(Vec<u8>),
    /// Their terminal has another size.
    Resize(Size),
}

/// What a session says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// So many bytes were printed before those that follow.
    From(u64),
    /// The program printed this.
    Printed(Vec<u8>),
    /// Something to know about the session, which no program printed.
    Note(String),
    /// Nothing of the attempt is left, and how it ended is on record.
    Over,
}

/// A frame of either direction.
pub trait Frame: Sized {
    /// Adds it to what is to be sent; what is too long for one frame goes in several.
    fn put(&self, to: &mut Vec<u8>);

    /// The frame of this kind; nothing where the kind is not known or the rest does not fit it.
    fn read(kind: u8, rest: &[u8]) -> Option<Self>;
}

/// What arrived is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes, which nobody sends")]
pub struct NoFrame(usize);

impl Frame for Ask {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Ask::Join { size, seen } => frame(to, 1, &[&size.bytes(), &seen.to_le_bytes()[..]].concat()),
            Ask::Type(bytes) => pieces(to, 2, bytes),
            Ask::Resize(size) => frame(to, 3, &size.bytes()),
        }
    }

    fn read(kind: u8, rest: &[u8]) -> Option<Self> {
        Some(match kind {
            1 => Ask::Join { size: Size::read(rest.get(..4)?)?, seen: number(rest.get(4..12)?)? },
            2 => Ask::Type(rest.to_vec()),
            3 => Ask::Resize(Size::read(rest.get(..4)?)?),
            _ => return None,
        })
    }
}

impl Frame for Say {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Say::From(position) => frame(to, 1, &position.to_le_bytes()),
            Say::Printed(bytes) => pieces(to, 2, bytes),
            Say::Note(text) => frame(to, 3, text.as_bytes()),
            Say::Over => frame(to, 4, &[]),
        }
    }

    fn read(kind: u8, rest: &[u8]) -> Option<Self> {
        Some(match kind {
            1 => Say::From(number(rest.get(..8)?)?),
            2 => Say::Printed(rest.to_vec()),
            3 => Say::Note(String::from_utf8_lossy(rest).into_owned()),
            4 => Say::Over,
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

fn frame(to: &mut Vec<u8>, kind: u8, rest: &[u8]) {
    let rest = &rest[..rest.len().min(LARGEST)];
    to.push(kind);
    to.extend((rest.len() as u32).to_le_bytes());
    to.extend(rest);
}

fn pieces(to: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    for piece in bytes.chunks(PIECE) {
        frame(to, kind, piece);
    }
}

/// What has arrived and was not yet taken.
#[derive(Debug, Default)]
pub struct Arriving {
    bytes: Vec<u8>,
    taken: usize,
}

impl Arriving {
    /// Takes in what arrived.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend(bytes);
    }

    /// The next frame, if it is there whole; those of no known kind are passed over.
    pub fn take<F: Frame>(&mut self) -> Result<Option<F>, NoFrame> {
        loop {
            let here = &self.bytes[self.taken..];
            let Some((&[kind, a, b, c, d], after)) = here.split_first_chunk::<HEAD>() else {
                return Ok(None);
            };
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            if length > LARGEST {
                return Err(NoFrame(length));
            }
            let Some(rest) = after.get(..length) else { return Ok(None) };
            let known = F::read(kind, rest);
            self.taken += HEAD + length;
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

    fn all<F: Frame>(arriving: &mut Arriving) -> Vec<F> {
        std::iter::from_fn(|| arriving.take().expect("frames only")).collect()
    }

    fn sizes() -> impl Strategy<Value = Size> {
        (any::<u16>(), any::<u16>()).prop_map(|(rows, columns)| Size { rows, columns })
    }

    fn asks() -> impl Strategy<Value = Ask> {
        prop_oneof![
            (sizes(), any::<u64>()).prop_map(|(size, seen)| Ask::Join { size, seen }),
            prop::collection::vec(any::<u8>(), 1..100).prop_map(Ask::Type),
            sizes().prop_map(Ask::Resize),
        ]
    }

    proptest! {
        #[test]
        fn frames_arrive_as_they_were_sent_however_they_are_cut(
            sent in prop::collection::vec(asks(), 0..20),
            cut in 1usize..40,
        ) {
            let mut bytes = Vec::new();
            sent.iter().for_each(|ask| ask.put(&mut bytes));
            let (mut arriving, mut got) = (Arriving::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                arriving.add(piece);
                got.extend(all::<Ask>(&mut arriving));
            }
            prop_assert_eq!(got, sent);
        }

        #[test]
        fn nothing_that_arrives_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut arriving = Arriving::default();
            arriving.add(&bytes);
            while let Ok(Some(_)) = arriving.take::<Say>() {}
        }
    }

    #[test]
    fn much_goes_in_several_frames_and_nothing_of_it_is_lost() {
        let printed: Vec<u8> = (0..3 * PIECE + 5).map(|i| i as u8).collect();
        let mut bytes = Vec::new();
        Say::Printed(printed.clone()).put(&mut bytes);
        let mut arriving = Arriving::default();
        arriving.add(&bytes);
        let pieces = all::<Say>(&mut arriving);
        assert_eq!(pieces.len(), 4);
        let got: Vec<u8> = pieces
            .into_iter()
            .flat_map(|say| match say {
                Say::Printed(bytes) => bytes,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(got, printed);
    }

    #[test]
    fn a_kind_of_a_later_version_is_passed_over_and_a_length_of_none_is_not() {
        let mut bytes = Vec::new();
        frame(&mut bytes, 77, b"from the future");
        Say::Over.put(&mut bytes);
        let mut arriving = Arriving::default();
        arriving.add(&bytes);
        assert_eq!(arriving.take(), Ok(Some(Say::Over)));
        arriving.add(&[2, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(arriving.take::<Say>(), Err(NoFrame(u32::MAX as usize)));
    }
}
