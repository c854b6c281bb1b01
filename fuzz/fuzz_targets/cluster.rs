//! Clusters to simulate: on a line, and in files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use warpyard_fuzz::binary;
use warpyard_sim::workload;

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    let _refused = workload::cluster(text);
    warpyard_fuzz::with_scratch(|scratch| {
        let path = scratch.path("cluster.toml");
        fs::write(&path, text).expect("room");
        if let Ok(servers) = binary::cluster(path.to_str().expect("text")) {
            let devices: usize = servers.iter().map(|server| server.devices.len()).sum();
            assert!(devices as u64 <= workload::MAX_DEVICES);
        }
    });
});
