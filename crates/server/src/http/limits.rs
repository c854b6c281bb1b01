//! Limits and how much of each is in use, for the users they concern.

use super::refusal::Refusal;
use super::{App, AppState, CallerExtension};
use crate::caller::Caller;
use crate::replica::Reader;
use axum::extract::State;
use axum::{Extension, Json};
use std::collections::BTreeSet;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::LimitView;
use warpyard_core::cluster::Quota;
use warpyard_core::limits::{Caps, LimitOwner, Limits};
use warpyard_core::{Command, Span};
use warpyard_worker::accounts::Account;

/// The caller's limits; for admins, those of everyone who uses or used anything.
pub(super) async fn list(
    State(app): AppState,
    Extension(who): CallerExtension,
) -> Result<Json<Vec<LimitView>>, Refusal> {
    if let Some(name) = who.name() {
        app.tell_groups(name).await?;
    }
    let grace = app.defaults.longest_grace;
    let look = move |f: &Reader<'_>| {
        let cluster = f.cluster();
        let mut users: Vec<&str> = who.name().into_iter().collect();
        if who.is_admin() {
            let named = cluster.limits().users.keys().map(String::as_str);
            let others: BTreeSet<&str> = cluster.limited_users().chain(named).collect();
            users.extend(others.into_iter().filter(|user| who.name() != Some(user)));
        }
        let mut parties: Vec<(LimitOwner, Quota)> = Vec::new();
        for party in users.into_iter().flat_map(|user| cluster.quotas(user, f.now())) {
            if !parties.iter().any(|(known, _)| *known == party.0) {
                parties.push(party);
            }
        }
        let mut listed: Vec<_> = parties.iter().flat_map(|(of, quota)| rows(of, quota)).collect();
        if who.is_admin() {
            listed.extend(configured(cluster.limits(), &parties));
        }
        listed.extend(grace.map(|most| LimitView {
            of: "everyone".into(),
            together: false,
            limit: "grace_s".into(),
            most: most.secs(),
            has: None,
            window_s: None,
        }));
        listed
    };
    Ok(Json(app.engine.read(look).await?))
}

/// Configured limits of users and groups that use nothing at present.
fn configured(limits: &Limits, parties: &[(LimitOwner, Quota)]) -> Vec<LimitView> {
    let mut all = caps_rows("each user", false, limits.everyone, None);
    for (name, group) in &limits.groups {
        all.extend(caps_rows(&format!("each of {name}"), false, group.each, None));
        if !parties.iter().any(|(of, _)| *of == LimitOwner::Group(name.clone())) {
            all.extend(caps_rows(name, true, group.together, None));
        }
    }
    all
}

fn rows(of: &LimitOwner, quota: &Quota) -> Vec<LimitView> {
    let (name, together) = match of {
        LimitOwner::User(name) => (name, false),
        LimitOwner::Group(name) => (name, true),
    };
    caps_rows(name, together, quota.caps, Some(quota))
}

/// A row for each limit, with its usage where that is known.
fn caps_rows(name: &str, together: bool, caps: Caps, quota: Option<&Quota>) -> Vec<LimitView> {
    let hours = |span: Span| span.secs() / 3600.0;
    let row = |limit: &str, most: Option<f64>, has: Option<f64>, window: Option<Span>| {
        let (of, limit, window_s) = (name.to_owned(), limit.to_owned(), window.map(Span::secs));
        most.map(|most| LimitView { of, together, limit, most, has, window_s })
    };
    let rows = [
        row("gpus", caps.gpus.map(f64::from), quota.map(|q| f64::from(q.gpus)), None),
        row("running", caps.running.map(f64::from), quota.map(|q| f64::from(q.running)), None),
        row("queued", caps.queued.map(|n| n as f64), quota.map(|q| q.queued as f64), None),
        row("timeout_s", caps.timeout.map(Span::secs), None, None),
        row(
            "gpu_hours",
            caps.gpu_time.map(|cap| hours(cap.most)),
            quota.and_then(|q| q.gpu_time).map(hours),
            caps.gpu_time.map(|cap| cap.window),
        ),
        row("log_bytes", caps.log_size.map(|n| n as f64), None, None),
        row("priority", caps.priority.map(|n| n as f64), None, None),
        row("submission_bytes", caps.submission_size.map(|n| n as f64), None, None),
        row("jobs_bytes", caps.jobs_size.map(|n| n as f64), quota.map(|q| q.jobs_size as f64), None),
        row("snapshots", caps.snapshots.map(|n| n as f64), None, None),
        row("snapshots_bytes", caps.snapshots_size.map(|n| n as f64), None, None),
        row("requests", caps.requests.map(f64::from), None, None),
    ];
    rows.into_iter().flatten().collect()
}

impl App {
    /// Informs the engine of a user's groups that have limits, if they changed.
    pub(super) async fn tell_groups(&self, user: &str) -> Result<(), Refusal> {
        let name = user.to_owned();
        let known = self.engine.read(move |f| {
            let limits = f.cluster().limits().clone();
            (!limits.groups.is_empty()).then(|| (limits, f.cluster().groups_of(&name).to_vec()))
        });
        let Some((limits, before)) = known.await? else { return Ok(()) };
        let person = Account::by_name(user).map_err(Refusal::internal)?;
        let is_in = |group: &&String| person.as_ref().is_some_and(|person| person.is_in(group));
        let groups: Vec<String> = limits.groups.keys().filter(is_in).cloned().collect();
        if groups != before {
            self.engine.command(Command::TellGroups { user: user.to_owned(), groups }).await?;
        }
        Ok(())
    }

    /// Refuses a priority above the caller's limit; admins have none.
    pub(super) async fn may_give(&self, who: &Caller, priority: i64) -> Result<(), Refusal> {
        let Some(name) = who.name().filter(|_| !who.is_admin()) else { return Ok(()) };
        self.tell_groups(name).await?;
        let user = name.to_owned();
        let caps = move |f: &Reader<'_>| {
            let cluster = f.cluster();
            cluster.limits().caps_of(&user, cluster.groups_of(&user)).priority
        };
        match self.engine.read(caps).await? {
            Some(most) if priority > most => {
                let said = format!("{name} may set priorities up to {most}, not {priority}");
                let help = "choose a lower one, or ask an admin to raise it";
                Err(Problem::new(code::OVER_LIMIT, "priority", said).with_help(help).into())
            }
            _ => Ok(()),
        }
    }
}
