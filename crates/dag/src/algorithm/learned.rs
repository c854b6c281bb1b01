//! The learned planner with the network that ships with the program; see [`crate::learned`].

use super::definition::{Algorithm, Plan};
use crate::learned::{Network, plan_with};

pub(super) const DEF: Algorithm = Algorithm {
    name: "learned",
    summary: "a small network corrects priorities and leans the choice of machine, in a single pass",
    origin: "warpyard; trained on searches, then on its own schedules",
    searches: false,
    plan: |instance, _| Plan::of(plan_with(instance, Network::shipped())),
};
