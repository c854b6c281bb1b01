//! The Policies page: the policy in force with its numbers filled in, and every other, grouped, with the order it would
//! put the queue in.

use super::words::{Date, Moment, moment, text};
use super::{Chrome, Frame, NoPage, html};
use crate::http::{By, Shared};
use crate::replica::Reader;
use crate::views;
use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_api::wire::PolicyView;
use warpyard_core::policy::{ParamType, PolicyChoice, PolicyDef};
use warpyard_core::{TaskId, Time};

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
    groups: Vec<Group>,
    admin: bool,
}

/// A place in line, with the numbers that put it there.
struct Place {
    at: usize,
    job: String,
    task: String,
    name: String,
    user: String,
    numbers: Numbers,
}

/// What a policy says of a task, with the moment it was submitted as a date in place of seconds since 1970.
struct Numbers {
    before: String,
    date: Option<Date>,
    after: String,
}

/// Policies with the same aim.
struct Group {
    title: String,
    policies: Vec<Choice>,
}

/// A policy that can be chosen.
struct Choice {
    name: String,
    /// When to choose it.
    when: String,
    summary: String,
    source: String,
    formula: &'static str,
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
    Ok(html(StatusCode::OK, &app.engine.read(move |f| Policies::of(f, defs, frame, who.is_admin())).await?))
}

impl Policies {
    fn of(f: &Reader<'_>, defs: &'static [PolicyDef], frame: Frame, admin: bool) -> Policies {
        let cluster = f.cluster();
        let views = views::policies(Some(cluster.policy()), defs);
        let now = views.iter().find(|p| p.active);
        let choice = cluster.policy();
        let (policy, clock) = (f.policy(), f.now());
        let place = |(at, task): (usize, TaskId)| {
            let job = cluster.job(task.job)?;
            Some(Place {
                at: at + 1,
                job: job.id.to_string(),
                task: text(&views::task_name(cluster, task)),
                name: text(&job.spec.name),
                user: text(&job.user),
                numbers: numbers(policy.formula_values(cluster.view(), task, clock), job.submitted),
            })
        };
        let mut by_group: Vec<_> = views.iter().zip(defs).collect();
        by_group.sort_by_key(|(_, def)| def.group);
        let mut groups: Vec<Group> = Vec::new();
        for (view, def) in by_group {
            match groups.last_mut() {
                Some(group) if group.title == view.group => group.policies.push(chosen(view, def, choice)),
                _ => groups
                    .push(Group { title: view.group.clone(), policies: vec![chosen(view, def, choice)] }),
            }
        }
        let line = policy.queue_order(cluster.view(), SHOWN, clock).into_iter().enumerate();
        Policies {
            in_force: text(&choice.to_string()),
            summary: now.map(|p| p.summary.clone()).unwrap_or_default(),
            source: now.map(|p| p.source.clone()).unwrap_or_default(),
            formula: policy.formula(),
            line: line.filter_map(place).collect(),
            groups,
            chrome: Chrome::of(f, "Policies", "policies", frame),
            admin,
        }
    }
}

fn numbers(said: Option<String>, submitted: Time) -> Numbers {
    let said = said.unwrap_or_default();
    match said.split_once(&format!("{:.0}", submitted.secs())) {
        Some((before, after)) if before.ends_with("t = ") => {
            let date = Some(Moment::date(moment(submitted)));
            Numbers { before: text(before), date, after: text(after) }
        }
        _ => Numbers { before: text(&said), date: None, after: String::new() },
    }
}

fn chosen(view: &PolicyView, def: &PolicyDef, in_force: &PolicyChoice) -> Choice {
    let plain = PolicyChoice { name: def.name.into(), ..PolicyChoice::default() };
    let choice = if view.active { in_force } else { &plain };
    let setting = |(shown, param): (&warpyard_api::wire::ParamView, &warpyard_core::policy::Param)| Setting {
        name: shown.name.clone(),
        help: param.help.into(),
        value: text(&shown.value.as_ref().unwrap_or(&shown.default).to_string()),
        default: shown.default.to_string(),
        words: match param.default {
            ParamType::Word(words) => words.to_vec(),
            ParamType::Number(_) | ParamType::Text => vec![],
        },
    };
    Choice {
        name: view.name.clone(),
        when: view.when.clone(),
        summary: view.summary.clone(),
        source: view.source.clone(),
        formula: def.params(choice).map_or("", |params| (def.build)(&params).formula()),
        active: view.active,
        params: view.params.iter().zip(def.params).map(setting).collect(),
    }
}
