//! Throughputs of profiles by GPU type, from a table in Gavel's published format, for the engine to use and for
//! simulated tasks to run by.

use crate::input::{parse_json, read_file};
use crate::simulation::Costs;
use crate::usage_error::UsageError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use warpyard_allocate::{Profile, ThroughputTable};
use warpyard_api::wire;
use warpyard_core::Command;
use warpyard_core::shares::Speed;
use warpyard_sim::StepSpeeds;

/// Types of the published table for jobs whose GPUs are spread over servers, which no task here has.
const SPREAD: &str = "_unconsolidated";

/// Throughputs by profile and number of GPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throughputs(Arc<BTreeMap<String, BTreeMap<u16, Arc<StepSpeeds>>>>);

impl Throughputs {
    pub(crate) fn read(file: &str) -> Result<Throughputs, UsageError> {
        let table: ThroughputTable = parse_json(file, &read_file(file)?)?;
        let mut paces = PaceTable::default();
        for kind in table.types().filter(|kind| !kind.ends_with(SPREAD)) {
            let name = kind.to_ascii_lowercase();
            for profile in table.profiles(kind) {
                if let Some(speed) = table.alone(kind, profile) {
                    paces.of(profile).alone.insert(name.clone(), speed);
                }
            }
            for (one, other, [speed, of_other]) in table.pairs(kind) {
                let beside = &mut paces.of(one).beside;
                beside.entry(other.name.clone()).or_default().insert(name.clone(), speed);
                // Either order implies the other, where that is not said too.
                let beside = &mut paces.of(other).beside;
                beside.entry(one.name.clone()).or_default().entry(name.clone()).or_insert(of_other);
            }
        }
        Ok(Throughputs(Arc::new(paces.shared())))
    }

    /// A copy with a throughput of 0 for every GPU type the table lacks, as the simulation assumes.
    pub(crate) fn on(&self, kinds: &BTreeSet<String>) -> Throughputs {
        let mut all = BTreeMap::clone(&self.0);
        for pace in all.values_mut().flat_map(BTreeMap::values_mut) {
            let alone = &mut Arc::make_mut(pace).alone;
            for kind in kinds {
                alone.entry(kind.clone()).or_insert(0.0);
            }
        }
        Throughputs(Arc::new(all))
    }

    /// The throughputs of a profile on this many GPUs, if known.
    pub(crate) fn of(&self, profile: &str, gpus: u16) -> Option<Arc<StepSpeeds>> {
        self.0.get(profile)?.get(&gpus).cloned()
    }

    /// Whether throughputs of pairs that share GPUs are known.
    pub(crate) fn know_pairs(&self) -> bool {
        self.0.values().flat_map(BTreeMap::values).any(|pace| !pace.beside.is_empty())
    }

    /// The table in the form of the HTTP interface.
    pub(crate) fn to_wire(&self) -> wire::Throughputs {
        let mut throughputs = Vec::new();
        for (profile, by_gpus) in self.0.iter() {
            for (&gpus, pace) in by_gpus {
                let said =
                    |kind: &String, &steps_per_second: &f64, beside: Option<&String>| wire::Throughput {
                        profile: profile.clone(),
                        gpus,
                        gpu_type: kind.clone(),
                        steps_per_second,
                        measured: false,
                        beside: beside.cloned(),
                    };
                throughputs.extend(pace.alone.iter().map(|(kind, speed)| said(kind, speed, None)));
                for (other, by_kind) in &pace.beside {
                    throughputs.extend(by_kind.iter().map(|(kind, speed)| said(kind, speed, Some(other))));
                }
            }
        }
        wire::Throughputs { throughputs, cost_per_hour: BTreeMap::new() }
    }

    /// The command that sets throughputs and prices in the engine; none if there are none.
    pub(crate) fn command(&self, Costs(costs): Costs) -> Option<Command> {
        let speeds: Vec<Speed> = self.to_wire().throughputs.into_iter().map(speed).collect();
        (!speeds.is_empty() || !costs.is_empty()).then_some(Command::SetSpeeds { speeds, costs })
    }
}

fn speed(said: wire::Throughput) -> Speed {
    let wire::Throughput { profile, gpus, gpu_type, steps_per_second, measured, beside } = said;
    Speed { profile, gpus, kind: gpu_type, steps_per_second, measured, beside }
}

/// The table while it is being read.
#[derive(Default)]
struct PaceTable(BTreeMap<String, BTreeMap<u16, StepSpeeds>>);

impl PaceTable {
    fn of(&mut self, profile: &Profile) -> &mut StepSpeeds {
        let gpus = u16::try_from(profile.gpus).unwrap_or(u16::MAX);
        let pace = self.0.entry(profile.name.clone()).or_default().entry(gpus).or_default();
        if pace.profile.is_empty() {
            pace.profile.clone_from(&profile.name);
        }
        pace
    }

    fn shared(self) -> BTreeMap<String, BTreeMap<u16, Arc<StepSpeeds>>> {
        let shared = |by_gpus: BTreeMap<u16, StepSpeeds>| {
            by_gpus.into_iter().map(|(gpus, pace)| (gpus, Arc::new(pace))).collect()
        };
        self.0.into_iter().map(|(name, by_gpus)| (name, shared(by_gpus))).collect()
    }
}
