//! What a user of the real binary sees, one server per test: each behaviour the first issue promises that shows from
//! outside. How the command line itself reads and prints is in `command_line.rs`, being killed in `kills.rs`.

mod claims;
mod closed;
mod devices;
mod estimated;
mod failures;
mod jobs;
mod keeping;
mod machine;
mod outputs;
mod planned;
mod replaying;
mod running;
mod shapes;
mod shares;
mod simulated;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../support/mod.rs"]
mod support;
