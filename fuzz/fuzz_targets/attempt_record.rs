//! The records in an attempt directory, separated by lines of `--`: running, state, want, exit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use warpyard_worker::supervise::{AttemptDir, RecordedAttempt, Orphan};

fuzz_target!(|data: &[u8]| {
    warpyard_fuzz::with_scratch(|scratch| {
        let path = scratch.path("1.0.1");
        fs::create_dir_all(&path).expect("a directory can be made");
        let mut rest = data;
        for name in ["running", "state", "want", "exit"] {
            let end = rest.windows(4).position(|part| part == b"\n--\n");
            let (record, after) = match end {
                Some(end) => (&rest[..=end], &rest[end + 4..]),
                None => (rest, &[][..]),
            };
            rest = after;
            match record {
                [] => drop(fs::remove_file(path.join(name))),
                record => fs::write(path.join(name), record).expect("room"),
            }
        }
        let dir = AttemptDir::new(path);
        let _damaged = dir.desired();
        let _damaged = dir.state();
        if let Ok(RecordedAttempt::Died(running)) = dir.inspect() {
            let _damaged = Orphan::of(dir, running);
        }
    });
});
