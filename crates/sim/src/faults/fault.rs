//! What goes wrong, and when it is right again.

use crate::random::Random;
use warpyard_core::Span;
use warpyard_core::pool::DeviceState;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The server dies between two turns.
    ServerDies,
    /// The server dies in its next turn: the batch is lost,
    DiesBeforeCommit,
    /// half written,
    TornWrite,
    /// or kept, but nobody is told.
    DiesAfterCommit,
    /// An agent dies; what it started goes on.
    AgentDies,
    /// A machine goes down with everything on it.
    MachineDies,
    /// Nothing gets through to a machine.
    Cut,
    /// A device vanishes, or someone else uses it.
    Device(DeviceState),
    /// A device is exchanged for another.
    NewDevice,
    /// The server's clock is set.
    ClockJumps,
}

impl Fault {
    pub(super) fn any(random: &mut Random) -> Fault {
        match random.below(20) {
            0 | 1 => Fault::ServerDies,
            2 | 3 => Fault::DiesBeforeCommit,
            4 => Fault::TornWrite,
            5 | 6 => Fault::DiesAfterCommit,
            7..=9 => Fault::AgentDies,
            10 | 11 => Fault::MachineDies,
            12..=14 => Fault::Cut,
            15 => Fault::Device(DeviceState::Gone),
            16 | 17 => Fault::Device(DeviceState::Foreign),
            18 => Fault::NewDevice,
            _ => Fault::ClockJumps,
        }
    }
}

/// How long something stays wrong: mostly short, sometimes longer than a lease.
pub(super) fn lasting(random: &mut Random) -> Span {
    Span::from_secs(10f64.powf(random.unit() * 2.3 - 0.7))
}

/// How far a clock is set, in microseconds: mostly a little, back as often as ahead.
pub(super) fn jump(random: &mut Random) -> i64 {
    let by = (10f64.powf(random.unit() * 4.0 - 1.0) * 1e6) as i64;
    if random.unit() < 0.5 { by } else { -by.min(600_000_000) }
}
