//! The interface between warpyard and its clients: human-readable quantities, the job document and its validation, the
//! wire types of the HTTP API and a typed client. Nothing here schedules, stores or serves.

pub mod client;
pub mod job;
pub mod private_dir;
pub mod problem;
pub mod proof;
pub mod quantity;
pub mod secrets;
pub mod selector;
pub mod text;
pub mod token;
pub mod wire;
