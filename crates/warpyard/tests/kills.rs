//! Killed with -9 at random moments, again and again: nothing acknowledged is lost, nothing runs twice at once, every
//! job ends and every log is whole. Server and worker are one process here; the spawner and supervisors are killed by
//! themselves now and then. The moments come from a seed, as far as a machine with other things to do keeps to them.

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;
use support::{Server, eventually};
use warpyard_api::client::{Client, Target};
use warpyard_api::wire::{AttemptView, JobFilter, LogFilter, Outcome, SubmitRequest};

const SEED: u64 = 20_261_115;
const KILLS: usize = 60;
const TASKS_EACH: usize = 7;

/// A small generator; what matters is that a seed gives the same moments.
struct Moments(u64);

impl Moments {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn pass(&mut self, at_most: u64) {
        std::thread::sleep(Duration::from_millis(self.below(at_most)));
    }
}

fn client(server: &Server) -> Client {
    let read = |name: &str| std::fs::read_to_string(server.data().join(name)).expect("a server leaves word");
    let (url, token) = (read("address").trim().to_owned(), Some(read("token").trim().to_owned()));
    Client::new(Target { url, token, ca: None }).expect("an address")
}

/// Each task says in a file of its job when an attempt of it starts and ends, and holds a lock while any process of the
/// attempt lives. None ends while the gate is shut.
fn job(server: &Server) -> SubmitRequest {
    let script = "exec 9> lock-%{job}-%{index}; flock -n 9 || echo %{job} %{index} $WARPYARD_ATTEMPT >> twice
        echo start %{index} $WARPYARD_ATTEMPT >> ran-%{job}; echo begin %{job} %{index} $WARPYARD_ATTEMPT
        sleep 0.1; until test -e gate; do sleep 0.02; done; sleep 0.1
        echo end %{index} $WARPYARD_ATTEMPT >> ran-%{job}; echo end %{job} %{index} $WARPYARD_ATTEMPT";
    let doc = serde_json::json!({"name": "short", "array": format!("1-{TASKS_EACH}"), "command": script, "cpus": 1});
    let path = std::env::var("PATH").expect("a PATH");
    SubmitRequest {
        doc,
        user: Some("tester".into()),
        workdir: Some(server.dir.path().to_str().expect("text").into()),
        env: [("PATH".to_owned(), path)].into(),
        login_environment: false,
        snapshot: None,
        terminal: None,
        idempotency_key: None,
    }
}

#[test]
fn being_killed_loses_nothing_and_runs_nothing_twice() {
    let mut moments = Moments(SEED);
    let mut server = Server::down(&["--gpus", "none", "--cpus", "6"]);
    let mut acknowledged = Vec::new();
    let (mut spawners, mut supervisors) = (0, 0);
    server.open("gate");
    for kill in 0..KILLS {
        if kill % 6 == 5 {
            // In the middle of starting.
            let mut starting = server.up_command();
            let starting = starting.stdout(Stdio::null()).stderr(Stdio::null());
            let mut starting = starting.spawn().expect("it runs");
            moments.pass(120);
            starting.kill().expect("it is ours");
            starting.wait().expect("it ends");
            continue;
        }
        server.start();
        let (client, submit) = (client(&server), job(&server));
        let submitting = std::thread::spawn(move || client.submit(&submit));
        if [0, 2].contains(&(kill % 6)) {
            eventually("it is acknowledged", || submitting.is_finished());
        }
        moments.pass(150);
        match kill % 6 {
            1 => {
                if let Some(spawner) = server.spawner() {
                    support::signal(spawner, Signal::SIGKILL);
                    spawners += 1;
                    moments.pass(150);
                }
            }
            3 => {
                // In the middle of a task, however long it takes to find one.
                std::fs::remove_file(server.path("gate")).expect("it was open");
                let mut all = Vec::new();
                eventually("a task runs", || {
                    all = server.supervisors();
                    !all.is_empty()
                });
                support::signal(all[moments.below(all.len() as u64) as usize], Signal::SIGKILL);
                supervisors += 1;
                server.open("gate");
                moments.pass(150);
            }
            _ => {}
        }
        server.end_by(Signal::SIGKILL);
        if let Ok(submitted) = submitting.join().expect("it only asks") {
            acknowledged.push(submitted.job);
        }
    }
    server.start();
    println!(
        "{KILLS} kills, {spawners} of spawners, {supervisors} of supervisors, {} jobs",
        acknowledged.len()
    );
    assert!(acknowledged.len() >= KILLS / 3, "those that were waited for: {}", acknowledged.len());
    assert_eq!((spawners, supervisors), (KILLS / 6, KILLS / 6));
    let lost = check(&server, &acknowledged);
    println!("{lost} attempts lost and run again");
    assert!(lost > 0, "a task whose supervisor was killed is lost");
}

/// Everything that must hold once all is over; gives how many attempts were lost.
fn check(server: &Server, acknowledged: &[String]) -> usize {
    let client = client(server);
    let all = client.jobs(&JobFilter { all: true, ..JobFilter::default() }).expect("a list");
    let ids: Vec<_> = all.items.iter().map(|job| job.job.as_str()).collect();
    for job in acknowledged {
        assert!(ids.contains(&job.as_str()), "job {job} was acknowledged and is lost: {ids:?}");
    }
    let mut lost = 0;
    for job in ids {
        let ended = client.wait(job, Some(Duration::from_secs(60))).expect("an answer");
        assert_eq!(ended.outcome, Some(Outcome::Succeeded), "job {job}: {ended:?}");
        let attempts = client.job(job, true, None).expect("a job").tasks;
        assert_eq!(attempts.len(), TASKS_EACH);
        let ran = server.read(&format!("ran-{job}"));
        for task in attempts {
            let index = task.index.expect("an array");
            let attempts = task.attempts.expect("attempts");
            check_runs(job, index, &ran, &attempts);
            lost += attempts.iter().filter(|attempt| attempt.outcome == Some(Outcome::Lost)).count();
            let number = attempts.last().expect("it ran").number;
            let mut log = String::new();
            let of = LogFilter { index: Some(index), ..LogFilter::default() };
            client.logs(job, &of).expect("a log").read_to_string(&mut log).expect("text");
            assert_eq!(log, format!("begin {job} {index} {number}\nend {job} {index} {number}\n"));
        }
    }
    assert_eq!(server.read("twice"), "", "these ran beside another attempt of theirs");
    lost
}

/// What a task did against what the server says of it: an attempt starts at most once, the next only after it is over,
/// and only one that was lost has no end.
fn check_runs(job: &str, index: u32, ran: &str, attempts: &[AttemptView]) {
    let of_task: Vec<(&str, u32)> = ran
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[1] == index.to_string())
        .map(|words| (words[0], words[2].parse().expect("a number")))
        .collect();
    let mut seen: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (what, attempt) in &of_task {
        seen.entry(*attempt).or_default().push(what);
    }
    let told = format!("task {index} of job {job}: it wrote {of_task:?}, the server says {attempts:?}");
    for attempt in attempts {
        let did = seen.remove(&attempt.number).unwrap_or_default();
        match attempt.outcome {
            Some(Outcome::Succeeded) => assert_eq!(did, ["start", "end"], "{told}"),
            Some(Outcome::Lost) => assert!(["start", "end"].starts_with(&did), "{told}"),
            other => panic!("{other:?}: {told}"),
        }
    }
    assert!(seen.is_empty(), "{told}");
    assert!(of_task.is_sorted_by_key(|(_, attempt)| *attempt), "{told}");
    let last = attempts.last().expect("an attempt");
    assert_eq!(last.outcome, Some(Outcome::Succeeded), "{told}");
}
