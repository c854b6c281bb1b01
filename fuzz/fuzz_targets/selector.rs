//! Selectors, and everything else that is one word: sizes, durations, CPUs, devices, tokens, policies, declared GPUs. What is
//! accepted is written so that it reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use warpyard_api::job::DeviceRef;
use warpyard_api::quantity::{ByteSize, Micros, MilliCpus};
use warpyard_api::selector::Selector;
use warpyard_api::token::{Fingerprint, JoinToken, PersonalToken, Secret};
use warpyard_api::wire::PolicySpec;
use warpyard_core::PolicyChoice;
use warpyard_worker::probe::{Choice, Declared};

fn reads_back<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    let written = value.to_string();
    assert_eq!(written.parse::<T>().ok(), Some(value), "written as {written:?}");
}

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    reads_back::<Selector>(text);
    reads_back::<DeviceRef>(text);
    reads_back::<ByteSize>(text);
    reads_back::<Micros>(text);
    reads_back::<MilliCpus>(text);
    reads_back::<JoinToken>(text);
    reads_back::<PersonalToken>(text);
    reads_back::<Fingerprint>(text);
    let _not_one = text.parse::<Secret>();
    let _not_one = text.parse::<PolicyChoice>();
    let _not_one = text.parse::<PolicySpec>();
    let _none = text.parse::<Declared>();
    let _none = text.parse::<Choice>();
});
