//! An agent that starts where another left: what it finds is the server's to decide about.

use crossbeam_channel::{Receiver, Sender, unbounded};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use warpyard_core::cluster::DesiredState;
use warpyard_core::event::{End, EndReason, WorkerInfo};
use warpyard_core::pool::DeviceState;
use warpyard_core::protocol::{Assignment, Assignments, AttemptStatus, LaunchSpec, Report};
use warpyard_core::spec::{OnLost, Program};
use warpyard_core::{AttemptId, Span};
use warpyard_worker::agent::{
    Agent, AgentError, AgentHandle, Deliver, DeviceRules, Layout, Lineage, Link, Settings,
};
use warpyard_worker::probe::{
    self, Choice, Gpu, GpuProcess, Probe, ProbeError, ProbePaths, ProcessKind, Reading, Vendor,
};
use warpyard_worker::supervise::{AttemptDir, DesiredRecord};

/// Longer than anything here takes; a test that waits this long has failed.
const FOR_EVER: Duration = Duration::from_secs(120);

struct Told(Sender<Report>);

impl Link for Told {
    fn join(&mut self, _: &WorkerInfo, _: Deliver) -> Result<(), AgentError> {
        Ok(())
    }

    fn report(&self, report: Report) {
        let _nobody_listens = self.0.send(report);
    }
}

fn example(name: &str) -> PathBuf {
    let path =
        std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing: run all of this package's tests, or build its examples",
        path.display()
    );
    path
}

fn agent(data: &Path) -> (AgentHandle, Receiver<Report>) {
    agent_with(data, probe::find(&Choice::None, &ProbePaths::default()).unwrap())
}

fn agent_with(data: &Path, probe: Box<dyn Probe>) -> (AgentHandle, Receiver<Report>) {
    leased_agent(data, probe, None)
}

fn leased_agent(data: &Path, probe: Box<dyn Probe>, lease: Option<Span>) -> (AgentHandle, Receiver<Report>) {
    let (tell, told) = unbounded();
    let settings = Settings {
        name: "here".into(),
        layout: Layout::new(data, Lineage::of_one(None)),
        spawner: (example("spawner"), vec![]),
        probe,
        rules: DeviceRules::default(),
        cpus: 1000,
        memory: 1 << 30,
        labels: Default::default(),
        lease,
        shared_at: None,
        max_processes: None,
        max_grace: Span(600_000_000),
        log_cap: 1 << 20,
        every: Duration::from_millis(20),
        repaired: Box::new(|_| {}),
    };
    (Agent::start(settings, Told(tell)).unwrap(), told)
}

fn attempt() -> AttemptId {
    "1.0.0.1".parse().unwrap()
}

/// That the attempt should run, to one who knows how to begin it or to one who need not.
fn assigned(script: Option<&str>) -> Assignments {
    let work = script.map(|script| LaunchSpec {
        job_name: "job".into(),
        task_name: "task".into(),
        array_index: None,
        user: "tester".into(),
        program: Program::new(["sh", "-c", script]),
        base_env: Arc::default(),
        memory_limit: None,
        cpu_quota: None,
        timeout: None,
        restarted: false,
        origin: None,
        log_size: None,
        terminal: None,
        snapshot: None,
        claim: None,
    });
    let one = Assignment {
        holds_for: None,
        attempt: attempt(),
        rank: 0,
        on_lost: OnLost::Rerun,
        started: script.is_none(),
        want: DesiredState::Run,
        grace: Span(1_000_000),
        devices: vec![],
        work: work.map(Arc::new),
    };
    Assignments { attempts: vec![one], ..Assignments::default() }
}

/// The next report that tells of the attempt.
fn told_of(told: &Receiver<Report>) -> Report {
    let until = Instant::now() + FOR_EVER;
    loop {
        let report = told.recv_deadline(until).expect("an agent that reports");
        assert!(Instant::now() < until, "it is not told of any more");
        if !report.attempts.is_empty() {
            return report;
        }
    }
}

/// The next that is told of the attempt.
fn next(told: &Receiver<Report>) -> AttemptStatus {
    told_of(told).attempts.swap_remove(0).standing
}

/// Waits for a file that somebody else makes.
fn comes_to_be(path: &Path) {
    let since = Instant::now();
    while !path.exists() {
        assert!(since.elapsed() < FOR_EVER, "never: {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_success(standing: &AttemptStatus) -> bool {
    matches!(standing, AttemptStatus::Over(End { how: EndReason::Exited(0), .. }))
}

#[test]
fn what_it_finds_goes_on_until_the_server_says_otherwise() {
    let data = tempfile::tempdir().unwrap();
    let gate = data.path().join("gate");
    let (first, told) = agent(data.path());
    first.assign(assigned(Some(&format!("until test -e {}; do sleep 0.01; done", gate.display()))));
    assert_eq!(next(&told), AttemptStatus::Running);
    first.leave(false);
    let (second, told) = agent(data.path());
    for _ in 0..5 {
        assert_eq!(next(&told), AttemptStatus::Running, "nobody said anything yet");
    }
    second.assign(assigned(None));
    std::fs::write(gate, "").unwrap();
    assert_eq!(end(&told).how, EndReason::Exited(0));
    second.leave(true);
}

#[test]
fn an_end_it_finds_is_kept_until_the_server_knows_it() {
    let data = tempfile::tempdir().unwrap();
    let gate = data.path().join("gate");
    let (first, told) = agent(data.path());
    first.assign(assigned(Some(&format!("until test -e {}; do sleep 0.01; done", gate.display()))));
    assert_eq!(next(&told), AttemptStatus::Running);
    first.leave(false);
    std::fs::write(gate, "").unwrap();
    let exit = data.path().join("attempts").join(attempt().to_string()).join("exit");
    comes_to_be(&exit);
    let (second, told) = agent(data.path());
    assert!(is_success(&next(&told)));
    assert!(is_success(&next(&told)), "told again, since nobody has taken note");
    second.assign(assigned(None));
    for _ in 0..3 {
        let standing = next(&told);
        assert!(is_success(&standing), "not lost: {standing:?}");
    }
    second.leave(true);
}

#[test]
fn a_held_attempt_that_it_finds_outlives_the_lease() {
    let data = tempfile::tempdir().unwrap();
    let held = AttemptId { number: 2, ..attempt() };
    let (first, told) = agent(data.path());
    let mut both = assigned(Some("exec sleep 1000"));
    both.attempts.push(Assignment { attempt: held, on_lost: OnLost::Hold, ..both.attempts[0].clone() });
    first.assign(both);
    let mut running = std::collections::BTreeSet::new();
    while running.len() < 2 {
        running.extend(told_of(&told).attempts.into_iter().map(|one| one.attempt));
    }
    first.leave(false);
    let no_gpus = probe::find(&Choice::None, &ProbePaths::default()).unwrap();
    // Nobody ever answers, so the lease is never renewed.
    let (second, told) = leased_agent(data.path(), no_gpus, Some(Span(300_000)));
    let lost = EndReason::Lost(warpyard_core::agent::CONTACT_LOST.into());
    let is_lost = |status: &AttemptStatus| matches!(status, AttemptStatus::Over(end) if end.how == lost);
    let report = loop {
        let report = told_of(&told);
        let of = |id| report.attempts.iter().find(|one| one.attempt == id).map(|one| &one.standing);
        if report.base.is_none() && of(attempt()).is_some_and(is_lost) {
            break report;
        }
    };
    let of_held = report.attempts.iter().find(|one| one.attempt == held).expect("a full report");
    assert_eq!(of_held.standing, AttemptStatus::Running);
    second.leave(true);
}

#[test]
fn what_an_earlier_agent_called_off_runs_if_the_server_still_wants_it() {
    let data = tempfile::tempdir().unwrap();
    let (agent, told) = agent(data.path());
    // As it is left by an agent that declined the attempt and died before the server heard of it.
    let dir = data.path().join("attempts").join(attempt().to_string());
    std::fs::create_dir_all(&dir).unwrap();
    AttemptDir::new(dir).write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    agent.assign(assigned(Some("true")));
    assert_eq!(end(&told).how, EndReason::Exited(0));
    agent.leave(true);
}

/// As a launch does that reaches its supervisor when the agent that sent it is gone and the next has looked around already.
fn begin_behind_its_back(data: &Path, assignments: Assignments) {
    let (earlier, began) = agent(data);
    earlier.assign(assignments);
    assert_eq!(next(&began), AttemptStatus::Running);
    earlier.leave(false);
}

/// The end of the attempt, once it has run for as long as it does.
fn end(told: &Receiver<Report>) -> End {
    let over = |standing| match standing {
        AttemptStatus::Over(end) => Some(end),
        _ => None,
    };
    std::iter::repeat_with(|| next(told)).find_map(over).expect("it never gives up")
}

/// The same word of an attempt that was not seen running, with something else wanted of it.
fn wanted(want: DesiredState) -> Assignments {
    let mut all = assigned(None);
    (all.attempts[0].want, all.attempts[0].started) = (want, false);
    all
}

#[test]
fn what_began_behind_its_back_may_save_and_is_over_when_it_has_ended() {
    let data = tempfile::tempdir().unwrap();
    let [ready, saved] = ["ready", "saved"].map(|name| data.path().join(name));
    let (agent, told) = agent(data.path());
    let script = format!(
        "trap 'sleep 0.1; echo > {}; exit 3' TERM; echo > {}; while :; do sleep 0.01; done",
        saved.display(),
        ready.display()
    );
    begin_behind_its_back(data.path(), assigned(Some(&script)));
    comes_to_be(&ready);
    agent.assign(wanted(DesiredState::Stop));
    let End { how, usage } = end(&told);
    assert_eq!(how, EndReason::Stopped);
    assert!(usage.ran > Span::ZERO, "the end of the process that ran, not of one that never did");
    assert!(saved.exists(), "it had the time it was promised");
    agent.leave(true);
}

#[test]
fn what_began_behind_its_back_and_is_to_yield_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let gate = data.path().join("gate");
    let (agent, told) = agent(data.path());
    let wait = format!("until test -e {}; do sleep 0.01; done", gate.display());
    begin_behind_its_back(data.path(), assigned(Some(&wait)));
    agent.assign(wanted(DesiredState::Yield));
    for _ in 0..5 {
        assert_eq!(next(&told), AttemptStatus::Running);
    }
    std::fs::write(gate, "").unwrap();
    assert_eq!(end(&told).how, EndReason::Exited(0));
    agent.leave(true);
}

#[test]
fn what_began_behind_its_back_and_is_to_run_goes_on_with_its_device() {
    let data = tempfile::tempdir().unwrap();
    let [gate, pid] = ["gate", "pid"].map(|name| data.path().join(name));
    let computes = Arc::new(Mutex::new(vec![]));
    let (agent, told) = agent_with(data.path(), Box::new(Sees(computes.clone())));
    let script = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; until test -e {1}; do sleep 0.01; done",
        pid.display(),
        gate.display()
    );
    let mut run = assigned(Some(&script));
    begin_behind_its_back(data.path(), run.clone());
    comes_to_be(&pid);
    computes.lock().unwrap().push(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap());
    run.attempts[0].devices = vec!["GPU-1".into()];
    agent.assign(run);
    let mut seen = None;
    for _ in 0..5 {
        let report = told_of(&told);
        assert_eq!(report.attempts.len(), 1);
        assert_eq!(report.attempts[0].standing, AttemptStatus::Running);
        seen = report.devices.get("GPU-1").copied();
        assert_ne!(seen, Some(DeviceState::Foreign), "its own process is not someone else's");
    }
    assert_eq!(seen, Some(DeviceState::Usable));
    std::fs::write(gate, "").unwrap();
    assert_eq!(end(&told).how, EndReason::Exited(0));
    agent.leave(true);
}

#[test]
fn an_earlier_word_that_comes_late_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let gate = data.path().join("gate");
    let (agent, told) = agent(data.path());
    let wait = format!("until test -e {}; do sleep 0.01; done", gate.display());
    agent.assign(Assignments { as_of: 7, ..assigned(Some(&wait)) });
    assert_eq!(next(&told), AttemptStatus::Running);
    agent.assign(Assignments { as_of: 6, ..Assignments::default() });
    for _ in 0..5 {
        assert_eq!(next(&told), AttemptStatus::Running, "what is wanted was said later");
    }
    std::fs::write(gate, "").unwrap();
    assert_eq!(end(&told).how, EndReason::Exited(0));
    agent.leave(true);
}

#[test]
fn what_died_with_the_machine_is_lost_with_that_reason() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("boot"), "another").unwrap();
    let lost = |agent: AgentHandle, told: Receiver<Report>| {
        agent.assign(assigned(None));
        let AttemptStatus::Over(End { how: EndReason::Lost(why), .. }) = next(&told) else {
            panic!("it is not lost")
        };
        agent.leave(true);
        why
    };
    let (first, told) = agent(data.path());
    assert_eq!(lost(first, told), "the machine restarted", "nothing is left of it, not even its record");
    // The next start is on the same machine, and what is missing then went some other way.
    let _given_back = std::fs::remove_dir_all(data.path().join("attempts").join(attempt().to_string()));
    let (second, told) = agent(data.path());
    assert_eq!(lost(second, told), "nothing of it is left on the worker");
    // Where records outlive the machine, they tell.
    let data = tempfile::tempdir().unwrap();
    let dir = data.path().join("attempts").join(attempt().to_string());
    std::fs::create_dir_all(&dir).unwrap();
    let record = r#"{"v":1,"key":"1.0.0.1","boot":"another","supervisor":{"pid":1,"seen_us":1}}"#;
    std::fs::write(dir.join("running"), format!("{record}\n")).unwrap();
    let (third, told) = agent(data.path());
    assert_eq!(lost(third, told), "the machine restarted");
}

fn gpu() -> Gpu {
    let (uuid, name, type_name) = ("GPU-1".to_owned(), "Tesla V100".to_owned(), "V100".to_owned());
    Gpu { uuid, index: 0, name, type_name, memory_bytes: 16 << 30, pci: None, nodes: Vec::new() }
}

/// A driver that sees these processes compute.
struct Sees(Arc<Mutex<Vec<u32>>>);

impl Probe for Sees {
    fn vendor(&self) -> Vendor {
        Vendor::Nvidia
    }

    fn describe(&self) -> String {
        "a driver".to_owned()
    }

    fn gpus(&mut self) -> Result<Vec<Gpu>, ProbeError> {
        Ok(vec![gpu()])
    }

    fn read(&mut self, _: &str) -> Result<Reading, ProbeError> {
        let on_it = |&pid: &u32| GpuProcess { pid, bytes: None, kind: ProcessKind::Compute };
        let processes = self.0.lock().unwrap().iter().map(on_it).collect();
        Ok(Reading { processes, ..Reading::default() })
    }
}

/// A driver that says when it is asked, and answers when it is let.
struct Stuck {
    asked: Sender<()>,
    go_on: Receiver<()>,
}

impl Probe for Stuck {
    fn vendor(&self) -> Vendor {
        Vendor::Nvidia
    }

    fn describe(&self) -> String {
        "a driver that is stuck".to_owned()
    }

    fn gpus(&mut self) -> Result<Vec<Gpu>, ProbeError> {
        Ok(vec![gpu()])
    }

    fn read(&mut self, _: &str) -> Result<Reading, ProbeError> {
        let _nobody_waits = self.asked.send(());
        let _let_go = self.go_on.recv();
        Ok(Reading::default())
    }
}

#[test]
fn who_asks_of_devices_does_not_wait_for_a_driver() {
    let data = tempfile::tempdir().unwrap();
    let ((asked, was_asked), (go, go_on)) = (unbounded(), unbounded());
    let (agent, _told) = agent_with(data.path(), Box::new(Stuck { asked, go_on }));
    agent.assign(Assignments::default());
    was_asked.recv_timeout(FOR_EVER).expect("devices are looked at");
    let seen = agent.devices();
    let seen = seen.try_lock().expect("nobody holds it while the driver is asked");
    assert_eq!((seen.gpus().len(), seen.reading(&seen.gpus()[0].uuid)), (1, None), "nothing was read yet");
    // From now on it answers at once.
    drop((seen, go));
    agent.leave(true);
}
