//! Frames of a terminal session, in both directions, arriving in pieces. A frame that was read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;
use warpyard_session::{ClientFrame, Frame, FrameDecoder, SessionFrame};

fn frames<F: Frame + PartialEq + Debug>(data: &[u8]) {
    let mut decoder = FrameDecoder::default();
    for piece in data.chunks(7) {
        decoder.push(piece);
        loop {
            match decoder.next_frame::<F>() {
                Ok(Some(frame)) => {
                    let mut written = Vec::new();
                    frame.put(&mut written);
                    let mut again = FrameDecoder::default();
                    again.push(&written);
                    if !written.is_empty() {
                        assert_eq!(again.next_frame::<F>().expect("a frame"), Some(frame));
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    frames::<ClientFrame>(data);
    frames::<SessionFrame>(data);
});
