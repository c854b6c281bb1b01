//! Checks of the server that answers here.

use super::Finding;
use warpyard_api::client::Client;
use warpyard_api::text::shown;
use warpyard_api::wire::ClaimState;
use warpyard_worker::hold::held;

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
    match info.version == own {
        true => vec![Finding::fine("server", found)],
        false => vec![Finding::warning(
            "server",
            format!("{found}; this program is {own}"),
            "restart the server with this program: tasks that run are found again",
        )],
    }
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
    }
    if findings.is_empty() {
        findings.push(Finding::fine("claims", format!("{}, none stale", claims.len())));
    }
    findings
}
