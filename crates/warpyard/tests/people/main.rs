//! A shared machine with real accounts: tasks run as whoever submitted them, and what is one person's no other may
//! touch. Accounts are made for each test and removed with it, which takes root; elsewhere these tests say so and stop.

mod apart;
mod bounds;
mod identity;
#[path = "../support/machine.rs"]
mod machine;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../support/mod.rs"]
mod support;
