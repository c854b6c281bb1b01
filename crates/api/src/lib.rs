//! warpyard api.
