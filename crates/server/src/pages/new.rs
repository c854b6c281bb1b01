//! The form of a new job. The form itself is made by its script from the job document's schema; here is what it stands
//! beside: who submits, where and with which environment it runs, and what is free now.

use super::words::{size, text};
use super::{Chrome, Frame, NoPage, html};
use crate::caller::Caller;
use crate::http::{By, Shared};
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
struct New {
    chrome: Chrome,
    user: String,
    /// Whether they submit as themselves only.
    fixed: bool,
    /// Whether tasks run as the user who is named.
    shared: bool,
    /// Their home, where tasks run that name no directory.
    home: String,
    cloned: Option<Cloned>,
    env: Environment,
    devices: Vec<Free>,
    cpus: Vec<String>,
}

/// The job the form begins with.
struct Cloned {
    job: String,
    /// Its document as JSON.
    doc: String,
    /// What must be filled in again.
    secrets: String,
}

#[derive(Default, Deserialize)]
pub(super) struct Asked {
    /// The job the form begins with.
    clone: Option<String>,
}

/// The variables tasks begin with.
#[derive(Default)]
struct Environment {
    /// Whose shell set them.
    shell: String,
    names: Vec<String>,
    path: String,
    /// Why they are the fewest there can be.
    minimal_because: Option<String>,
}

impl Environment {
    fn of(person: &Account, found: &LoginEnvironment) -> Environment {
        Environment {
            shell: text(&person.shell.to_string_lossy()),
            names: found.variables.keys().map(|name| text(name)).collect(),
            path: text(found.variables.get("PATH").map_or("", String::as_str)),
            minimal_because: found.minimal_because.as_deref().map(text),
        }
    }
}

/// A device and what it has to give.
struct Free {
    id: String,
    kind: String,
    free: String,
    word: &'static str,
}

pub(super) async fn page(
    State(app): Shared,
    Extension(who): By,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, NoPage> {
    let (frame, watched) = (Frame::of(&app, &headers), app.watched.clone());
    // Where tasks run as their users, the token is nobody's and someone has to be named.
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
        let cloned = match &asked.clone {
            Some(id) => Some(cloned(f, id, &who)?),
            None => None,
        };
        Ok::<_, NoPage>(New {
            cloned,
            chrome: Chrome::of(f, "New job", "new", frame),
            user: text(&user),
            fixed,
            shared,
            home: text(&home),
            env,
            devices: gpus.iter().map(free).collect(),
            cpus: views::workers(f.cluster(), None).iter().map(cpus).collect(),
        })
    });
    Ok(html(StatusCode::OK, &page.await??))
}

/// A job's document, for whoever may see what it runs.
fn cloned(f: &Reader<'_>, id: &str, who: &Caller) -> Result<Cloned, NoPage> {
    let number = select::job_number(f.cluster(), &select::parse(id, who)?)?;
    let job = f.cluster().job(number).filter(|job| who.owns(&job.user));
    let job = job.ok_or_else(|| NoPage::Missing(format!("there is no job {number} that you can clone")))?;
    let (doc, secrets) = convert::job_doc(f.cluster(), &job.spec);
    let doc = serde_json::to_string(&doc).map_err(|e| NoPage::Failed(e.to_string()))?;
    Ok(Cloned { job: number.to_string(), doc, secrets: text(&secrets.join(", ")) })
}

fn free(gpu: &GpuView) -> Free {
    let word = match (&gpu.unavailable, gpu.tasks.len(), gpu.free_bytes) {
        (Some(_), ..) => "unavailable",
        (None, 0, _) => "free",
        (None, _, 0) => "taken",
        _ => "shared",
    };
    let bytes = if gpu.unavailable.is_some() { 0 } else { gpu.free_bytes };
    Free { id: text(&gpu.id), kind: text(&gpu.kind), free: size(bytes), word }
}

fn cpus(worker: &WorkerView) -> String {
    let left =
        if worker.state == WorkerState::Up { worker.cpus.0.saturating_sub(worker.used_cpus.0) } else { 0 };
    let memory = worker.memory_bytes.saturating_sub(worker.used_memory_bytes);
    format!("{}: {} CPUs and {} of memory. ", text(&worker.id), MilliCpus(left), size(memory))
}
