//! The table of all endpoints, in the order they are documented.

use super::endpoint::{AnyObject, Endpoint, delete, get, post, put};
use super::{
    actions, claims, gpus, jobs, limits, login_link, machine, openapi, policy, preview, remote_worker,
    replays, simulation, snapshots, terminal, throughput, tokens,
};
use crate::caller::Access;
use crate::worker_protocol;
use axum::Json;
use warpyard_api::wire::{
    ActionResult, AdoptRequest, AvailabilityView, CancelOptions, ClaimRequest, ClaimView, DocumentText,
    DocumentView, ExtendRequest, GpuView, HistoryFilter, HistoryRow, InfoView, JobFilter, JobView, JoinReply,
    JoinRequest, LimitView, LogFilter, LoginView, Notice, Page, PolicyPreview, PolicySpec, PolicyView,
    Preview, PriorityRequest, Progress, ProgressReply, ProofView, RebuildResult, ReplayRequest, ReplayView,
    RetryRequest, ShutdownRequest, SimulationUpdate, SimulationView, SnapshotUpload, SubmitReply,
    SubmitRequest, TaskView, Throughputs, TlsView, TokenReply, TokenRequest, TokenView, WhyView,
    WorkerIdentity, WorkerView,
};

/// The description of attaching to a terminal, with the protocol of the upgraded connection.
const TERMINAL: &str = "Attach to the terminal of a task, once it runs. With the headers `Connection: Upgrade` and \
    `Upgrade: warpyard-terminal` the connection is upgraded and carries frames: one byte for the kind, four for the length \
    (little-endian), then the payload. To the task: 1 opens with rows and columns (two bytes each) and the number of bytes \
    seen before (eight); 2 is input; 3 is a new size. From the task: 1 opens with the number of bytes printed before \
    (eight); 2 is output; 3 is a note in UTF-8; 4 is the end. Clients ignore frames of other kinds.";

/// Every endpoint.
pub(super) fn endpoints() -> Vec<Endpoint> {
    let mut all = job_endpoints();
    all.extend(claim_endpoints());
    all.extend(server_endpoints());
    all.extend(identity_endpoints());
    all
}

fn job_endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/jobs", "List jobs, by default the unfinished ones; paged by cursor.", jobs::list)
            .query::<JobFilter>()
            .returns::<Page<JobView>>(),
        post(
            "/v1/jobs",
            "Submit a job, or with `dry_run=true` only preview its position and start.",
            preview::submit,
        )
        .query::<preview::SubmitQuery>()
        .header("Idempotency-Key", "Same as `idempotency_key` in the body.")
        .accepts::<SubmitRequest>()
        .returns_as::<SubmitReply>(201, "The job was submitted, now or before with the same idempotency key.")
        .returns_as::<Preview>(200, "With `dry_run=true`: its position and expected start; nothing was changed."),
        post(
            "/v1/jobs/document",
            "Parse and check the text of a job document, TOML or JSON.",
            preview::document,
        )
        .requires(Access::Read)
        .accepts::<DocumentText>()
        .returns::<DocumentView>(),
        get("/v1/jobs/{id}", "Show a job with its tasks and attempts; can wait until it ends.", jobs::show)
            .query::<jobs::ShowQuery>()
            .returns::<JobView>(),
        get("/v1/jobs/{id}/tasks", "List the tasks of a job, arrays expanded; paged by cursor.", jobs::tasks)
            .query::<jobs::Cursor>()
            .returns::<Page<TaskView>>(),
        get("/v1/jobs/{id}/attempts", "List every attempt of a job's tasks; paged by cursor.", jobs::attempts)
            .query::<jobs::Cursor>()
            .returns::<Page<HistoryRow>>(),
        get("/v1/jobs/{id}/why", "Explain why a job or task waits and when it should start, or how it ended.", jobs::why)
            .returns::<WhyView>(),
        get(
            "/v1/jobs/{id}/logs",
            "Read the log of a task: all of it, a range of bytes, or following it until the task ends.",
            jobs::logs,
        )
        .query::<LogFilter>()
        .header("Range", "A range of bytes: `bytes=0-99`, `bytes=100-`, `bytes=-100`.")
        .returns_text("text/plain", "The log.")
        .returns_range(),
        post(
            "/v1/jobs/{id}/terminal",
            TERMINAL,
            terminal::attach,
        )
        .returns_nothing(101, "The connection is upgraded; the header `Warpyard-Attempt` has the number of the attempt."),
        get("/v1/jobs/{id}/snapshot", "List the files of a job's snapshot.", snapshots::of_job)
            .returns::<AnyObject>(),
        post(
            "/v1/snapshots",
            "Announce the files of a snapshot; answers which contents must still be sent.",
            snapshots::announce,
        )
        .accepts::<AnyObject>()
        .returns::<SnapshotUpload>(),
        post(
            "/v1/snapshots/{id}/contents",
            "Send contents of a snapshot: for each its hash in 64 hexadecimal digits, its length in 8 bytes (little-endian), and its bytes.",
            snapshots::receive,
        )
        .returns::<SnapshotUpload>(),
        post("/v1/jobs/{id}/cancel", "Cancel jobs or tasks.", actions::cancel)
            .query::<CancelOptions>()
            .returns::<ActionResult>(),
        post("/v1/jobs/{id}/retry", "Run jobs or tasks again, or only those that did not succeed.", actions::retry)
            .accepts::<RetryRequest>()
            .returns::<ActionResult>(),
        post("/v1/jobs/{id}/hold", "Hold jobs or tasks: they do not start until released.", actions::hold).returns::<ActionResult>(),
        post("/v1/jobs/{id}/release", "Release held jobs or tasks.", actions::release).returns::<ActionResult>(),
        post("/v1/jobs/{id}/pause", "Pause running tasks.", actions::pause).returns::<ActionResult>(),
        post("/v1/jobs/{id}/resume", "Resume paused tasks.", actions::resume).returns::<ActionResult>(),
        post("/v1/jobs/{id}/priority", "Change the priority of jobs.", actions::priority)
            .accepts::<PriorityRequest>()
            .returns::<ActionResult>(),
        post("/v1/jobs/{id}/progress", "Report the progress of a task.", throughput::progress)
            .accepts::<Progress>()
            .returns::<ProgressReply>(),
        get("/v1/history", "List finished attempts, the latest first; paged by cursor.", machine::history)
            .query::<HistoryFilter>()
            .returns::<Page<HistoryRow>>(),
    ]
}

fn claim_endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/claims", "List open claims.", claims::list).returns::<Vec<ClaimView>>(),
        post("/v1/claims", "Claim devices.", claims::make)
            .accepts::<ClaimRequest>()
            .returns_as::<ClaimView>(201, "The claim is queued, or granted already."),
        post("/v1/claims/adopt", "Give a claim to a process that already uses devices.", claims::adopt)
            .accepts::<AdoptRequest>()
            .returns_as::<ClaimView>(201, "The claim is granted."),
        get("/v1/claims/{id}", "Show a claim; can wait until it is granted.", claims::show)
            .query::<claims::ShowQuery>()
            .returns::<ClaimView>(),
        post("/v1/claims/{id}/heartbeat", "Keep a claim alive.", claims::heartbeat).returns::<ClaimView>(),
        post("/v1/claims/{id}/release", "Release a claim.", claims::release).returns::<ClaimView>(),
        post("/v1/claims/{id}/extend", "Extend a claim.", claims::extend)
            .accepts::<ExtendRequest>()
            .returns::<ClaimView>(),
    ]
}

fn server_endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/gpus", "List GPUs and who uses them; as text with `Accept: text/plain`.", gpus::list)
            .returns::<Vec<GpuView>>()
            .returns_text("text/plain", "One line per GPU."),
        get("/v1/gpus/{ids}/free", "Check whether all of the given GPUs are free: `0,1`, or `worker/0`.", gpus::free)
            .returns::<AvailabilityView>(),
        get("/v1/workers", "List workers.", machine::workers).returns::<Vec<WorkerView>>(),
        post(
            "/v1/workers/{id}/drain",
            "Start no more tasks on a worker; running tasks finish.",
            machine::drain,
        )
        .requires(Access::Admin("drain workers"))
        .returns::<WorkerView>(),
        post("/v1/workers/{id}/resume", "Let a drained worker take tasks again.", machine::resume)
            .requires(Access::Admin("resume workers"))
            .returns::<WorkerView>(),
        get("/v1/limits", "List the caller's limits and how much of each is in use; admins see everyone's.", limits::list)
            .returns::<Vec<LimitView>>(),
        get("/v1/policies", "List policies; `active` marks the one in force.", machine::policies)
            .returns::<Vec<PolicyView>>(),
        get("/v1/throughputs", "Show the throughput of profiles by GPU type.", throughput::list).returns::<Throughputs>(),
        put("/v1/throughputs", "Set the throughput of profiles by GPU type.", throughput::set)
            .requires(Access::Admin("set throughputs"))
            .accepts::<Throughputs>()
            .returns::<Throughputs>(),
        put("/v1/policy", "Switch to another policy, or change its parameters.", machine::set_policy)
            .requires(Access::Admin("change the policy"))
            .accepts::<PolicySpec>()
            .returns::<PolicyView>(),
        post(
            "/v1/policy/preview",
            "Preview the order of the queue under another policy; changes nothing.",
            policy::preview,
        )
        .requires(Access::Read)
        .accepts::<PolicySpec>()
        .returns::<PolicyPreview>(),
        get("/v1/replays", "List replays, the latest first.", replays::list)
            .returns::<Vec<ReplayView>>(),
        post("/v1/replays", "Replay the history under other policies; one replay runs at a time.", replays::begin)
            .accepts::<ReplayRequest>()
            .returns_as::<ReplayView>(202, "The replay has started."),
        get("/v1/replays/{id}", "Show a replay: its progress and its results.", replays::one)
            .returns::<ReplayView>(),
        get("/v1/simulation", "Show the progress of the simulation in the pages.", simulation::show)
            .returns::<SimulationView>(),
        put("/v1/simulation", "Change the speed of the simulation, or pause it.", simulation::set)
            .requires(Access::Admin("change the speed of the simulation"))
            .accepts::<SimulationUpdate>()
            .returns::<SimulationView>(),
        get(
            "/v1/events",
            "Stream every change as server-sent events; resumes after `Last-Event-ID`.",
            machine::events,
        )
        .query::<machine::EventsQuery>()
        .header("Last-Event-ID", "The last event received; the stream resumes after it.")
        .returns_as::<Notice>(200, "The data of each event."),
        get("/v1/info", "Show the server's version, address, policy and load.", machine::info).returns::<InfoView>(),
        get("/v1/schema/job", "The JSON Schema of the job document.", async || {
            Json(warpyard_api::job::job_schema())
        })
        .returns::<AnyObject>(),
        get("/v1/openapi.json", "The OpenAPI document of this API.", async || Json(openapi::openapi())).returns::<AnyObject>(),
        get("/metrics", "Metrics for Prometheus.", super::metrics::metrics)
            .returns_text("text/plain", "The metrics."),
        get(
            login_link::PROOF,
            "Prove that the server knows its token, so that callers can check before they send it. Needs no token.",
            login_link::proof,
        )
        .requires(Access::Open)
        .query::<login_link::ProofQuery>()
        .returns::<ProofView>(),
        post("/v1/login", "Make a link that logs one browser in to the pages.", login_link::login)
            .requires(Access::Read)
            .returns::<LoginView>(),
        post("/v1/shutdown", "Stop the server.", machine::shutdown)
            .requires(Access::Admin("stop the server"))
            .accepts::<ShutdownRequest>()
            .returns_nothing(202, "The server is stopping."),
        post("/v1/admin/rebuild", "Rebuild the derived tables from the log.", machine::rebuild)
            .requires(Access::Admin("rebuild the derived tables"))
            .returns::<RebuildResult>(),
    ]
}

fn identity_endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/tls", "Show how others reach the server, and the CA that they know its certificate by.", tokens::tls)
            .returns::<TlsView>(),
        get("/v1/tokens", "List your tokens, without their secrets; admins see everyone's.", tokens::list)
            .returns::<Vec<TokenView>>(),
        post("/v1/tokens", "Make a personal token, or a join token for workers. Its secret is shown this once.", tokens::create)
            .accepts::<TokenRequest>()
            .returns_as::<TokenReply>(201, "The token, valid from now on."),
        delete("/v1/tokens/{id}", "Revoke a token, at once.", tokens::revoke).returns::<TokenView>(),
        post(
            tokens::JOIN,
            "Join a worker by the secret of a join token: its key authenticates it from then on. Needs no other token.",
            tokens::join,
        )
        .requires(Access::Open)
        .accepts::<JoinRequest>()
        .returns::<JoinReply>(),
        get(worker_protocol::SELF, "Show the worker that the caller's key belongs to, and how it is to run tasks.", remote_worker::identity)
            .requires(Access::Worker)
            .returns::<WorkerIdentity>(),
        put(
            worker_protocol::SELF,
            "Register a worker with its description; it is given tasks from then on. For workers of the server's own version.",
            remote_worker::register,
        )
        .requires(Access::Worker)
        .accepts::<AnyObject>()
        .returns_nothing(204, "The worker is registered."),
        post(worker_protocol::REPORTS, "Report the attempts and devices of a worker.", remote_worker::report)
            .requires(Access::Worker)
            .accepts::<AnyObject>()
            .returns_nothing(202, "The report will be acknowledged by assignments."),
        get(worker_protocol::ASSIGNMENTS, "Wait for a worker's assignments.", remote_worker::assignments)
            .requires(Access::Worker)
            .query::<remote_worker::AssignmentsQuery>()
            .returns::<AnyObject>()
            .returns_nothing(204, "There were no new ones for a while."),
        post(
            worker_protocol::LOGS,
            "Append to the output of an attempt on a worker, by offset; answers how much of it there is.",
            remote_worker::append_log,
        )
        .requires(Access::Worker)
        .query::<remote_worker::LogQuery>()
        .returns::<AnyObject>(),
        delete("/v1/workers/{id}/key", "Revoke the key of a worker, at once; it can join again with another.", tokens::revoke_key)
            .requires(Access::Admin("revoke the keys of workers"))
            .returns_nothing(204, "The key counts for nothing any more."),
    ]
}
