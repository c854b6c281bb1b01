//! Policies: the one in force with its numbers filled in, and every other with what it would change.

use super::words::{moment, text};
use super::{Chrome, Frame, NoPage, html};
use crate::clock::system_now;
use crate::follower::Follower;
use crate::http::{By, Shared};
use crate::views;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_api::wire::PolicyView;
use warpyard_core::policy::{Params, PolicyDef, Value};
use warpyard_core::{Cluster, TaskId};

/// How much of the line is shown.
const SHOWN: usize = 12;

#[derive(Template)]
#[template(path = "policies.html")]
struct Policies {
    chrome: Chrome,
    in_force: String,
    summary: String,
    source: String,
    formula: &'static str,
    line: Vec<Place>,
    all: Vec<Choice>,
    admin: bool,
}

/// A place in line, with the numbers that put it there.
struct Place {
    at: usize,
    job: String,
    task: String,
    name: String,
    user: String,
    numbers: String,
}

/// A policy that can be chosen.
struct Choice {
    name: String,
    summary: String,
    source: String,
    active: bool,
    params: Vec<Setting>,
}

/// A parameter of it.
struct Setting {
    name: String,
    help: String,
    /// What it is now, or would be.
    value: String,
    default: String,
    /// The words it may be, if it is one of a few.
    words: Vec<&'static str>,
}

pub(super) async fn page(
    State(app): Shared,
    Extension(who): By,
    headers: HeaderMap,
) -> Result<Response, NoPage> {
    let (frame, defs) = (Frame::of(&app, &headers), app.policies);
    Ok(html(StatusCode::OK, &app.live.read(move |f| Policies::of(f, defs, frame, who.is_admin())).await?))
}

impl Policies {
    fn of(f: &Follower, defs: &'static [PolicyDef], frame: Frame, admin: bool) -> Policies {
        let cluster = f.cluster();
        let views = views::policies(cluster, defs);
        let now = views.iter().find(|p| p.active);
        let choice = cluster.policy();
        let params =
            PolicyDef::find(defs, &choice.name).and_then(|def| def.params(choice)).unwrap_or_default();
        let (formula, fill) = formula(&choice.name);
        let place = |(at, task): (usize, TaskId)| {
            let job = cluster.job(task.job)?;
            Some(Place {
                at: at + 1,
                job: job.id.to_string(),
                task: text(&views::task_name(cluster, task)),
                name: text(&job.spec.name),
                user: text(&job.user),
                numbers: fill(cluster, task, &params).unwrap_or_default(),
            })
        };
        let mut all: Vec<_> = views.iter().zip(defs).map(|(view, def)| chosen(view, def)).collect();
        all.sort_by_key(|choice| !choice.active);
        let line = f.policy().line(cluster.view(), SHOWN, system_now()).into_iter().enumerate();
        Policies {
            in_force: text(&choice.to_string()),
            summary: now.map(|p| p.summary.clone()).unwrap_or_default(),
            source: now.map(|p| p.source.clone()).unwrap_or_default(),
            formula,
            line: line.filter_map(place).collect(),
            all,
            chrome: Chrome::of(f, "Policies", "policies", frame),
            admin,
        }
    }
}

fn chosen(view: &PolicyView, def: &PolicyDef) -> Choice {
    let setting = |(shown, param): (&warpyard_api::wire::ParamView, &warpyard_core::policy::Param)| Setting {
        name: shown.name.clone(),
        help: shown.summary.clone(),
        value: text(&shown.value.as_ref().unwrap_or(&shown.default).to_string()),
        default: shown.default.to_string(),
        words: match param.default {
            Value::Word(words) => words.to_vec(),
            Value::Number(_) => vec![],
        },
    };
    Choice {
        name: view.name.clone(),
        summary: view.summary.clone(),
        source: view.source.clone(),
        active: view.active,
        params: view.params.iter().zip(def.params).map(setting).collect(),
    }
}

/// How a task's place is worked out, with its numbers.
type Fill = fn(&Cluster, TaskId, &Params) -> Option<String>;

/// What a policy goes by, and how that is filled in for a task. Only for those whose order is one formula; of others it
/// is told what they go by.
fn formula(policy: &str) -> (&'static str, Fill) {
    match policy {
        "short-first" => (
            "P = α·priority − β·timeout − γ·submitted, in seconds; the largest P goes first",
            |c, t, p| {
                let (priority, timeout, submitted) = numbers(c, t)?;
                let (a, b, g) = (p.number("alpha"), p.number("beta"), p.number("gamma"));
                let total = a * priority as f64 - b * timeout - g * submitted;
                Some(format!("P = {a:e}·{priority} − {b}·{timeout:.0} − {g}·{submitted:.0} = {total:.0}"))
            },
        ),
        "sjf" => ("the shortest expected time goes first", |c, t, _| {
            let spec = &c.job(t.job)?.spec.tasks[t.node as usize];
            Some(
                spec.expected()
                    .map_or("expects nothing, so a year".into(), |e| format!("expects {:.0} s", e.secs())),
            )
        }),
        "fifo" => ("whoever was submitted first goes first", |c, t, _| {
            Some(format!("submitted {}", moment(c.job(t.job)?.submitted)))
        }),
        "backfill" | "priority-serial" | "all-at-once" => {
            ("priority first, then whoever was submitted first", |c, t, _| {
                let job = c.job(t.job)?;
                Some(format!("priority {}, submitted {}", job.priority, moment(job.submitted)))
            })
        }
        _ => ("", |c, t, _| {
            let (priority, timeout, submitted) = numbers(c, t)?;
            Some(format!(
                "priority {priority}, timeout {timeout:.0} s, waiting {:.0} s",
                system_now().secs() - submitted
            ))
        }),
    }
}

/// Priority, timeout in seconds (a year where none was promised), and the moment of submission in seconds.
fn numbers(cluster: &Cluster, task: TaskId) -> Option<(i64, f64, f64)> {
    let job = cluster.job(task.job)?;
    let timeout = job.spec.tasks[task.node as usize].timeout.unwrap_or(warpyard_core::Span::UNKNOWN);
    Some((job.priority, timeout.secs(), job.submitted.secs()))
}
