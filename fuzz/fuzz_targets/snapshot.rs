//! Snapshots: a manifest as a client announces it, then, after a NUL, contents as it sends them. What is accepted is
//! unpacked, and nothing is made outside the directory it is unpacked to.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use warpyard_snapshot::{Manifest, Store, unpack};

/// The most that is unpacked.
const MOST: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(manifest) = serde_json::from_slice::<Manifest>(&data[..end]) else { return };
    if manifest.check().is_err() {
        return;
    }
    warpyard_fuzz::with_scratch(|scratch| {
        let (root, work) = (scratch.path("store"), scratch.path("work"));
        let store = Store::of(&root, "ann");
        let contents = data.get(end + 1..).unwrap_or_default();
        if store.announce(&manifest).is_ok() && store.receive(&manifest, contents).is_ok() {
            let into = work.join("1");
            match unpack(&store, &manifest.id(), &into, None, MOST) {
                Ok(()) => {
                    let unpacked =
                        manifest.entries.keys().all(|name| into.join(name).symlink_metadata().is_ok());
                    // A directory may close what is in it.
                    let closed = manifest.entries.values().any(|entry| match entry {
                        warpyard_snapshot::Entry::Dir { mode } => mode & 0o500 != 0o500,
                        _ => false,
                    });
                    assert!(unpacked || closed, "something is missing");
                }
                Err(_refused) => assert!(!into.exists(), "half of it is there"),
            }
            for entry in fs::read_dir(&work).into_iter().flatten().flatten() {
                let name = entry.file_name();
                assert!(["1", "1.lock", "1.new"].iter().any(|ours| name == *ours), "{name:?} beside it");
            }
        }
        for dir in [root, work] {
            let _not_made = fs::remove_dir_all(dir);
        }
    });
});
