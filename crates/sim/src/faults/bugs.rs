//! Deliberate mistakes, to know that the simulator finds such. They exist only in a build with the feature `bugs`, which
//! nothing but the test of the simulator itself asks for.

use super::disk::Disk;
use warpyard_core::Cluster;
use warpyard_core::agent::Agent;

/// A mistake made on purpose.
#[cfg(feature = "bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A report counts whichever attempt of its task it names.
    SkipTheFence,
    /// Callers, workers and watchers hear of events before the disk has them.
    AnswerBeforeCommit,
    /// What an ended attempt had is given back twice.
    FreeTwice,
    /// Attempts that run elsewhere on loss go on when their worker's lease expires.
    OutliveTheLease,
    /// A worker launches attempts while one that the server gave up is still there.
    LaunchBesideLingering,
    /// A worker forgets an end once it sent it, whether or not that was received.
    ForgetUndelivered,
    /// A worker takes what another log left for its own.
    AdoptAnotherLogs,
}

/// The mistake of a run; in any build without the feature, none.
#[derive(Clone, Copy, Default)]
pub(super) struct InjectedBug {
    #[cfg(feature = "bugs")]
    pub(super) bug: Option<Bug>,
}

impl InjectedBug {
    /// Puts the mistake into a state.
    pub(super) fn infect(self, cluster: Cluster) -> Cluster {
        #[cfg(feature = "bugs")]
        return match self.bug {
            Some(Bug::SkipTheFence) => cluster.with_bug(warpyard_core::cluster::Bug::SkipTheFence),
            Some(Bug::FreeTwice) => cluster.with_bug(warpyard_core::cluster::Bug::FreeTwice),
            _ => cluster,
        };
        #[cfg(not(feature = "bugs"))]
        cluster
    }

    /// Puts the mistake into an agent.
    pub(super) fn infect_agent(self, agent: Agent) -> Agent {
        #[cfg(feature = "bugs")]
        return agent.with_bug(match self.bug {
            Some(Bug::OutliveTheLease) => Some(warpyard_core::agent::Bug::OutliveTheLease),
            Some(Bug::LaunchBesideLingering) => Some(warpyard_core::agent::Bug::LaunchBesideLingering),
            Some(Bug::ForgetUndelivered) => Some(warpyard_core::agent::Bug::ForgetUndelivered),
            Some(Bug::AdoptAnotherLogs) => Some(warpyard_core::agent::Bug::AdoptAnotherLogs),
            _ => None,
        });
        #[cfg(not(feature = "bugs"))]
        agent
    }

    /// Puts the mistake into a disk.
    pub(super) fn infect_disk(self, disk: &mut Disk) {
        #[cfg(feature = "bugs")]
        {
            disk.lazy = self.bug == Some(Bug::AnswerBeforeCommit);
        }
        #[cfg(not(feature = "bugs"))]
        let _ = disk;
    }
}
