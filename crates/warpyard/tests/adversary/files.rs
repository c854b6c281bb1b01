//! Files: what tasks leave behind, name, and unpack.
