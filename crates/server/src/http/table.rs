//! Everything that can be asked over HTTP, in the order it is described.

use super::endpoint::{AnyObject, Endpoint, get, post, put};
use super::{
    act, claims, doors, gpus, jobs, limits, machine, policy, preview, replays, simulation, snapshots, spec,
    speeds, terminal,
};
use axum::Json;
use warpyard_api::wire::{
    Acted, Adopt, Announced, CancelFilter, ClaimRequest, ClaimView, DocumentText, DocumentView, Extend,
    FreeView, GpuView, HistoryFilter, HistoryRow, InfoView, JobFilter, JobView, LimitView, LogFilter,
    LoginView, Noted, Notice, Page, PolicyPreview, PolicySet, PolicyView, Preview, Priority, Progress,
    ProofView, Rebuilt, ReplayAsk, ReplayView, Retry, Shutdown, SimulationSet, SimulationView, Submit,
    Submitted, TaskView, Throughputs, WhyView, WorkerView,
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
        get("/v1/jobs", "List jobs, those that are not over unless asked; paged by cursor.", jobs::list)
            .query::<JobFilter>()
            .gives::<Page<JobView>>(),
        post(
            "/v1/jobs",
            "Submit a job, or with `dry_run=true` only say what would become of it.",
            preview::submit,
        )
        .query::<preview::SubmitQuery>()
        .header("Idempotency-Key", "The same as `idempotency_key` in what is sent.")
        .takes::<Submit>()
        .gives_as::<Submitted>(201, "It was submitted, now or before with the same idempotency key.")
        .gives_as::<Preview>(200, "With `dry_run=true`: what would become of it; nothing was changed."),
        post(
            "/v1/jobs/document",
            "Read a job document's text, TOML or JSON, and check it.",
            preview::document,
        )
        .takes::<DocumentText>()
        .gives::<DocumentView>(),
        get("/v1/jobs/{id}", "A job with its tasks and attempts; can wait for its end.", jobs::show)
            .query::<jobs::ShowQuery>()
            .gives::<JobView>(),
        get("/v1/jobs/{id}/tasks", "The tasks of a job, arrays unfolded; paged by cursor.", jobs::tasks)
            .query::<jobs::Cursor>()
            .gives::<Page<TaskView>>(),
        get("/v1/jobs/{id}/attempts", "Every attempt of a job's tasks; paged by cursor.", jobs::attempts)
            .query::<jobs::Cursor>()
            .gives::<Page<HistoryRow>>(),
        get("/v1/jobs/{id}/why", "Why a job or task waits, and when it will likely start.", jobs::why)
            .gives::<WhyView>(),
        get(
            "/v1/jobs/{id}/logs",
            "What a task printed, whole, by the header Range, or followed to its end.",
            jobs::logs,
        )
        .query::<LogFilter>()
        .header("Range", "Which bytes of it: `bytes=0-99`, `bytes=100-`, `bytes=-100`.")
        .gives_text("text/plain", "What it printed.")
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
        get("/v1/jobs/{id}/snapshot", "What is in the directory a job runs in a copy of.", snapshots::of_job)
            .gives::<AnyObject>(),
        post(
            "/v1/snapshots",
            "Say what is in a directory that is to be kept; gives what must still be sent.",
            snapshots::announce,
        )
        .takes::<AnyObject>()
        .gives::<Announced>(),
        post(
            "/v1/snapshots/{id}/contents",
            "Send contents of a snapshot: each its hash in 64 digits, its length in 8 bytes, low first, and itself.",
            snapshots::receive,
        )
        .gives::<Announced>(),
        post("/v1/jobs/{id}/cancel", "Cancel jobs or tasks.", act::cancel)
            .query::<CancelFilter>()
            .gives::<Acted>(),
        post("/v1/jobs/{id}/retry", "Run jobs again, or only what of them did not succeed.", act::retry)
            .takes::<Retry>()
            .gives::<Acted>(),
        post("/v1/jobs/{id}/hold", "Hold jobs back.", act::hold).gives::<Acted>(),
        post("/v1/jobs/{id}/release", "Let held jobs go on.", act::release).gives::<Acted>(),
        post("/v1/jobs/{id}/pause", "Pause the running tasks of jobs.", act::pause).gives::<Acted>(),
        post("/v1/jobs/{id}/resume", "Let paused tasks go on.", act::resume).gives::<Acted>(),
        post("/v1/jobs/{id}/priority", "Change how urgent jobs are.", act::priority)
            .takes::<Priority>()
            .gives::<Acted>(),
        post("/v1/jobs/{id}/progress", "Say how far a task of a job is.", speeds::progress)
            .takes::<Progress>()
            .gives::<Noted>(),
        get("/v1/history", "Attempts that ended, the last first; paged by cursor.", machine::history)
            .query::<HistoryFilter>()
            .gives::<Page<HistoryRow>>(),
    ]
}

fn claims_part() -> Vec<Endpoint> {
    vec![
        get("/v1/claims", "Claims that are not over.", claims::list).gives::<Vec<ClaimView>>(),
        post("/v1/claims", "Ask for devices to hold.", claims::make)
            .takes::<ClaimRequest>()
            .gives_as::<ClaimView>(201, "It stands in line, or has them already."),
        post("/v1/claims/adopt", "Give a process that uses devices already a claim on them.", claims::adopt)
            .takes::<Adopt>()
            .gives_as::<ClaimView>(201, "It has them."),
        get("/v1/claims/{id}", "A claim; can wait until it has its devices.", claims::show)
            .query::<claims::ShowQuery>()
            .gives::<ClaimView>(),
        post("/v1/claims/{id}/heartbeat", "Say that its holder is still there.", claims::heartbeat)
            .gives::<ClaimView>(),
        post("/v1/claims/{id}/release", "Let its devices go.", claims::release).gives::<ClaimView>(),
        post("/v1/claims/{id}/extend", "Let it last longer.", claims::extend)
            .takes::<Extend>()
            .gives::<ClaimView>(),
    ]
}

fn machine_part() -> Vec<Endpoint> {
    vec![
        get("/v1/gpus", "Every GPU and who is on it; as text with `Accept: text/plain`.", gpus::list)
            .gives::<Vec<GpuView>>()
            .gives_text("text/plain", "One line for each GPU."),
        get("/v1/gpus/{ids}/free", "Whether all of some GPUs are free: `0,1`, or `worker/0`.", gpus::free)
            .gives::<FreeView>(),
        get("/v1/workers", "Every worker.", machine::workers).gives::<Vec<WorkerView>>(),
        post(
            "/v1/workers/{id}/drain",
            "Let a worker finish what it has and give it no more.",
            machine::drain,
        )
        .gives::<WorkerView>(),
        post("/v1/workers/{id}/resume", "Give a drained worker tasks again.", machine::resume)
            .gives::<WorkerView>(),
        get("/v1/limits", "What the caller may have, and has; for admins, everyone.", limits::list)
            .gives::<Vec<LimitView>>(),
        get("/v1/policies", "Every policy, the one in force marked.", machine::policies)
            .gives::<Vec<PolicyView>>(),
        get("/v1/throughputs", "How fast profiles run on types of GPU.", speeds::list).gives::<Throughputs>(),
        put("/v1/throughputs", "Say how fast profiles run on types of GPU.", speeds::set)
            .takes::<Throughputs>()
            .gives::<Throughputs>(),
        put("/v1/policy", "Put another policy, or other parameters, in force.", machine::set_policy)
            .takes::<PolicySet>()
            .gives::<PolicyView>(),
        post(
            "/v1/policy/preview",
            "The line as it would stand under another policy; changes nothing.",
            policy::preview,
        )
        .takes::<PolicySet>()
        .gives::<PolicyPreview>(),
        get("/v1/replays", "Replays of what happened under other policies, the last first.", replays::list)
            .gives::<Vec<ReplayView>>(),
        post("/v1/replays", "Replay what happened under other policies; one at a time.", replays::begin)
            .takes::<ReplayAsk>()
            .gives_as::<ReplayView>(202, "It has begun."),
        get("/v1/replays/{id}", "A replay: how far it is, and what came out.", replays::one)
            .gives::<ReplayView>(),
        get("/v1/simulation", "How the simulation that is shown goes on.", simulation::show)
            .gives::<SimulationView>(),
        put("/v1/simulation", "Change how fast it goes, or have it stand still.", simulation::set)
            .takes::<SimulationSet>()
            .gives::<SimulationView>(),
        get(
            "/v1/events",
            "Word of every change, as server-sent events; goes on after `Last-Event-ID`.",
            machine::events,
        )
        .query::<machine::EventsQuery>()
        .header("Last-Event-ID", "The last event that was seen; what came after it follows.")
        .gives_as::<Notice>(200, "Each event's data is one of these."),
        get("/v1/info", "What the server is.", machine::info).gives::<InfoView>(),
        get("/v1/schema/job", "The form of the job document, as JSON Schema.", async || {
            Json(warpyard_api::job::job_schema())
        })
        .gives::<AnyObject>(),
        get("/v1/openapi.json", "This description.", async || Json(spec::openapi())).gives::<AnyObject>(),
        get("/metrics", "Figures for Prometheus.", super::metrics::metrics)
            .gives_text("text/plain", "The figures."),
        get(
            doors::PROOF,
            "Proof that the server knows its token, for callers to ask for before they send it. Needs no token.",
            doors::proof,
        )
        .query::<doors::ProofQuery>()
        .gives::<ProofView>(),
        post("/v1/login", "A link that lets one person into the pages.", doors::login).gives::<LoginView>(),
        post("/v1/shutdown", "Stop the server.", machine::shutdown)
            .takes::<Shutdown>()
            .gives_nothing(202, "It is stopping."),
        post("/v1/admin/rebuild", "Make the derived tables again from the log.", machine::rebuild)
            .gives::<Rebuilt>(),
    ]
}
