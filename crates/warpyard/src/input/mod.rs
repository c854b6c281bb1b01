//! Files given on the command line: read, parsed with the field an error is in, and entries of registries found by name.

mod file;
mod json;
mod registry;

pub(crate) use file::{bad_file, read_file, write_file};
pub(crate) use json::parse_json;
pub(crate) use registry::{find_by_name, help_list};
