//! Handlers that read jobs: listing, showing, explaining and their logs.

use super::refusal::{Refusal, stream_body};
use super::{App, AppState, CallerExtension, HIDDEN, SOMEONE};
use crate::caller::Caller;
use crate::listing::{self, Listing};
use crate::logs::{self, Chunk, LogRequest};
use crate::{select, views, why};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT_RANGES, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::mpsc;
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::Micros;
use warpyard_api::selector::SelectorPart;
use warpyard_api::text::glob_matches;
use warpyard_api::wire::{
    HistoryRow, JobFilter, JobView, LogFilter, Outcome, Page, State as Standing, StateFilter, TaskView,
    WhyView,
};
use warpyard_core::cluster::Job;
use warpyard_core::command::TaskSelector;
use warpyard_core::spec::TaskSpec;
use warpyard_core::{AttemptId, JobId, TaskId};

/// Jobs on a page unless the request says otherwise.
const JOBS_PER_PAGE: u32 = 1_000;

/// Attempts on a page.
const ATTEMPTS_PER_PAGE: u32 = 500;

/// The longest long poll.
const LONGEST_POLL: Duration = Duration::from_secs(120);

pub(super) async fn list(
    State(app): AppState,
    Extension(who): CallerExtension,
    filter: Result<Query<JobFilter>, QueryRejection>,
) -> Result<Json<Page<JobView>>, Refusal> {
    let Query(filter) = filter?;
    let selector = filter.select.as_deref().map(|text| select::parse(text, &who)).transpose()?;
    let after = match filter.cursor.as_deref().map(str::parse) {
        None => None,
        Some(Ok(cursor)) if listing::fits(&cursor, filter.order) => Some(cursor),
        Some(_) => return Err(Problem::new(code::BAD_REQUEST, "cursor", "this is not a cursor").into()),
    };
    let hidden = app.private();
    let asker = who.clone();
    let hides = |user: &str| app.hides(&asker, user);
    let look = move |f: &crate::replica::Reader<'_>| {
        let limit = filter.limit.unwrap_or(JOBS_PER_PAGE).clamp(1, 10_000) as usize;
        // The selector `all` selects nothing in particular; unless the filter includes ended jobs, unfinished ones
        // are listed.
        let selector = selector.as_ref().filter(|s| !s.parts().contains(&SelectorPart::All));
        let chosen = selector.map(|selector| select::find(f.cluster(), selector)).transpose()?;
        let chosen: Option<BTreeSet<JobId>> =
            chosen.map(|found| found.iter().map(|target| target.job()).collect());
        let over = filter.all || chosen.is_some() || filter.state.is_some_and(StateFilter::is_over);
        let wanted = |job: &Job| {
            (!hidden || who.owns(&job.user))
                && chosen.as_ref().is_none_or(|chosen| chosen.contains(&job.id))
                && filter.user.as_ref().is_none_or(|u| *u == job.user)
                && filter.project.as_ref().is_none_or(|p| job.spec.project.as_ref() == Some(p))
                && filter.name.as_ref().is_none_or(|pattern| glob_matches(pattern, &job.spec.name))
                && (over || job.finished.is_none())
                && filter.state.is_none_or(|wanted| {
                    let (state, outcome) = views::standing(job);
                    wanted.fits(state, outcome, job.held)
                })
        };
        let listing = Listing { filter: &filter, chosen: chosen.clone(), over, wanted: &wanted };
        let (jobs, next) = listing.page(f, after, limit);
        let next = next.map(|cursor| cursor.to_string());
        let positions = listing::positions(f, jobs.iter().copied());
        let mut items = Vec::new();
        for job in jobs {
            let mut view = views::listed(f, job, positions.get(&job.id).copied(), &who);
            if filter.commands && who.owns(&job.user) {
                view.runs = views::commands(job);
            }
            items.push(view);
        }
        Ok::<_, Problem>(Page { items, next })
    };
    let mut page = app.engine.read(look).await??;
    let forecast = app.forecasts.latest();
    for view in page.items.iter_mut().filter(|view| view.position.is_some()) {
        if let Some(start) = view.job.parse().ok().and_then(|job| forecast.of_job(JobId(job))) {
            (view.expected_start, view.expected_start_reason) = start.shown(hides);
        }
    }
    app.point_out(&mut page.items);
    Ok(Json(page))
}

/// How to show a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    /// Whether arrays are expanded into their tasks.
    expand: Option<bool>,
    /// The cursor of the page of tasks.
    cursor: Option<String>,
    /// With `done`, the response comes when the job has ended.
    wait: Option<String>,
    /// The longest time to wait; at most two minutes.
    timeout: Option<Micros>,
}

/// The position in a paged list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cursor {
    /// The `next` of the page before.
    cursor: Option<String>,
}

impl Cursor {
    fn place<T: std::str::FromStr + Default>(&self) -> Result<T, Problem> {
        let place = self.cursor.as_deref().map(str::parse).transpose();
        let place = place.map_err(|_| Problem::new(code::BAD_REQUEST, "cursor", "this is not a cursor"))?;
        Ok(place.unwrap_or_default())
    }
}

pub(super) async fn tasks(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    query: Result<Query<Cursor>, QueryRejection>,
) -> Result<Json<Page<TaskView>>, Refusal> {
    must_see(&app, &who, &id).await?;
    let from: u64 = query?.0.place()?;
    let selector = select::parse(&id, &who)?;
    let look = move |f: &crate::replica::Reader<'_>| {
        let number = select::job_number(f.cluster(), &selector)?;
        if f.cluster().job(number).is_none()
            && let Ok(Some(row)) = f.history().job(number)
        {
            let mut attempts = f.history().attempts_of(number, None).unwrap_or_default();
            views::as_seen_by(&who, &mut attempts);
            let items: Vec<_> = views::remembered(&row, &attempts).tasks;
            let next = (items.len() as u64 > from.saturating_add(views::TASKS_PER_PAGE as u64))
                .then(|| (from + views::TASKS_PER_PAGE as u64).to_string());
            let items = items.into_iter().skip(from as usize).take(views::TASKS_PER_PAGE).collect();
            return Ok(Page { items, next });
        }
        let target = select::find_one(f.cluster(), &selector)?;
        let job = f.cluster().job(target.job()).ok_or_else(|| select::unknown_job(number.0))?;
        let view = views::whole(f, job, target, Some(from), &who);
        Ok::<_, Problem>(Page { items: view.tasks, next: view.next })
    };
    Ok(Json(app.engine.read(look).await??))
}

pub(super) async fn attempts(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    query: Result<Query<Cursor>, QueryRejection>,
) -> Result<Json<Page<HistoryRow>>, Refusal> {
    must_see(&app, &who, &id).await?;
    let skip: u32 = query?.0.place()?;
    let selector = select::parse(&id, &who)?;
    let look = move |f: &crate::replica::Reader<'_>| {
        let number = select::job_number(f.cluster(), &selector).map_err(Refusal::from)?;
        let history = f.history();
        let job = history.job(number).map_err(Refusal::internal)?;
        let Some(job) = job else { return Err(select::unknown_job(number.0).into()) };
        let most = ATTEMPTS_PER_PAGE;
        let rows = history.attempts_from(number, skip, most + 1).map_err(Refusal::internal)?;
        let next = (rows.len() > most as usize).then(|| skip.saturating_add(most).to_string());
        let items = rows.iter().take(most as usize).map(|row| views::history_row(row, Some(&job))).collect();
        Ok::<_, Refusal>(Page { items, next })
    };
    Ok(Json(app.engine.read(look).await??))
}

pub(super) async fn show(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    query: Result<Query<ShowQuery>, QueryRejection>,
) -> Result<Json<JobView>, Refusal> {
    let Query(query) = query?;
    must_see(&app, &who, &id).await?;
    if let Some(what) = &query.wait {
        if what != "done" {
            return Err(Problem::new(code::BAD_REQUEST, "wait", "only 'done' can be waited for").into());
        }
        wait(&app, &who, &id, query.timeout).await?;
    }
    let from = match query.cursor.as_deref().map(str::parse) {
        None => query.expand.unwrap_or(false).then_some(0),
        Some(Ok(from)) => Some(from),
        Some(Err(_)) => return Err(Problem::new(code::BAD_REQUEST, "cursor", "this is not a cursor").into()),
    };
    let (selector, mine, bounds) = (select::parse(&id, &who)?, who.clone(), app.bounds.clone());
    let look = move |f: &crate::replica::Reader<'_>| {
        let number = select::job_number(f.cluster(), &selector)?;
        if f.cluster().job(number).is_none()
            && let Ok(Some(row)) = f.history().job(number)
        {
            let mut attempts = f.history().attempts_of(number, None).unwrap_or_default();
            views::as_seen_by(&mine, &mut attempts);
            let mut view = views::remembered(&row, &attempts);
            let ended = views::describe_end(f, &mut view, number, None, &mine);
            let printed = ended.filter(|_| mine.owns(&row.user));
            return Ok((view, None, printed));
        }
        let target = select::find_one(f.cluster(), &selector)?;
        let job = f.cluster().job(target.job()).ok_or_else(|| select::unknown_job(number.0))?;
        let mut view = views::whole(f, job, target, from, &mine);
        crate::enforcement::note_unenforced(bounds.as_ref(), job, &mut view);
        if mine.owns(&job.user) {
            view.runs = views::runs(f.cluster(), job, target);
        }
        let waiting = first_open(f.cluster(), target).filter(|_| view.state == Standing::Ready);
        let one = match target {
            TaskSelector::Task(task) => Some(task),
            _ => None,
        };
        let ended = views::describe_end(f, &mut view, number, one, &mine);
        let printed = ended.filter(|_| mine.owns(&job.user));
        Ok::<_, Problem>((view, waiting, printed))
    };
    let (mut view, waiting, printed) = app.engine.read(look).await??;
    view.log_tail = last_lines(&app, printed).await;
    if let Some(task) = waiting
        && let Some(start) = app.forecasts.latest_for(task).of(task)
    {
        (view.expected_start, view.expected_start_reason) = start.shown(|user| app.hides(&who, user));
    }
    app.point_out(std::slice::from_mut(&mut view));
    Ok(Json(view))
}

impl App {
    /// Adds a note to running jobs whose GPUs are idle.
    fn point_out(&self, jobs: &mut [JobView]) {
        let idle = crate::idle_gpus::of_jobs(self.watched.as_ref());
        for (id, words) in &idle {
            if let Some(job) = jobs.iter_mut().find(|job| job.job == id.to_string() && job.why.is_none()) {
                job.why = Some(words.clone());
            }
        }
    }
}

/// Refuses to show others' jobs in private mode.
async fn must_see(app: &App, who: &Caller, id: &str) -> Result<(), Refusal> {
    if !app.private() || who.is_admin() {
        return Ok(());
    }
    let selector = select::parse(id, who)?;
    let user = move |f: &crate::replica::Reader<'_>| {
        let job = select::job_number(f.cluster(), &selector)?;
        Ok::<_, Problem>(views::user_of(f, job))
    };
    Ok(who.must_own(&app.engine.read(user).await??, "look at it")?)
}

/// Waits until a job, or one of its tasks, has ended.
async fn wait(app: &App, who: &Caller, id: &str, timeout: Option<Micros>) -> Result<(), Refusal> {
    let selector = select::parse(id, who)?;
    let target = app.engine.read(move |f| {
        let number = select::job_number(f.cluster(), &selector)?;
        match f.cluster().job(number) {
            None => Ok(TaskSelector::Job(number)),
            Some(_) => select::find_one(f.cluster(), &selector),
        }
    });
    let target = target.await??;
    let longest = timeout.map_or(LONGEST_POLL, |t| Duration::from_micros(t.0)).min(LONGEST_POLL);
    match tokio::time::timeout(longest, app.engine.over(target)).await {
        Ok(ended) => Ok(ended?),
        Err(_) => Ok(()),
    }
}

pub(super) async fn why(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Result<Json<WhyView>, Refusal> {
    must_see(&app, &who, &id).await?;
    let (selector, mine) = (select::parse(&id, &who)?, who.clone());
    let look = move |f: &crate::replica::Reader<'_>| {
        let number = select::job_number(f.cluster(), &selector)?;
        if f.cluster().job(number).is_none()
            && let Ok(Some(row)) = f.history().job(number)
        {
            let (answer, ended) = how_it_ended(f, &row, &mine);
            return Ok((answer, None, ended));
        }
        let target = select::find_one(f.cluster(), &selector)?;
        let task = first_open(f.cluster(), target).ok_or_else(|| select::unknown_job(target.job().0))?;
        let mut answer = why::explain(f, task, f.now()).ok_or_else(|| select::unknown_job(target.job().0))?;
        let mut ended = None;
        if answer.state == Standing::Done
            && let Some(job) = f.cluster().job(number)
        {
            // The request is about something that has ended: all tasks of a job, or one task.
            let one = matches!(target, TaskSelector::Task(_)).then_some(task);
            let mut view = views::whole(f, job, target, None, &mine);
            ended = views::describe_end(f, &mut view, number, one, &mine).filter(|_| mine.owns(&job.user));
            answer.outcome = view.outcome;
            answer.text = ended_in_words(&view);
            // The explanation is about all tasks of the job, not about the one it was looked up by.
            if one.is_none() && view.counts.total() > 1 {
                (answer.task, answer.index) = (view.name.clone(), None);
            }
            answer.log_of = view.log_of;
        }
        if let (Some(lost), Some(reason)) = (views::held_since_lost(f, task), answer.text.first_mut()) {
            *reason = lost;
        }
        let waiting = answer.state == Standing::Ready;
        Ok::<_, Problem>((answer, waiting.then_some(task), ended))
    };
    let (mut answer, waiting, ended) = app.engine.read(look).await??;
    answer.log_tail = last_lines(&app, ended).await;
    if let Some(task) = waiting {
        let forecast = app.forecasts.latest_for(task);
        if let Some(start) = forecast.of(task) {
            (answer.expected_start, answer.expected_start_reason) = start.shown(|user| app.hides(&who, user));
        }
        answer.sooner.extend(forecast.sooner(task).cloned());
    }
    for other in answer.ahead.iter_mut().filter(|other| app.hides(&who, &other.user)) {
        (other.task, other.user) = (HIDDEN.into(), SOMEONE.into());
    }
    Ok(Json(answer))
}

/// How a job ended, as lines to print.
fn ended_in_words(view: &JobView) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut outcomes, total) = (view.outcomes, view.counts.total());
    if total > 1 {
        let each = Outcome::ALL.into_iter().filter(|outcome| *outcomes.of(*outcome) > 0).collect::<Vec<_>>();
        let each = each.into_iter().map(|outcome| format!("{} {}", outcomes.of(outcome), outcome.word()));
        lines.push(format!("of {total} tasks, {}", each.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(view.why.clone());
    if lines.is_empty() {
        lines.extend(view.outcome.map(|outcome| outcome.word().to_owned()));
    }
    lines
}

/// How a job ended that is only in the history, and the attempt whose log shows it.
fn how_it_ended(
    f: &crate::replica::Reader<'_>,
    row: &crate::store::JobRow,
    who: &Caller,
) -> (WhyView, Option<AttemptId>) {
    let mut attempts = f.history().attempts_of(row.job, None).unwrap_or_default();
    views::as_seen_by(who, &mut attempts);
    let mut view = views::remembered(row, &attempts);
    let ended = views::describe_end(f, &mut view, row.job, None, who).filter(|_| who.owns(&row.user));
    let needs = row.needs.first().cloned().unwrap_or_default();
    let answer = WhyView {
        job: view.job.clone(),
        task: attempts.first().map_or_else(|| view.name.clone(), |row| row.task_name.clone()),
        index: None,
        state: Standing::Done,
        outcome: view.outcome,
        text: ended_in_words(&view),
        code: Some("done".into()),
        needs: views::needs(f.cluster(), &TaskSpec { needs, ..TaskSpec::default() }),
        free: vec![],
        ahead: vec![],
        position: None,
        expected_start: None,
        expected_start_reason: None,
        sooner: vec![],
        log_tail: vec![],
        log_of: view.log_of,
    };
    (answer, ended)
}

/// The last lines an attempt printed.
async fn last_lines(app: &App, attempt: Option<AttemptId>) -> Vec<String> {
    let Some(attempt) = attempt else { return vec![] };
    let layout = app.layout.clone();
    tokio::task::spawn_blocking(move || crate::output_tail::last_lines(&layout, attempt))
        .await
        .unwrap_or_default()
}

pub(crate) use crate::summary::first_open;

pub(super) async fn logs(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    headers: HeaderMap,
    filter: Result<Query<LogFilter>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(filter) = filter?;
    let selector = select::parse(&id, &who)?;
    let LogFilter { task, index, attempt, stream, follow, from } = filter;
    let find = move |f: &crate::replica::Reader<'_>| {
        let task = which_log(f, &selector, task.as_deref(), index)?;
        let latest = logs::latest_attempt(f, task).0;
        Ok::<_, Problem>((task, views::user_of(f, task.job), latest, views::task_name(f.cluster(), task)))
    };
    let (task, user, latest, name) = app.engine.read(find).await??;
    who.must_own(&user, "read its log")?;
    if let Some(number) = attempt {
        must_have_been(number, latest, follow, &name)?;
    }
    let wanted = LogRequest { task, attempt, stream, follow, from: from.unwrap_or(0) };
    if let Some(range) = headers.get(RANGE).and_then(|v| v.to_str().ok()).filter(|_| !follow) {
        match logs::part(&app.engine, &app.layout, &wanted, range).await? {
            Ok(part) => return Ok(part.into_response()),
            Err(size) => {
                let said = format!("the log has {size} bytes, so the range is outside it");
                let refusal = Refusal::new(416, code::BAD_REQUEST, said);
                return Ok(([(CONTENT_RANGE, format!("bytes */{size}"))], refusal).into_response());
            }
        }
    }
    let (to, from) = mpsc::channel::<Chunk>(16);
    let (watches, remote) = (app.log_watches.clone(), app.remote.clone());
    tokio::spawn(logs::send(app.engine.clone(), app.layout.clone(), watches, remote, wanted, to));
    let headers = [(CONTENT_TYPE, "text/plain; charset=utf-8"), (ACCEPT_RANGES, "bytes")];
    Ok((headers, stream_body(from)).into_response())
}

/// Refuses an attempt that does not exist; the first of a task that has not started can be followed.
fn must_have_been(number: u32, latest: u32, follow: bool, task: &str) -> Result<(), Problem> {
    let to_come = follow && (number, latest) == (1, 0);
    if (1..=latest).contains(&number) || to_come {
        return Ok(());
    }
    let had = match latest {
        0 => "it has not started yet".to_owned(),
        1 => "it has had one attempt".to_owned(),
        latest => format!("it has had {latest} attempts, counted from 1"),
    };
    Err(Problem::new(code::UNKNOWN_ATTEMPT, "attempt", format!("task {task} has no attempt {number}: {had}")))
}

pub(super) fn which_log(
    f: &crate::replica::Reader<'_>,
    selector: &select::Selection,
    name: Option<&str>,
    index: Option<u32>,
) -> Result<TaskId, Problem> {
    let number = select::job_number(f.cluster(), selector)?;
    if f.cluster().job(number).is_none() {
        let rows = f.history().attempts_of(number, None).unwrap_or_default();
        let fits = |r: &&crate::store::AttemptRow| {
            name.is_none_or(|n| r.task_name == n) && index.is_none_or(|i| r.array_index == Some(i))
        };
        return rows.iter().find(fits).map(|r| r.attempt.task).ok_or_else(|| select::unknown_job(number.0));
    }
    let target = select::find_one(f.cluster(), selector)?;
    let job = f.cluster().job(target.job()).expect("seen above");
    let node = match (target, name) {
        (TaskSelector::Task(task), _) => return Ok(task),
        (TaskSelector::Node(node) | TaskSelector::Range { node, .. }, _) => node.node,
        (TaskSelector::Job(_), Some(name)) => {
            let at = job.spec.tasks.iter().position(|t| t.name == name);
            at.ok_or_else(|| {
                Problem::new(code::UNKNOWN_TASK, "", format!("job {} has no task '{name}'", job.id))
            })? as u32
        }
        (TaskSelector::Job(_), None) if job.spec.tasks.len() == 1 => 0,
        (TaskSelector::Job(_), None) => {
            let names: Vec<_> = job.spec.tasks.iter().take(20).map(|t| t.name.as_str()).collect();
            let message =
                format!("job {} has several tasks; name one, as in {}.{}", job.id, job.id, names[0]);
            return Err(Problem::new(code::BAD_SELECTOR, "", message)
                .with_help(format!("its tasks: {}", names.join(", "))));
        }
    };
    let spec = &job.spec.tasks[node as usize];
    let at = match (&spec.array, index) {
        (None, _) => 0,
        (Some(array), Some(index)) => array.position(index).ok_or_else(|| {
            Problem::new(
                code::UNKNOWN_TASK,
                "",
                format!("task {} of job {} has no index {index}", spec.name, job.id),
            )
        })?,
        (Some(array), None) => {
            let first = array.value(0).unwrap_or(0);
            let message = format!(
                "task {} is an array; name one of it, as in {}.{}[{first}]",
                spec.name, job.id, spec.name
            );
            return Err(Problem::new(code::BAD_SELECTOR, "", message));
        }
    };
    Ok(TaskId { job: job.id, node, index: at })
}
