//! The server's configuration.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use warpyard_server::config::Config;

fuzz_target!(|data: &[u8]| {
    warpyard_fuzz::with_scratch(|scratch| {
        let path = scratch.path("config.toml");
        fs::write(&path, data).expect("room");
        if let Ok(config) = Config::read(&path) {
            for shared in [false, true] {
                let _in_force = config.limits.limits(shared);
            }
        }
    });
});
