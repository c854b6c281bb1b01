//! warpyard server.
