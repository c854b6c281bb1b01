//! warpyard dag.
