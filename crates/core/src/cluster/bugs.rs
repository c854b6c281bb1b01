//! Deliberate mistakes, to know that the fault simulator finds such. Only a build with the feature `bugs` has them, and
//! nothing but the test of that simulator asks for one.

use super::Cluster;
use crate::pool::Placement;

/// A mistake made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A report counts whichever attempt of its task it names.
    SkipTheFence,
    /// What an ended attempt had is given back twice.
    FreeTwice,
}

impl Cluster {
    /// The same cluster with a mistake in it.
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
