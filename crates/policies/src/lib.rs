//! warpyard policies.
