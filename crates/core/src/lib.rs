//! warpyard core.
