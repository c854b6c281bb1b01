//! Everything that can be asked over HTTP, in the order it is described.

use super::endpoint::{AnyObject, Endpoint, get, post, put};
use super::{
    act, claims, gpus, jobs, limits, login_link, machine, policy, preview, replays, simulation, snapshots,
    spec, speeds, terminal,
};
use axum::Json;
use warpyard_api::wire::{
    ActionResult, AdoptRequest, AvailabilityView, CancelOptions, ClaimRequest, ClaimView, DocumentText,
    DocumentView, ExtendRequest, GpuView, HistoryFilter, HistoryRow, InfoView, JobFilter, JobView, LimitView,
    LogFilter, LoginView, Notice, Page, PolicyPreview, PolicySpec, PolicyView, Preview, PriorityRequest,
    Progress, ProgressReply, ProofView, RebuildResult, ReplayRequest, ReplayView, RetryRequest,
    ShutdownRequest, SimulationUpdate, SimulationView, SnapshotUpload, SubmitReply, SubmitRequest, TaskView,
    Throughputs, WhyView, WorkerView,
};

/// The table.
pub(super) fn endpoints() -> Vec<Endpoint> {
    let mut all = jobs_part();
    all.extend(claims_part());
    all.extend(machine_part());
    all
}

fn jobs_part() -> Vec<Endpoint> {
    vec![
        get("/v1/jobs", "List jobs, by default the unfinished ones; paged by cursor.", jobs::list)
            .query::<JobFilter>()
            .gives::<Page<JobView>>(),
        post(
            "/v1/jobs",
            "Submit a job, or with `dry_run=true` only preview its position and start.",
            preview::submit,
        )
        .query::<preview::SubmitQuery>()
        .header("Idempotency-Key", "The same as `idempotency_key` in the body.")
        .takes::<SubmitRequest>()
        .gives_as::<SubmitReply>(201, "The job was submitted, now or before with the same idempotency key.")
        .gives_as::<Preview>(200, "With `dry_run=true`: its position and expected start; nothing was changed."),
        post(
            "/v1/jobs/document",
            "Parse and check the text of a job document, TOML or JSON.",
            preview::document,
        )
        .takes::<DocumentText>()
        .gives::<DocumentView>(),
        get("/v1/jobs/{id}", "Show a job with its tasks and attempts; can wait until it ends.", jobs::show)
            .query::<jobs::ShowQuery>()
            .gives::<JobView>(),
        get("/v1/jobs/{id}/tasks", "List the tasks of a job, arrays expanded; paged by cursor.", jobs::tasks)
            .query::<jobs::Cursor>()
            .gives::<Page<TaskView>>(),
        get("/v1/jobs/{id}/attempts", "List every attempt of a job's tasks; paged by cursor.", jobs::attempts)
            .query::<jobs::Cursor>()
            .gives::<Page<HistoryRow>>(),
        get("/v1/jobs/{id}/why", "Explain why a job or task waits and when it is expected to start, or how it ended.", jobs::why)
            .gives::<WhyView>(),
        get(
            "/v1/jobs/{id}/logs",
            "Read the log of a task: whole, in part by the header Range, or followed until the task ends.",
            jobs::logs,
        )
        .query::<LogFilter>()
        .header("Range", "A range of bytes: `bytes=0-99`, `bytes=100-`, `bytes=-100`.")
        .gives_text("text/plain", "The log.")
        .gives_part(),
        post(
            "/v1/jobs/{id}/terminal",
            "Attach to the terminal a task runs in, once it runs. With the headers `Connection: Upgrade` and `Upgrade: \
             warpyard-terminal` the connection then carries frames: a byte for the kind, four for the length (least \
             significant first), the rest. To the task: 1 rows and columns (two bytes each) and bytes seen before \
             (eight), first of all; 2 what is typed; 3 rows and columns. From it: 1 how many bytes were printed before \
             (eight), first of all; 2 what is printed; 3 a note in UTF-8; 4 it is over. Others may come and are passed over.",
            terminal::attach,
        )
        .gives_nothing(101, "The connection leads to the terminal; `Warpyard-Attempt` says which attempt's."),
        get("/v1/jobs/{id}/snapshot", "List the files of a job's snapshot.", snapshots::of_job)
            .gives::<AnyObject>(),
        post(
            "/v1/snapshots",
            "Announce the files of a snapshot; answers which contents must still be sent.",
            snapshots::announce,
        )
        .takes::<AnyObject>()
        .gives::<SnapshotUpload>(),
        post(
            "/v1/snapshots/{id}/contents",
            "Send contents of a snapshot: each as its hash in 64 digits, its length in 8 bytes, least significant first, and its bytes.",
            snapshots::receive,
        )
        .gives::<SnapshotUpload>(),
        post("/v1/jobs/{id}/cancel", "Cancel jobs or tasks.", act::cancel)
            .query::<CancelOptions>()
            .gives::<ActionResult>(),
        post("/v1/jobs/{id}/retry", "Run jobs or tasks again, or only those that did not succeed.", act::retry)
            .takes::<RetryRequest>()
            .gives::<ActionResult>(),
        post("/v1/jobs/{id}/hold", "Keep jobs or tasks in the queue from starting.", act::hold).gives::<ActionResult>(),
        post("/v1/jobs/{id}/release", "Release held jobs or tasks.", act::release).gives::<ActionResult>(),
        post("/v1/jobs/{id}/pause", "Pause running tasks.", act::pause).gives::<ActionResult>(),
        post("/v1/jobs/{id}/resume", "Resume paused tasks.", act::resume).gives::<ActionResult>(),
        post("/v1/jobs/{id}/priority", "Change the priority of jobs.", act::priority)
            .takes::<PriorityRequest>()
            .gives::<ActionResult>(),
        post("/v1/jobs/{id}/progress", "Report the progress of a task.", speeds::progress)
            .takes::<Progress>()
            .gives::<ProgressReply>(),
        get("/v1/history", "List finished attempts, the latest first; paged by cursor.", machine::history)
            .query::<HistoryFilter>()
            .gives::<Page<HistoryRow>>(),
    ]
}

fn claims_part() -> Vec<Endpoint> {
    vec![
        get("/v1/claims", "List open claims.", claims::list).gives::<Vec<ClaimView>>(),
        post("/v1/claims", "Claim devices.", claims::make)
            .takes::<ClaimRequest>()
            .gives_as::<ClaimView>(201, "The claim is queued, or granted already."),
        post("/v1/claims/adopt", "Give a claim to a process that already uses devices.", claims::adopt)
            .takes::<AdoptRequest>()
            .gives_as::<ClaimView>(201, "The claim is granted."),
        get("/v1/claims/{id}", "Show a claim; can wait until it is granted.", claims::show)
            .query::<claims::ShowQuery>()
            .gives::<ClaimView>(),
        post(
            "/v1/claims/{id}/heartbeat",
            "Keep a claim alive: its holder is still there.",
            claims::heartbeat,
        )
        .gives::<ClaimView>(),
        post("/v1/claims/{id}/release", "Release a claim.", claims::release).gives::<ClaimView>(),
        post("/v1/claims/{id}/extend", "Extend a claim.", claims::extend)
            .takes::<ExtendRequest>()
            .gives::<ClaimView>(),
    ]
}

fn machine_part() -> Vec<Endpoint> {
    vec![
        get("/v1/gpus", "List GPUs and who uses them; as text with `Accept: text/plain`.", gpus::list)
            .gives::<Vec<GpuView>>()
            .gives_text("text/plain", "One line per GPU."),
        get("/v1/gpus/{ids}/free", "Answer whether all of these GPUs are free: `0,1`, or `worker/0`.", gpus::free)
            .gives::<AvailabilityView>(),
        get("/v1/workers", "List workers.", machine::workers).gives::<Vec<WorkerView>>(),
        post(
            "/v1/workers/{id}/drain",
            "Start no more tasks on a worker; running tasks finish.",
            machine::drain,
        )
        .gives::<WorkerView>(),
        post("/v1/workers/{id}/resume", "Let a drained worker take tasks again.", machine::resume)
            .gives::<WorkerView>(),
        get("/v1/limits", "List the caller's limits and how much of each is in use; for admins, everyone's.", limits::list)
            .gives::<Vec<LimitView>>(),
        get("/v1/policies", "List policies; `active` marks the one in force.", machine::policies)
            .gives::<Vec<PolicyView>>(),
        get("/v1/throughputs", "Show the throughput of profiles by GPU type.", speeds::list).gives::<Throughputs>(),
        put("/v1/throughputs", "Set the throughput of profiles by GPU type.", speeds::set)
            .takes::<Throughputs>()
            .gives::<Throughputs>(),
        put("/v1/policy", "Switch to another policy, or change its parameters.", machine::set_policy)
            .takes::<PolicySpec>()
            .gives::<PolicyView>(),
        post(
            "/v1/policy/preview",
            "Preview the order of the queue under another policy; changes nothing.",
            policy::preview,
        )
        .takes::<PolicySpec>()
        .gives::<PolicyPreview>(),
        get("/v1/replays", "List replays, the latest first.", replays::list)
            .gives::<Vec<ReplayView>>(),
        post("/v1/replays", "Replay the history under other policies; one replay runs at a time.", replays::begin)
            .takes::<ReplayRequest>()
            .gives_as::<ReplayView>(202, "The replay has started."),
        get("/v1/replays/{id}", "Show a replay: its progress and its results.", replays::one)
            .gives::<ReplayView>(),
        get("/v1/simulation", "Show the progress of the simulation in the pages.", simulation::show)
            .gives::<SimulationView>(),
        put("/v1/simulation", "Change the speed of the simulation, or pause it.", simulation::set)
            .takes::<SimulationUpdate>()
            .gives::<SimulationView>(),
        get(
            "/v1/events",
            "Stream every change as server-sent events; resumes after `Last-Event-ID`.",
            machine::events,
        )
        .query::<machine::EventsQuery>()
        .header("Last-Event-ID", "The last event received; the stream resumes after it.")
        .gives_as::<Notice>(200, "Each event's data is one of these."),
        get("/v1/info", "Show the server's version, address, policy and load.", machine::info).gives::<InfoView>(),
        get("/v1/schema/job", "The JSON Schema of the job document.", async || {
            Json(warpyard_api::job::job_schema())
        })
        .gives::<AnyObject>(),
        get("/v1/openapi.json", "This description.", async || Json(spec::openapi())).gives::<AnyObject>(),
        get("/metrics", "Metrics for Prometheus.", super::metrics::metrics)
            .gives_text("text/plain", "The metrics."),
        get(
            login_link::PROOF,
            "Prove that the server knows its token, so that callers can check before they send it. Needs no token.",
            login_link::proof,
        )
        .query::<login_link::ProofQuery>()
        .gives::<ProofView>(),
        post("/v1/login", "Make a link that logs one browser in to the pages.", login_link::login).gives::<LoginView>(),
        post("/v1/shutdown", "Stop the server.", machine::shutdown)
            .takes::<ShutdownRequest>()
            .gives_nothing(202, "It is stopping."),
        post("/v1/admin/rebuild", "Rebuild the derived tables from the log.", machine::rebuild)
            .gives::<RebuildResult>(),
    ]
}
