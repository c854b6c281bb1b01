//! What the commands without a server share: reading the files they are given, finding what is asked for by name, and
//! saying how far a long computation is.

mod file;
mod named;
mod progress;

pub(crate) use file::{bad_file, keep, text_of};
pub(crate) use named::{find, listed};
pub(crate) use progress::Line;
