//! Checks of the server that answers here.

use super::Finding;
use std::time::{SystemTime, UNIX_EPOCH};
use warpyard_api::client::Client;
use warpyard_api::quantity::Micros;
use warpyard_api::text::shown;
use warpyard_api::wire::{ClaimState, GpuTask, GpuView, ProcessBound};
use warpyard_worker::hold::held;

/// A holder who says nothing for so long is likely gone.
const SILENT_MS: i64 = 600_000;

pub(super) fn server(client: Option<&Client>) -> Vec<Finding> {
    let start = "start one with `warpyard up`, or install it with `warpyard install`";
    let Some(client) = client else { return vec![Finding::warning("server", "none is known here", start)] };
    let info = match client.info() {
        Ok(info) => info,
        Err(e) => return vec![Finding::bad("server", e.to_string(), start)],
    };
    let own = env!("CARGO_PKG_VERSION");
    let found = format!(
        "version {} at {}, {} waiting, {} running",
        info.version,
        client.url(),
        info.waiting,
        info.running
    );
    let answers = match info.version == own {
        true => Finding::fine("server", found),
        false => Finding::warning(
            "server",
            format!("{found}; this program is {own}"),
            "restart the server with this program: tasks that run are found again",
        ),
    };
    std::iter::once(answers).chain(info.processes.map(bomb)).collect()
}

/// Whether a task that starts processes without end is kept from taking the machine.
fn bomb(bound: ProcessBound) -> Finding {
    let most = bound.most;
    match bound.contained {
        true => Finding::fine("fork bombs", format!("contained: a task has at most {most} processes")),
        false => Finding::warning(
            "fork bombs",
            format!("not contained by cgroups: a task found with more than {most} processes is ended"),
            "run the server as a service (`warpyard install`), or set max_processes where there are old cgroups only",
        ),
    }
}

/// GPUs that are held by someone who does nothing with them.
pub(super) fn idle_gpus(client: &Client) -> Vec<Finding> {
    let gpus = client.gpus().unwrap_or_default();
    let held = gpus.iter().flat_map(|gpu| gpu.tasks.iter().map(move |task| (gpu, task)));
    let idle = held.filter_map(|(gpu, task)| Some((gpu, task, task.note.as_ref()?)));
    let finding = |(gpu, task, note): (&GpuView, &GpuTask, &String)| {
        let found = format!(
            "{} is held by {} of {}: {}",
            shown(&gpu.id),
            shown(&task.task),
            shown(&task.user),
            shown(note)
        );
        let remedy = format!(
            "ask {}, or end it: `warpyard cancel {}`; idle_release in the configuration ends such by itself",
            shown(&task.user),
            shown(&task.task)
        );
        Finding::warning("idle gpus", found, remedy)
    };
    idle.map(finding).collect()
}

/// GPUs that someone uses without having asked.
pub(super) fn foreign_gpus(client: &Client) -> Vec<Finding> {
    let gpus = client.gpus().unwrap_or_default();
    let unavailable = gpus.into_iter().filter_map(|gpu| Some((gpu.id, gpu.foreign_bytes, gpu.unavailable?)));
    let finding = |(id, foreign, why): (String, u64, String)| {
        let remedy = match foreign {
            0 => "`warpyard workers` and the kernel's log say more".to_owned(),
            _ => "ask its user, or make it a claim of theirs: `warpyard adopt PID`".to_owned(),
        };
        Finding::warning("gpus", format!("{}: {}", shown(&id), shown(&why)), remedy)
    };
    unavailable.map(finding).collect()
}

/// Claims for processes that are gone, or whose holders fell silent.
pub(super) fn claims(client: &Client) -> Vec<Finding> {
    let claims = match client.claims() {
        Ok(claims) => claims,
        Err(e) => return vec![Finding::warning("claims", e.to_string(), "look at the server's log")],
    };
    let stale = |pid: i32| held(pid).is_none();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
    let mut findings = Vec::new();
    for claim in claims.iter().filter(|c| c.state == ClaimState::Held) {
        if let Some(pid) = claim.pid.filter(|&pid| stale(pid)) {
            let found = format!(
                "claim {} of {} is for process {pid}, which is gone",
                claim.claim,
                shown(&claim.user)
            );
            findings.push(Finding::bad(
                "claims",
                found,
                format!("let it go: `warpyard release {}`", claim.claim),
            ));
        }
        let silent = claim.last_heard_at.map_or(0, |heard| now - heard.as_millis());
        if claim.pid.is_none() && silent > SILENT_MS {
            let (silent, user) = (Micros(silent as u64 / 1000 * 1_000_000), shown(&claim.user));
            findings.push(Finding::warning(
                "claims",
                format!("nothing was heard of the holder of claim {} of {user} for {silent}", claim.claim),
                format!("let it go: `warpyard release {}`; one with a lease ends by itself", claim.claim),
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::fine("claims", format!("{}, none stale", claims.len())));
    }
    findings
}
