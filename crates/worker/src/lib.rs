//! warpyard worker.

pub mod probe;
