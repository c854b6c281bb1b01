//! Keeping the working directory: it is read here, with the rights of whoever submits, and what the server does not have
//! yet is sent to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use warpyard_api::client::Client;
use warpyard_snapshot::{Hash, Manifest, PackError, PackedDir};

/// Attempts at reading a directory that changes meanwhile: something in it may be a growing log.
const TRIES: u32 = 10;

/// Uploads a snapshot of a directory; returns its id.
pub(super) fn keep(client: &Client, dir: &Path) -> anyhow::Result<String> {
    // The server says how much it takes before anything is read.
    let most = client.announce_snapshot(&Manifest::default())?.most_bytes;
    let mut tries = 1;
    loop {
        match keep_once(client, dir, most) {
            Err(e) if tries < TRIES && matches!(e.downcast_ref(), Some(PackError::Changed(_))) => tries += 1,
            kept => return kept,
        }
    }
}

fn keep_once(client: &Client, dir: &Path, most: u64) -> anyhow::Result<String> {
    let packed = PackedDir::of(dir, most)?;
    let announced = client.announce_snapshot(&packed.manifest)?;
    let missing = announced.missing.into_iter().filter_map(|hash| Hash::try_from(hash).ok());
    let missing: Vec<Hash> = missing.collect();
    if !missing.is_empty() {
        let mut contents = unnamed_file()?;
        packed.send(&missing, &mut contents)?;
        contents.flush()?;
        contents.rewind()?;
        client.send_snapshot(&announced.snapshot, contents)?;
    }
    Ok(announced.snapshot)
}

/// A file that goes with its handle. Contents are gathered before they are sent, so that a file that changes meanwhile is
/// found out here and not by the server.
fn unnamed_file() -> io::Result<File> {
    let path = std::env::temp_dir().join(format!("warpyard-snapshot-{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}
