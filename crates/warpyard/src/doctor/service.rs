//! Checks of the server that answers here.

use super::Finding;
use crate::show::{counted, now};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use warpyard_api::client::Client;
use warpyard_api::quantity::Micros;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{
    ClaimState, ClaimView, EnforcementView, ForeignProcess, GpuTask, GpuView, LimitEnforcement, ProcessLimit,
    Timestamp,
};

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
        "version {} at {}, {}, {} waiting, {} running",
        info.version,
        client.url(),
        counted(info.gpus, "GPU"),
        info.waiting,
        info.running
    );
    let answers = match info.version == own {
        true => Finding::fine("server", found),
        false => Finding::warning(
            "server",
            format!("{found}; this program is {own}"),
            "restart the server with this program; running tasks continue",
        ),
    };
    let enforced = info.enforces.map(limits).unwrap_or_default();
    let exposed = exposed(&info.address);
    std::iter::once(answers).chain(exposed).chain(info.processes.map(bomb)).chain(enforced).collect()
}

/// Whether what a task requested and was granted is also the most it can have.
fn limits(EnforcementView { memory, cpus, devices }: EnforcementView) -> Vec<Finding> {
    let remedy = "run the server as root, or as a service (`warpyard install`) on a machine with cgroups";
    let finding = |check: &'static str, of: LimitEnforcement, fine: &str, not: &str| match of.enforced {
        true => Finding::fine(check, fine),
        false => Finding::warning(
            check,
            format!("{not}: {}", escape_controls(&of.why.unwrap_or_default())),
            remedy,
        ),
    };
    let mut findings = vec![
        finding("memory", memory, "enforced: a task over its --memory is killed", "--memory is not enforced"),
        finding(
            "cpus",
            cpus,
            "enforced: a task has no more CPU time than its --cpus",
            "--cpus is not enforced",
        ),
    ];
    if let Some(devices) = devices {
        let fine = "enforced: a task can open only the GPUs it was granted";
        let not = "not enforced, CUDA_VISIBLE_DEVICES is advisory: a task can open GPUs it was not granted";
        findings.push(finding("devices", devices, fine, not));
    }
    findings
}

/// Whether pages are reached over the network without encryption.
fn exposed(address: &str) -> Option<Finding> {
    let listens: SocketAddr = address.strip_prefix("http://")?.parse().ok()?;
    let found = format!(
        "{listens} is reached over the network by plain HTTP: what is sent can be read on the way, and browsers send the \
         cookies of its pages to every port of this machine"
    );
    let remedy = "leave --tls off out, or listen on 127.0.0.1 and come through an SSH tunnel or a TLS proxy (named in `hosts` of \
                  the configuration)";
    (!listens.ip().to_canonical().is_loopback()).then(|| Finding::warning("network", found, remedy))
}

/// Data directory of a shared server, which the caller may not write.
pub(super) fn data_of_everyones(client: Option<&Client>, own: &Path) -> Option<PathBuf> {
    let client = client.filter(|client| client.url().starts_with("unix:"))?;
    let theirs = client.info().ok().map(|info| PathBuf::from(info.data))?;
    let is_own = own.canonicalize().is_ok_and(|own| own == theirs);
    (!is_own).then_some(theirs)
}

/// Whether a task that starts processes without end is kept from taking the machine.
fn bomb(bound: ProcessLimit) -> Finding {
    let most = bound.most;
    match bound.contained {
        true => Finding::fine("fork bombs", format!("contained: a task has at most {most} processes")),
        false => Finding::warning(
            "fork bombs",
            format!("not contained by cgroups: a task found with more than {most} processes is ended"),
            "run the server as a service (`warpyard install`), or set max_processes where there is only cgroup v1",
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
            escape_controls(&gpu.id),
            escape_controls(&task.task),
            escape_controls(&task.user),
            escape_controls(note)
        );
        let remedy = format!(
            "ask {}, or cancel it: `warpyard cancel {}`; idle_release in the configuration ends such tasks automatically",
            escape_controls(&task.user),
            escape_controls(&task.task)
        );
        Finding::warning("idle gpus", found, remedy)
    };
    idle.map(finding).collect()
}

/// GPUs that someone uses without having asked.
pub(super) fn foreign_gpus(client: &Client) -> Vec<Finding> {
    let gpus = client.gpus().unwrap_or_default();
    let finding = |gpu: GpuView| {
        let (id, why) = (escape_controls(&gpu.id), gpu.unavailable?);
        let (found, remedy) = match (&gpu.foreign[..], gpu.foreign_bytes) {
            ([ForeignProcess { pid, user, .. }, ..], _) => {
                let user = user.as_deref().map_or("someone".into(), escape_controls);
                let remedy =
                    format!("ask {user}, or have them make it a claim of theirs: `warpyard adopt {pid}`");
                (format!("{id}: in use by process {pid} of {user}"), remedy)
            }
            ([], 1..) => {
                let remedy = "ask its user, who can make it a claim: `warpyard adopt PID`";
                (format!("{id}: {}", escape_controls(&why)), remedy.to_owned())
            }
            ([], 0) => (
                format!("{id}: {}", escape_controls(&why)),
                "`warpyard workers` and the kernel's log say more".to_owned(),
            ),
        };
        Some(Finding::warning("gpus", found, remedy))
    };
    gpus.into_iter().filter_map(finding).collect()
}

/// Claims for processes that are gone, or whose holders fell silent.
pub(super) fn claims(client: &Client) -> Vec<Finding> {
    match client.claims() {
        Ok(claims) => stale(&claims, now(), is_gone),
        Err(e) => vec![Finding::warning("claims", e.to_string(), "look at the server's log")],
    }
}

/// Whether there is no such process. One of others' may be hidden in `/proc`; the kernel still knows it.
fn is_gone(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

fn stale(claims: &[ClaimView], now: Timestamp, is_gone: impl Fn(i32) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for claim in claims.iter().filter(|c| c.state == ClaimState::Held) {
        let (id, user) = (escape_controls(&claim.claim), escape_controls(&claim.user));
        if let Some(pid) = claim.pid.filter(|&pid| is_gone(pid)) {
            findings.push(Finding::bad(
                "claims",
                format!("claim {id} of {user} is for process {pid}, which is gone"),
                format!("release it: `warpyard release {id}`"),
            ));
        }
        let silent = claim.last_heard_at.map_or(0, |heard| now.as_millis() - heard.as_millis());
        if claim.pid.is_none() && silent > SILENT_MS {
            let silent = Micros(silent as u64 / 1000 * 1_000_000);
            findings.push(Finding::warning(
                "claims",
                format!("nothing was heard of the holder of claim {id} of {user} for {silent}"),
                format!("release it: `warpyard release {id}`; one with a lease ends by itself"),
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::fine("claims", format!("{}, none stale", claims.len())));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;
    use serde_json::{Value, json};

    /// A claim as a server tells of it, with something said otherwise.
    fn claim(more: Value) -> ClaimView {
        let mut claim = json!({"claim": "7", "name": "notebook", "user": "ann", "state": "held", "gpus": 1,
            "registered_at": "2026-11-16T08:00:00Z", "last_heard_at": "2026-11-16T09:00:00Z"});
        let fields = claim.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        serde_json::from_value(claim).expect("a claim")
    }

    fn found(claim: ClaimView, now: &str) -> Vec<Finding> {
        stale(&[claim], now.parse().expect("a moment"), |pid| pid == 666)
    }

    #[test]
    fn a_holder_who_fell_silent_is_pointed_out_with_what_to_do() {
        let (soon, late) = ("2026-11-16T09:09:59Z", "2026-11-16T09:25:00Z");
        let findings = found(claim(json!({})), late);
        let [only] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(only.health, Health::Warning);
        assert_eq!(only.found, "nothing was heard of the holder of claim 7 of ann for 25m");
        assert!(
            only.remedy.as_deref().is_some_and(|remedy| remedy.contains("`warpyard release 7`")),
            "{only:?}"
        );

        for fine in [
            found(claim(json!({})), soon),
            found(claim(json!({"pid": 42})), late),
            found(claim(json!({"state": "waiting"})), late),
            found(claim(json!({"last_heard_at": null})), late),
        ] {
            assert_eq!(fine, [Finding::fine("claims", "1, none stale")]);
        }
    }

    #[test]
    fn a_claim_for_a_process_that_is_gone_is_pointed_out() {
        let findings = found(claim(json!({"pid": 666})), "2026-11-16T09:00:01Z");
        let [only] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(
            (only.health, only.found.as_str()),
            (Health::Bad, "claim 7 of ann is for process 666, which is gone")
        );
    }

    #[test]
    fn pages_on_the_network_are_pointed_out() {
        assert_eq!(exposed("http://127.0.0.1:7700"), None);
        assert_eq!(exposed("http://[::1]:7700"), None);
        for address in ["http://0.0.0.0:7700", "http://10.1.2.3:7700", "http://[::]:7700"] {
            let finding = exposed(address).expect("it is");
            assert!(finding.health == Health::Warning && finding.found.contains("cookies"), "{finding:?}");
        }
    }
}
