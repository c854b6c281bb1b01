//! One file for each command: what it takes, what it asks the server, and which part of `show` prints the answer.

pub(crate) mod act;
pub(crate) mod admin;
pub(crate) mod allocate;
pub(crate) mod completions;
pub(crate) mod down;
pub(crate) mod gpus;
pub(crate) mod history;
pub(crate) mod info;
pub(crate) mod logs;
pub(crate) mod plan;
pub(crate) mod policies;
pub(crate) mod policy;
pub(crate) mod priority;
pub(crate) mod ps;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod submit;
pub(crate) mod up;
pub(crate) mod wait;
pub(crate) mod why;
pub(crate) mod workers;
