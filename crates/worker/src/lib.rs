//! warpyard worker.

pub mod probe;
pub mod supervise;
