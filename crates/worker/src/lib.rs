//! warpyard worker.
