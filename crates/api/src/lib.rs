//! What warpyard and its callers say to each other: the quantities people write, the job document and its checks, the
//! wire types of the HTTP interface and a typed client for it. Nothing here schedules, stores or serves.

pub mod client;
pub mod job;
pub mod private_dir;
pub mod problem;
pub mod proof;
pub mod quantity;
pub mod secrets;
pub mod selector;
pub mod text;
pub mod wire;
