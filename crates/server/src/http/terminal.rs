//! Attaching to the terminal of a task: a connection that, once the task runs, leads to its supervisor. The server
//! only relays it, so that a restarted server loses the connection and nothing else.

use super::jobs::which_log;
use super::refusal::Refusal;
use super::{App, AppState, CallerExtension};
use crate::quota::QuotaPermit;
use crate::replica::Reader;
use crate::{select, views};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use std::io;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::UnixStream;
use warpyard_api::problem::{Problem, code};
use warpyard_core::{AttemptId, TaskId, TaskState};
use warpyard_session::{ATTEMPT_HEADER, MAX_CLIENTS, PROTOCOL};
use warpyard_worker::supervise::AttemptDir;

/// The delay before another attempt to connect to a terminal that does not answer although its task is running: it
/// has just ended, or is about to start.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub(super) async fn attach(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let asked = request.headers().get(UPGRADE).is_some_and(|to| to == PROTOCOL);
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>().filter(|_| asked) else {
        let detail = format!("attaching requires the header `Upgrade: {PROTOCOL}`");
        return Err(Refusal::new(426, code::BAD_REQUEST, detail));
    };
    let selector = select::parse(&id, &who)?;
    let find = move |f: &Reader<'_>| {
        let task = which_log(f, &selector, None, None)?;
        Ok::<_, Problem>((task, views::user_of(f, task.job)))
    };
    let (task, user) = app.engine.read(find).await??;
    who.must_own(&user, "attach to it")?;
    let (attempt, terminal) = reach(&app, task).await?;
    let seat = app.quotas.attached.acquire(attempt, MAX_CLIENTS).ok_or_else(|| full(task))?;
    tokio::spawn(pass_on(upgrade, terminal, seat));
    let answer = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, PROTOCOL)
        .header(ATTEMPT_HEADER, attempt.number);
    answer.body(Body::empty()).map_err(Refusal::internal)
}

fn full(task: TaskId) -> Problem {
    let message =
        format!("{MAX_CLIENTS} terminals are attached to job {} already, as many as may be", task.job);
    Problem::new(code::FULL, "", message).with_help("leave it at one of them first (Ctrl-] then d)")
}

/// Waits until the task runs, and connects to its terminal.
async fn reach(app: &App, task: TaskId) -> Result<(AttemptId, UnixStream), Refusal> {
    let mut changes = app.notices.listen();
    loop {
        let runs = app.engine.read(move |f| running(f, task)).await??;
        if let Some(attempt) = runs {
            if let Ok(terminal) = connect(app, attempt) {
                return Ok((attempt, terminal));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        } else {
            changes.changed().await;
        }
    }
}

/// The running attempt; `None` while the task waits.
fn running(f: &Reader<'_>, task: TaskId) -> Result<Option<AttemptId>, Problem> {
    let ended = || {
        let message = format!("job {} has ended, and its terminal with it", task.job);
        Problem::new(code::WRONG_STATE, "", message)
            .with_help(format!("`warpyard logs {}` prints its output", task.job))
    };
    let job = f.cluster().job(task.job).ok_or_else(ended)?;
    let (_, spec) = job.node(task.node).ok_or_else(ended)?;
    if spec.terminal.is_none() {
        let message = format!("job {} does not run in a terminal", task.job);
        return Err(Problem::new(code::NO_TERMINAL, "", message).with_help(format!(
            "`warpyard logs -f {}` follows its output; `warpyard run --pty` gives a job a terminal",
            task.job
        )));
    }
    if let None | Some(TaskState::Done(_)) = f.cluster().state(task) {
        return Err(ended());
    }
    let live = job.nodes[task.node as usize].live.get(&task.index);
    Ok(live.and_then(|live| live.attempt().map(|_| task.attempt(live.attempts))))
}

fn connect(app: &App, attempt: AttemptId) -> io::Result<UnixStream> {
    let terminal = AttemptDir::new(app.layout.attempt_dir(attempt)).terminal()?;
    terminal.set_nonblocking(true)?;
    UnixStream::from_std(terminal)
}

async fn pass_on(upgrade: OnUpgrade, mut terminal: UnixStream, _until_it_ends: QuotaPermit<AttemptId>) {
    let Ok(caller) = upgrade.await else { return };
    // When either side closes, the other's connection ends too.
    let _either_left = copy_bidirectional(&mut TokioIo::new(caller), &mut terminal).await;
}
