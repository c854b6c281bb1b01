//! Frames of a terminal session, in both directions, arriving in pieces. A frame that was read is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fmt::Debug;
use warpyard_session::{Arriving, Ask, Frame, Say};

fn frames<F: Frame + PartialEq + Debug>(data: &[u8]) {
    let mut arriving = Arriving::default();
    for piece in data.chunks(7) {
        arriving.add(piece);
        loop {
            match arriving.take::<F>() {
                Ok(Some(frame)) => {
                    let mut written = Vec::new();
                    frame.put(&mut written);
                    let mut again = Arriving::default();
                    again.add(&written);
                    if !written.is_empty() {
                        assert_eq!(again.take::<F>().expect("a frame"), Some(frame));
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    frames::<Ask>(data);
    frames::<Say>(data);
});
