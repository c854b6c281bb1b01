//! The manifest of a backup. Whatever it says, nothing is written outside the data directory it is restored to, and
//! nothing at all where it is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use warpyard_server::backup::restore;

fuzz_target!(|data: &[u8]| {
    warpyard_fuzz::with_scratch(|scratch| {
        let (from, to) = (scratch.path("backup"), scratch.path("data"));
        fs::create_dir_all(&from).expect("a directory");
        fs::write(from.join("backup.json"), data).expect("room");
        fs::write(from.join("token"), "token").expect("room");
        let restored = restore(&from, &to, true, &|_, _, _| {});
        assert!(restored.is_err(), "there is no log in it");
        assert!(!to.exists(), "something was written");
        assert_eq!(
            fs::read_dir(scratch.path(".")).expect("the directory").count(),
            1,
            "something is beside it"
        );
    });
});
