//! The Policies page: the policy in force with its numbers filled in, and every other, grouped, with the order it would
//! put the queue in.

use super::format::{Date, TimeSpan, escape, timestamp};
use super::{Chrome, Frame, PageError, html};
use crate::app::{AppState, CallerExtension};
use crate::replica::Reader;
use crate::views;
use askama::Template;
use askama::filters::HtmlSafe;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use warpyard_api::wire::PolicyView;
use warpyard_core::policy::{ParamType, PolicyChoice, PolicyDef};
use warpyard_core::{TaskId, Time};

/// The most rows of the queue.
const SHOWN: usize = 12;

#[derive(Template)]
#[template(path = "policies.html")]
struct Policies {
    chrome: Chrome,
    in_force: String,
    summary: String,
    source: String,
    formula: &'static str,
    line: Vec<QueuedTask>,
    groups: Vec<Group>,
    admin: bool,
}

/// A queued task with the values that determine its position.
struct QueuedTask {
    at: usize,
    job: String,
    task: String,
    name: String,
    user: String,
    key: OrderKey,
}

/// The values a policy orders a task by, with the submission time as a date in place of seconds since 1970.
#[derive(Template)]
#[template(
    source = r#"<code>{{ before }}{% if let Some(d) = date %}{{ d }}{% endif %}{{ after }}</code>"#,
    ext = "html"
)]
struct OrderKey {
    before: String,
    date: Option<Date>,
    after: String,
}

impl HtmlSafe for OrderKey {}

/// Policies listed under one heading.
struct Group {
    title: String,
    policies: Vec<Choice>,
}

/// A policy of the registry.
struct Choice {
    name: String,
    /// What to choose it for.
    when: String,
    summary: String,
    source: String,
    formula: &'static str,
    active: bool,
    params: Vec<ParamField>,
}

/// The form field of a parameter.
struct ParamField {
    name: String,
    help: String,
    /// Its present value, or the default where another policy is in force.
    value: String,
    default: String,
    /// The words it may be, where it is one of a few.
    words: Vec<&'static str>,
}

pub(super) async fn page(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
) -> Result<Response, PageError> {
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
            Some(QueuedTask {
                at: at + 1,
                job: job.id.to_string(),
                task: escape(&views::task_name(cluster, task)),
                name: escape(&job.spec.name),
                user: escape(&job.user),
                key: order_key(policy.formula_values(cluster.view(), task, clock), job.submitted),
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
            in_force: escape(&choice.to_string()),
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

fn order_key(explanation: Option<String>, submitted: Time) -> OrderKey {
    let text = explanation.unwrap_or_default();
    match text.split_once(&format!("{:.0}", submitted.secs())) {
        Some((before, after)) if before.ends_with("t = ") => {
            let date = Some(TimeSpan::date(timestamp(submitted)));
            OrderKey { before: escape(before), date, after: escape(after) }
        }
        _ => OrderKey { before: escape(&text), date: None, after: String::new() },
    }
}

fn chosen(view: &PolicyView, def: &PolicyDef, in_force: &PolicyChoice) -> Choice {
    let plain = PolicyChoice { name: def.name.into(), ..PolicyChoice::default() };
    let choice = if view.active { in_force } else { &plain };
    let setting =
        |(shown, param): (&warpyard_api::wire::ParamView, &warpyard_core::policy::Param)| ParamField {
            name: shown.name.clone(),
            help: param.help.into(),
            value: escape(&shown.value.as_ref().unwrap_or(&shown.default).to_string()),
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
