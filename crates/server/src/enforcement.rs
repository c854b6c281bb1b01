//! What the worker inside enforces on tasks, and what is to be said where it cannot.

use std::sync::{Arc, Mutex};
use warpyard_api::wire::{EnforcementView, JobView, LimitEnforcement};
use warpyard_core::cluster::Job;
use warpyard_worker::agent::Watched;
use warpyard_worker::probe::Vendor;
use warpyard_worker::supervise::{Bounds, CgroupParent};

/// What is enforced; nothing where there is no worker inside.
pub(crate) fn of(bounds: Option<&Bounds>, watched: Option<&Arc<Mutex<Watched>>>) -> Option<EnforcementView> {
    let bounds = bounds?;
    let vendor = watched.map(|w| w.lock().expect("nobody panics while looking at devices").vendor());
    let real = matches!(vendor, Some(Vendor::Nvidia | Vendor::Amd));
    let enforced =
        |by: &Result<CgroupParent, String>| LimitEnforcement { enforced: by.is_ok(), why: by.clone().err() };
    Some(EnforcementView {
        memory: enforced(&bounds.memory),
        cpus: enforced(&bounds.cpu),
        devices: real.then(|| enforced(&bounds.devices)),
    })
}

/// Says of a job which limits it requested that are not enforced.
pub(crate) fn note_unenforced(bounds: Option<&Bounds>, job: &Job, view: &mut JobView) {
    let Some(bounds) = bounds else { return };
    let memory = job.spec.tasks.iter().any(|task| task.needs.memory > 0 && task.claim.is_none());
    let cpus = job.spec.tasks.iter().any(|task| task.cpu_quota.is_some());
    if let (true, Err(why)) = (memory, &bounds.memory) {
        view.notes.push(format!("the memory it requested is set aside but not enforced: {why}"));
    }
    if let (true, Err(why)) = (cpus, &bounds.cpu) {
        view.notes.push(format!("the CPUs it requested are set aside but not enforced: {why}"));
    }
}

/// What is said when the server starts: limits that are not enforced, and why.
pub(crate) fn unenforced(view: EnforcementView) -> Vec<String> {
    let EnforcementView { memory, cpus, devices } = view;
    let mut said = match (memory.why, cpus.why) {
        (Some(why), Some(other)) if why == other => {
            vec![format!("--memory and --cpus are not enforced: {why}")]
        }
        (memory, cpus) => {
            let memory = memory.map(|why| format!("--memory is not enforced: {why}"));
            let cpus = cpus.map(|why| format!("--cpus is not enforced: {why}"));
            memory.into_iter().chain(cpus).collect()
        }
    };
    let advisory = "a task can open GPUs it was not granted (CUDA_VISIBLE_DEVICES is advisory)";
    said.extend(devices.and_then(|devices| devices.why).map(|why| format!("{advisory}: {why}")));
    said
}
