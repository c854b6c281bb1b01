//! Injected bugs: mutations that prove that the fault simulator finds such bugs. They exist only in builds with the feature
//! `bugs`, which only the simulator's own test enables.

use super::disk::Disk;
use warpyard_core::Cluster;
use warpyard_core::agent::Agent;

/// Bug to inject.
#[cfg(feature = "bugs")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A report about a stale attempt is accepted.
    SkipTheFence,
    /// Events are acknowledged and published before they are on disk.
    AnswerBeforeCommit,
    /// The resources of an ended attempt are released twice.
    FreeTwice,
    /// Attempts with `on_lost = rerun` continue after their worker's lease has expired.
    OutliveTheLease,
    /// A worker launches attempts while one that the server has given up is still running.
    LaunchBesideLingering,
    /// A worker forgets an end once it has sent it, whether or not it was received.
    ForgetUndelivered,
    /// A worker adopts attempts of another log.
    AdoptAnotherLogs,
    /// A worker whose session is not the latest keeps it, so that the server drops its reports as late.
    KeepStaleSession,
}

/// Bug of a run; always none in builds without the feature.
#[derive(Clone, Copy, Default)]
pub(super) struct InjectedBug {
    #[cfg(feature = "bugs")]
    pub(super) bug: Option<Bug>,
}

impl InjectedBug {
    /// Injects the bug into a state.
    pub(super) fn inject(self, cluster: Cluster) -> Cluster {
        #[cfg(feature = "bugs")]
        return match self.bug {
            Some(Bug::SkipTheFence) => cluster.with_bug(warpyard_core::cluster::Bug::SkipTheFence),
            Some(Bug::FreeTwice) => cluster.with_bug(warpyard_core::cluster::Bug::FreeTwice),
            _ => cluster,
        };
        #[cfg(not(feature = "bugs"))]
        cluster
    }

    /// Injects the bug into an agent.
    pub(super) fn inject_agent(self, agent: Agent) -> Agent {
        #[cfg(feature = "bugs")]
        return agent.with_bug(match self.bug {
            Some(Bug::OutliveTheLease) => Some(warpyard_core::agent::Bug::OutliveTheLease),
            Some(Bug::LaunchBesideLingering) => Some(warpyard_core::agent::Bug::LaunchBesideLingering),
            Some(Bug::ForgetUndelivered) => Some(warpyard_core::agent::Bug::ForgetUndelivered),
            Some(Bug::AdoptAnotherLogs) => Some(warpyard_core::agent::Bug::AdoptAnotherLogs),
            Some(Bug::KeepStaleSession) => Some(warpyard_core::agent::Bug::KeepStaleSession),
            _ => None,
        });
        #[cfg(not(feature = "bugs"))]
        agent
    }

    /// Injects the bug into a disk.
    pub(super) fn inject_disk(self, disk: &mut Disk) {
        #[cfg(feature = "bugs")]
        {
            disk.lazy = self.bug == Some(Bug::AnswerBeforeCommit);
        }
        #[cfg(not(feature = "bugs"))]
        let _ = disk;
    }
}
