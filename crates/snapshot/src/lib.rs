//! Snapshots of directories: content-addressed, unpacked elsewhere, compared with the present.
//!
//! A [`Manifest`] lists every directory, file and link with its mode, and the content of files by hash; its own hash
//! identifies the snapshot. [`PackedDir`] builds one with the rights of the caller, so that nothing is read that the
//! caller could not read. A [`Store`] holds each content once per user: deduplicating across users would let anyone
//! who knows a hash obtain the content. Authorisation and retention are decided elsewhere.

mod changes;
mod manifest;
mod pack;
mod store;
mod unpack;

pub use changes::{Change, changes};
pub use manifest::{Entry, Hash, Manifest, ManifestError};
pub use pack::{IGNORE_FILE, PackError, PackedDir};
pub use store::{Store, StoreError};
pub use unpack::{Owner, UnpackError, unpack};
