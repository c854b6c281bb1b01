//! warpyard sim.
