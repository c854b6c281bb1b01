//! Injected bugs, which the fault simulator must find. Only a build with the feature `bugs` has them, and only the
//! test of that simulator asks for one.

use super::Cluster;
use crate::pool::Placement;

/// Injected bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A report counts whichever attempt of its task it names (no fencing).
    SkipTheFence,
    /// The resources of an ended attempt are released twice.
    FreeTwice,
}

impl Cluster {
    /// Cluster with an injected bug.
    pub fn with_bug(self, bug: Bug) -> Cluster {
        Cluster { bug: Some(bug), ..self }
    }

    pub(super) fn skips_the_fence(&self) -> bool {
        self.bug == Some(Bug::SkipTheFence)
    }

    pub(super) fn free_again(&mut self, placement: &Placement) {
        if self.bug == Some(Bug::FreeTwice) {
            self.derived.pool.release_carelessly(placement);
        }
    }
}
