//! Directories as they were at one moment: what is in them, kept by content, put back elsewhere, compared with now.
//!
//! A [`Manifest`] names every directory, file and link with its mode, and the content of files by its hash; its own hash
//! names the snapshot. [`Packed`] makes one of a directory with the rights of whoever calls, so that nothing is read that
//! they could not read. A [`Store`] keeps contents once each, for one person: sharing them among people would let whoever
//! knows a hash have what is behind it. Who may do what, and when snapshots go, is decided elsewhere.

mod changes;
mod manifest;
mod pack;
mod store;
mod unpack;

pub use changes::{Change, changes};
pub use manifest::{Entry, Hash, Manifest, NotAManifest};
pub use pack::{IGNORE_FILE, PackError, Packed};
pub use store::{Store, StoreError};
pub use unpack::{Owner, UnpackError, unpack};
