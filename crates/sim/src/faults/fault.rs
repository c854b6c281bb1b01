//! Kinds of faults, and how long they last.

use crate::random::Random;
use warpyard_core::Span;
use warpyard_core::pool::DeviceState;

/// Kind of fault.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The server crashes between two turns.
    ServerCrash,
    /// The server crashes in its next turn before the batch is committed.
    CrashBeforeCommit,
    /// The server crashes in its next turn with the batch half written.
    TornWrite,
    /// The server crashes in its next turn after the commit, before anything is acknowledged.
    CrashAfterCommit,
    /// An agent crashes; its supervisors and processes continue.
    AgentCrash,
    /// A machine crashes with everything on it.
    MachineCrash,
    /// A machine is cut off from the network.
    Cut,
    /// A device fails, or a foreign process occupies it.
    Device(DeviceState),
    /// A device is replaced by another.
    DeviceReplaced,
    /// The server's clock jumps.
    ClockJump,
}

impl Fault {
    pub(super) fn random(random: &mut Random) -> Fault {
        match random.below(20) {
            0 | 1 => Fault::ServerCrash,
            2 | 3 => Fault::CrashBeforeCommit,
            4 => Fault::TornWrite,
            5 | 6 => Fault::CrashAfterCommit,
            7..=9 => Fault::AgentCrash,
            10 | 11 => Fault::MachineCrash,
            12..=14 => Fault::Cut,
            15 => Fault::Device(DeviceState::Gone),
            16 | 17 => Fault::Device(DeviceState::Foreign),
            18 => Fault::DeviceReplaced,
            _ => Fault::ClockJump,
        }
    }
}

/// Duration of a fault: mostly short, sometimes longer than a lease.
pub(super) fn duration(random: &mut Random) -> Span {
    Span::from_secs(10f64.powf(random.unit() * 2.3 - 0.7))
}

/// Size of a clock jump in microseconds: mostly small, backward as often as forward.
pub(super) fn clock_jump(random: &mut Random) -> i64 {
    let by = (10f64.powf(random.unit() * 4.0 - 1.0) * 1e6) as i64;
    if random.unit() < 0.5 { by } else { -by.min(600_000_000) }
}
