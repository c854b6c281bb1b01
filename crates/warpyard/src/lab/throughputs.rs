//! How fast profiles run on types of GPU, read from a table as Gavel publishes it, for the engine to know and for
//! simulated tasks to run by.

use super::{bad_file, text_of};
use crate::wrong::Wrong;
use std::collections::BTreeMap;
use std::sync::Arc;
use warpyard_allocate::ThroughputTable;
use warpyard_api::wire;
use warpyard_core::Command;
use warpyard_core::shares::Speed;
use warpyard_sim::workload::PerSecond;

/// Types of the published table for jobs whose GPUs are spread over servers, which no task here has.
const SPREAD: &str = "_unconsolidated";

/// Steps a second by profile, number of GPUs and type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throughputs(Arc<BTreeMap<String, BTreeMap<u16, PerSecond>>>);

impl Throughputs {
    pub(crate) fn read(file: &str) -> Result<Throughputs, Wrong> {
        let table: ThroughputTable = serde_json::from_str(&text_of(file)?).map_err(|e| bad_file(file, e))?;
        let mut speeds: BTreeMap<String, BTreeMap<u16, BTreeMap<String, f64>>> = BTreeMap::new();
        for kind in table.types().filter(|kind| !kind.ends_with(SPREAD)) {
            for profile in table.profiles(kind) {
                let gpus = u16::try_from(profile.gpus).unwrap_or(u16::MAX);
                if let Some(speed) = table.alone(kind, profile) {
                    let by_kind = speeds.entry(profile.name.clone()).or_default().entry(gpus).or_default();
                    by_kind.insert(kind.to_ascii_lowercase(), speed);
                }
            }
        }
        let shared = |by_gpus: BTreeMap<u16, BTreeMap<String, f64>>| {
            by_gpus.into_iter().map(|(gpus, by_kind)| (gpus, Arc::new(by_kind))).collect()
        };
        Ok(Throughputs(Arc::new(speeds.into_iter().map(|(name, by_gpus)| (name, shared(by_gpus))).collect())))
    }

    /// How fast a profile is on so many GPUs of each type, where anyone said.
    pub(crate) fn of(&self, profile: &str, gpus: u16) -> Option<PerSecond> {
        self.0.get(profile)?.get(&gpus).cloned()
    }

    /// The same as the server is told it.
    pub(crate) fn said(&self) -> wire::Throughputs {
        let mut throughputs = Vec::new();
        for (profile, by_gpus) in self.0.iter() {
            for (&gpus, by_kind) in by_gpus {
                throughputs.extend(by_kind.iter().map(|(kind, &steps_per_second)| wire::Throughput {
                    profile: profile.clone(),
                    gpus,
                    gpu_type: kind.clone(),
                    steps_per_second,
                    measured: false,
                }));
            }
        }
        wire::Throughputs { throughputs, cost_per_hour: BTreeMap::new() }
    }

    /// What the engine is told of them; nothing where there is nothing to tell.
    pub(crate) fn command(&self) -> Option<Command> {
        let speeds: Vec<Speed> = self.said().throughputs.into_iter().map(speed).collect();
        (!speeds.is_empty()).then(|| Command::SetSpeeds { speeds, costs: BTreeMap::new() })
    }
}

fn speed(said: wire::Throughput) -> Speed {
    let wire::Throughput { profile, gpus, gpu_type, steps_per_second, measured } = said;
    Speed { profile, gpus, kind: gpu_type, steps_per_second, measured }
}
