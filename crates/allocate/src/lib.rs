//! warpyard allocate.
