//! The New job page. Its form is made by its script from the job document's schema; here is what surrounds it: the
//! submitting user, working directory and environment, and what is free now.

use super::format::{escape, format_size};
use super::{Chrome, Frame, PageError, html};
use crate::app::{AppState, CallerExtension};
use crate::caller::Caller;
use crate::replica::Reader;
use crate::{convert, select, views};
use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::wire::{GpuView, WorkerState, WorkerView};
use warpyard_worker::accounts::Account;
use warpyard_worker::login_env::LoginEnvironment;

#[derive(Template)]
#[template(path = "new.html")]
struct NewJobPage {
    chrome: Chrome,
    user: String,
    /// Whether the caller may only submit as themselves.
    fixed: bool,
    /// Whether tasks run as the user named in the form.
    shared: bool,
    /// The user's home, where tasks without a working directory run.
    home: String,
    cloned: Option<ClonedJob>,
    env: Environment,
    devices: Vec<FreeDevice>,
    cpus: Vec<String>,
}

/// The job that the form starts from.
struct ClonedJob {
    job: String,
    /// Its document as JSON.
    doc: String,
    /// The secrets that were not copied.
    secrets: String,
}

#[derive(Default, Deserialize)]
pub(super) struct NewJobQuery {
    /// The job to clone.
    clone: Option<String>,
}

/// The environment that tasks inherit.
#[derive(Default)]
struct Environment {
    /// The login shell that set it.
    shell: String,
    names: Vec<String>,
    path: String,
    /// Why it is the minimal environment.
    minimal_because: Option<String>,
}

impl Environment {
    fn of(person: &Account, found: &LoginEnvironment) -> Environment {
        Environment {
            shell: escape(&person.shell.to_string_lossy()),
            names: found.variables.keys().map(|name| escape(name)).collect(),
            path: escape(found.variables.get("PATH").map_or("", String::as_str)),
            minimal_because: found.minimal_because.as_deref().map(escape),
        }
    }
}

/// A device and its free memory.
struct FreeDevice {
    id: String,
    kind: String,
    free: String,
    word: &'static str,
}

pub(super) async fn page(
    State(app): AppState,
    Extension(who): CallerExtension,
    headers: HeaderMap,
    Query(query): Query<NewJobQuery>,
) -> Result<Response, PageError> {
    let (frame, watched) = (Frame::of(&app, &headers), app.watched.clone());
    // Where tasks run as their users, the token belongs to none and a user must be named.
    let user = who.name().map(str::to_owned).or_else(|| match app.sharing {
        None => app.account.as_ref().map(|account| account.name.clone()),
        Some(_) => None,
    });
    let person = match &user {
        Some(user) => app.runs_as(user).ok().flatten(),
        None => None,
    };
    let env = match &person {
        Some(person) => Environment::of(person, &*app.login_environment(person).await),
        None => Environment::default(),
    };
    let home = person.map(|person| person.home.display().to_string()).unwrap_or_default();
    let user = user.unwrap_or_default();
    let (fixed, shared) = (!who.is_admin(), app.sharing.is_some());
    let page = app.engine.read(move |f| {
        let watched = watched.as_ref().map(|w| w.lock().expect("nobody panics while looking at devices"));
        let gpus = views::gpus(f.cluster(), watched.as_deref());
        let cloned = match &query.clone {
            Some(id) => Some(clone_job(f, id, &who)?),
            None => None,
        };
        Ok::<_, PageError>(NewJobPage {
            cloned,
            chrome: Chrome::of(f, "New job", "new", frame),
            user: escape(&user),
            fixed,
            shared,
            home: escape(&home),
            env,
            devices: gpus.iter().map(free).collect(),
            cpus: views::workers(f.cluster(), None).iter().map(cpus).collect(),
        })
    });
    Ok(html(StatusCode::OK, &page.await??))
}

/// The document of a job, for those who may see its programs.
fn clone_job(f: &Reader<'_>, id: &str, who: &Caller) -> Result<ClonedJob, PageError> {
    let number = select::job_number(f.cluster(), &select::parse(id, who)?)?;
    let job = f.cluster().job(number).filter(|job| who.owns(&job.user));
    let job =
        job.ok_or_else(|| PageError::Missing(format!("there is no job {number} that you can clone")))?;
    let (doc, secrets) = convert::job_doc(f.cluster(), &job.spec);
    let doc = serde_json::to_string(&doc).map_err(|e| PageError::Failed(e.to_string()))?;
    Ok(ClonedJob { job: number.to_string(), doc, secrets: escape(&secrets.join(", ")) })
}

fn free(gpu: &GpuView) -> FreeDevice {
    let word = match (&gpu.unavailable, gpu.tasks.len(), gpu.free_bytes) {
        (Some(_), ..) => "unavailable",
        (None, 0, _) => "free",
        (None, _, 0) => "taken",
        _ => "shared",
    };
    let bytes = if gpu.unavailable.is_some() { 0 } else { gpu.free_bytes };
    FreeDevice { id: escape(&gpu.id), kind: escape(&gpu.kind), free: format_size(bytes), word }
}

fn cpus(worker: &WorkerView) -> String {
    let left =
        if worker.state == WorkerState::Up { worker.cpus.0.saturating_sub(worker.used_cpus.0) } else { 0 };
    let memory = worker.memory_bytes.saturating_sub(worker.used_memory_bytes);
    format!("{}: {} CPUs and {} of memory. ", escape(&worker.id), MilliCpus(left), format_size(memory))
}
