//! The contract of [`HistoryStore`]: every implementation passes each of these, called with empty tables and a way to reopen
//! them as a restarted process would.

use warpyard_core::event::{Disposition, End, EndReason, EventKind, Outcome, Usage, WorkerInfo};
use warpyard_core::model::{BoundBasis, EstimateRequest, EstimateSource, ModelEstimate, ModelSpec};
use warpyard_core::pool::{Charge, DeviceInfo, DeviceState, Placement};
use warpyard_core::spec::{JobSpec, Needs, Program, TaskSpec};
use warpyard_core::{Cluster, Event, JobId, PolicyChoice, Span, TaskId, Time, WorkerId};
use warpyard_server::store::{AttemptRow, BoundCoverage, HistoryStore, JobRow, ModelRun, Sample};

type Tables = Box<dyn HistoryStore>;

/// Jobs of the story that the contract is checked with.
const JOBS: u64 = 4;

/// A story: a worker joins, jobs are submitted, and each but the last runs, every second one failing its first attempt.
fn story() -> (Cluster, Vec<Event>) {
    let device = DeviceInfo {
        uuid: "gpu-0".into(),
        kind: "V100".into(),
        memory: 16 << 30,
        budget: 16 << 30,
        limit: None,
        overcommit: false,
        state: DeviceState::Usable,
    };
    let info = WorkerInfo {
        name: "w".into(),
        devices: vec![device],
        cpus: 8_000,
        memory: 1 << 40,
        ..WorkerInfo::default()
    };
    let mut kinds = vec![EventKind::WorkerJoined { worker: WorkerId(0), info }];
    for n in 1..=JOBS {
        let needs = Needs { gpus: 1, ..Needs::default() };
        let task = TaskSpec {
            name: "t".into(),
            program: Program::new(["true"]),
            needs,
            retries: 1,
            timeout: Some(Span::from_secs(60.0)),
            model: Some(Box::new(ModelSpec { estimate: Some(estimate(n)), ..ModelSpec::default() })),
            ..TaskSpec::default()
        };
        let spec = JobSpec { name: format!("job {n}"), tasks: vec![task], ..JobSpec::default() };
        let user = if n % 2 == 0 { "ann" } else { "bob" };
        kinds.push(EventKind::JobSubmitted { job: JobId(n), user: user.into(), spec: spec.into() });
    }
    for n in 1..JOBS {
        let task = TaskId { job: JobId(n), node: 0, index: 0 };
        let fails = n % 2 == 0;
        for number in if fails { 1..=2 } else { 1..=1 } {
            let attempt = task.attempt(number);
            let devices = [(0, Charge::Whole)].into_iter().collect();
            let placement = Placement { worker: WorkerId(0), devices, cpus: 0, memory: 0 };
            let peak_gpu_memory = Some(900 + n);
            let usage = Usage { ran: Span::from_secs(n as f64), peak_gpu_memory, ..Usage::default() };
            let (how, then) = match fails && number == 1 {
                true => (EndReason::Exited(3), Disposition::Again),
                false => (EndReason::Exited(0), Disposition::Done(Outcome::Succeeded)),
            };
            kinds.push(EventKind::Placed { attempt, placement });
            kinds.push(EventKind::Started { attempt });
            kinds.push(EventKind::Ended { attempt, end: End { how, usage }, then });
        }
    }
    let event = |(n, what): (u64, EventKind)| Event { at: Time(n * 1_000_000), what };
    let events: Vec<_> = (1..).zip(kinds).map(event).collect();
    let policy: PolicyChoice = "backfill".parse().expect("a policy's name");
    let mut cluster = Cluster::new(policy);
    events.iter().for_each(|event| drop(cluster.apply(event)));
    (cluster, events)
}

/// The estimate of a job's model: jobs 1 and 3 run the same one, with a bound that the second exceeds.
fn estimate(n: u64) -> ModelEstimate {
    ModelEstimate {
        graph: Some(format!("{}", n % 2)),
        peak: 500,
        context: 300,
        seconds: [].into(),
        bound: 902,
        share: 0.95,
        basis: BoundBasis::Published,
        request: EstimateRequest::Bound,
        source: EstimateSource::Submitter,
        expected: None,
    }
}

/// Everything the tables say of the jobs of the story.
fn rows(tables: &dyn HistoryStore) -> Vec<(Option<JobRow>, Vec<AttemptRow>)> {
    let of = |n| {
        let job = JobId(n);
        (tables.job(job).expect("read"), tables.attempts_of(job, None).expect("read"))
    };
    (1..=JOBS).map(of).collect()
}

fn entered(mut tables: Tables) -> (Tables, Cluster, Vec<Event>) {
    let (cluster, events) = story();
    tables.enter(&cluster, &events, events.len() as u64).expect("entered");
    (tables, cluster, events)
}

/// Runs the whole contract on tables made by `empty`; `reopen` returns them as the next process finds them.
pub(crate) fn holds(empty: impl Fn() -> Tables, reopen: impl Fn(Tables) -> Tables) {
    entered_events_are_there_after_reopening(empty(), &reopen);
    rows_say_how_each_attempt_and_job_went(empty());
    entering_the_same_events_again_changes_nothing(empty());
    readers_see_what_was_entered_before_they_read(empty());
    cleared_tables_are_made_again_from_the_log(empty(), &reopen);
    the_origin_lasts(empty(), &reopen);
    finished_jobs_are_listed_once_in_every_order(empty());
    the_latest_attempts_come_first_and_page_by_page(empty());
    damaged_tables_are_replaced_by_empty_ones(empty());
    samples_are_found_again(empty());
    measured_models_are_found_again(empty());
}

fn entered_events_are_there_after_reopening(tables: Tables, reopen: &impl Fn(Tables) -> Tables) {
    assert_eq!(tables.seq(), 0);
    let (tables, _, events) = entered(tables);
    let before = rows(&*tables);
    let tables = reopen(tables);
    assert_eq!(tables.seq(), events.len() as u64);
    assert_eq!(rows(&*tables), before);
}

fn rows_say_how_each_attempt_and_job_went(tables: Tables) {
    let (tables, cluster, _) = entered(tables);
    for (job, attempts) in rows(&*tables) {
        let job = job.expect("every submitted job has a row");
        let state = cluster.job(job.job).expect("all are in memory");
        assert_eq!((job.name.as_str(), job.user.as_str()), (state.spec.name.as_str(), state.user.as_str()));
        assert_eq!(job.finished, state.finished);
        assert_eq!(job.outcome.as_deref(), state.outcome().map(Outcome::word));
        assert_eq!(job.started, attempts.first().and_then(|first| first.started));
        assert_eq!(attempts.len(), [1, 2, 1, 0][job.job.0 as usize - 1]);
        let codes: Vec<_> = attempts.iter().map(|row| row.exit_code).collect();
        assert_eq!(
            codes,
            [vec![Some(0)], vec![Some(3), Some(0)], vec![Some(0)], vec![]][job.job.0 as usize - 1]
        );
        let seconds: f64 = attempts.iter().map(AttemptRow::gpu_seconds).sum();
        assert_eq!(tables.gpu_seconds_of(job.job).expect("read"), seconds);
    }
    assert_eq!(tables.rows().expect("read"), 4);
    assert_eq!(tables.highest_job().expect("read"), Some(JobId(JOBS)));
    assert_eq!(tables.users().expect("read"), ["ann", "bob"]);
    let failed = tables.last_failure(JobId(2)).expect("read").expect("it failed once");
    assert_eq!((failed.attempt.number, failed.exit_code), (1, Some(3)));
}

fn entering_the_same_events_again_changes_nothing(tables: Tables) {
    let (mut tables, cluster, events) = entered(tables);
    let before = rows(&*tables);
    tables.enter(&cluster, &events, events.len() as u64).expect("entered");
    assert_eq!(rows(&*tables), before);
}

fn readers_see_what_was_entered_before_they_read(mut tables: Tables) {
    let reader = tables.open_reader().expect("another connection");
    let (cluster, events) = story();
    assert_eq!(reader.job(JobId(1)).expect("read"), None);
    tables.enter(&cluster, &events, events.len() as u64).expect("entered");
    assert_eq!(rows(&*reader), rows(&*tables));
}

fn cleared_tables_are_made_again_from_the_log(tables: Tables, reopen: &impl Fn(Tables) -> Tables) {
    let (mut tables, cluster, events) = entered(tables);
    let before = rows(&*tables);
    tables.clear(&cluster, 1, Time(0)).expect("cleared");
    assert_eq!(tables.job(JobId(1)).expect("read"), None);
    let mut tables = reopen(tables);
    assert_eq!(tables.seq(), 0, "a process that is killed here begins again where the rows are gone");
    tables.enter(&cluster, &events, events.len() as u64).expect("entered");
    assert_eq!(rows(&*tables), before);
}

fn the_origin_lasts(mut tables: Tables, reopen: &impl Fn(Tables) -> Tables) {
    assert_eq!(tables.origin().expect("read"), None);
    let lineage = warpyard_worker::agent::Lineage::of_one(None);
    tables.set_origin(&lineage).expect("noted");
    tables.set_origin(&lineage).expect("noted");
    assert_eq!(reopen(tables).origin().expect("read"), Some(lineage));
}

fn finished_jobs_are_listed_once_in_every_order(tables: Tables) {
    let (tables, ..) = entered(tables);
    for by in ["", "waited", "ran", "ended", "submitted", "name", "user", "outcome", "priority", "tasks"] {
        for down in [false, true] {
            let page = |skip| tables.finished(None, "", "", (by, down), skip, 2).expect("read");
            let mut jobs: Vec<_> = [page(0), page(2)].concat().iter().map(|row| row.job.0).collect();
            jobs.sort_unstable();
            assert_eq!(jobs, [1, 2, 3], "{by} {down}");
        }
    }
    let of = |user, text| tables.finished(user, "succeeded", text, ("", true), 0, 9).expect("read").len();
    assert_eq!((of(Some("ann"), ""), of(Some("bob"), ""), of(None, "JOB 3"), of(None, "2")), (1, 2, 1, 1));
}

fn the_latest_attempts_come_first_and_page_by_page(tables: Tables) {
    let (tables, ..) = entered(tables);
    let latest =
        |skip, most| tables.latest(None, None, Time(0)..=Time(i64::MAX as u64), skip, most).expect("read");
    let all = latest(0, 9);
    assert_eq!(all.iter().map(|row| row.attempt.task.job.0).collect::<Vec<_>>(), [3, 2, 2, 1]);
    assert_eq!([latest(0, 3), latest(3, 3)].concat(), all);
}

fn damaged_tables_are_replaced_by_empty_ones(tables: Tables) {
    let (mut tables, cluster, events) = entered(tables);
    let before = rows(&*tables);
    let damage = warpyard_server::store::HistoryError::Damaged("a page is torn".into());
    let done = tables.replace_damaged(&damage).expect("replaced");
    assert!(done.contains("a page is torn"), "{done}");
    assert_eq!((tables.seq(), tables.rows().expect("read")), (0, 0));
    tables.enter(&cluster, &events, events.len() as u64).expect("entered");
    assert_eq!(rows(&*tables), before);
}

fn measured_models_are_found_again(tables: Tables) {
    let (mut tables, cluster, events) = entered(tables);
    let run = |user: &str, model: &str, measured| ModelRun {
        user: user.into(),
        model: model.into(),
        kind: "v100".into(),
        estimated: 800,
        measured,
    };
    let check = |tables: &dyn HistoryStore| {
        let of = |user, model| tables.runs_of_model(user, model).expect("read");
        assert_eq!(of("bob", "graph:1"), [run("bob", "graph:1", 903), run("bob", "graph:1", 901)]);
        // The attempt of ann's that failed says nothing of her model.
        assert_eq!(of("ann", "graph:0"), [run("ann", "graph:0", 902)]);
        assert_eq!(of("ann", "graph:1"), [], "another user's run of it");
        let each = tables.runs_of_each_model().expect("read");
        assert_eq!(each, [run("bob", "graph:1", 903), run("ann", "graph:0", 902)]);
        let coverage = tables.bound_coverage().expect("read");
        assert_eq!(coverage, BoundCoverage { measured: 3, covered: 2 });
    };
    check(&*tables);
    tables.clear(&cluster, 1, Time(0)).expect("cleared");
    assert_eq!(tables.bound_coverage().expect("read"), BoundCoverage::default());
    tables.enter(&cluster, &events, events.len() as u64).expect("entered");
    check(&*tables);
}

fn samples_are_found_again(tables: Tables) {
    let at = Time(1_700_000_000 * 1_000_000);
    let sample = Sample { ready: 7, ..Sample::default() };
    tables.keep_sample(at, &sample).expect("kept");
    assert_eq!(tables.samples(at, 3_600, 100).expect("read"), [(at, sample)]);
}
