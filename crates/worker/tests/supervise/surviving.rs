//! Launches repeated and too late, and the death of worker, spawner and supervisor.

use crate::yard::{ESCAPE, Yard, eventually, example, text};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use warpyard_core::spec::OnLost;
use warpyard_worker::supervise::{
    AttemptDir, Delivery, DesiredRecord, ExitCause, Freezer, Phase, ProcessRef, RecordError, RecordedAttempt,
    RunningRecord, Spawner, Status, scan,
};

#[test]
fn a_launch_repeated_runs_once() {
    let mut yard = Yard::new();
    let go = yard.fifo("go");
    let launch = yard.script("echo ran >>$HOME/ran; read go <$HOME/go");
    let dir = yard.launch(&launch);
    for _ in 0..5 {
        yard.launch(&launch);
    }
    yard.running(&dir);
    go.go();
    yard.exit(&dir);
    for _ in 0..5 {
        yard.launch(&launch);
    }
    // By the time this one has run, so would the others have.
    let last = yard.command(["sleep", "0.1"]);
    yard.run(&last);
    assert_eq!(text(yard.path("ran")), "ran\n");
}

#[test]
fn a_worker_killed_finds_its_attempts_again() {
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let go = yard.fifo("go");
    let launch = yard.script("echo $$ >$HOME/pids; read go <$HOME/go; echo went on; exit 4");
    let message = yard.path("launch.json");
    fs::write(&message, serde_json::to_vec(&launch).unwrap()).unwrap();
    let mut worker = Command::new(example("lone_worker")).arg(&message).spawn().unwrap();
    let [task] = pids.pids();
    worker.kill().unwrap();
    worker.wait().unwrap();
    let found = scan(&yard.attempts()).unwrap();
    let [(dir, Ok(RecordedAttempt::Supervised(running, _)))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(running.key, launch.key);
    assert_eq!(running.processes(), [task.pid]);
    go.go();
    yard.exit(dir);
    let found = scan(&yard.attempts()).unwrap();
    let [(_, Ok(RecordedAttempt::Exited(exit)))] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&exit.cause, exit.status), (&ExitCause::Exited, Some(Status::Code(4))));
    assert_eq!(text(launch.dir.join("log")), "went on\n");
}

#[test]
fn a_spawner_killed_is_replaced_and_its_attempts_go_on() {
    let mut yard = Yard::new();
    let go = yard.fifo("go");
    let launch = yard.script("read go <$HOME/go; exit 6");
    let dir = yard.launch(&launch);
    yard.running(&dir);
    let spawner = ProcessRef::now(yard.spawner.pid() as i32);
    spawner.signal(libc::SIGKILL).unwrap();
    let mut ended = [PollFd::new(yard.spawner.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut ended, PollTimeout::from(30_000u16)).unwrap(), 1, "the socket tells of its death");
    let second = yard.command(["true"]);
    assert_eq!(yard.spawner.launch(&second).unwrap(), Delivery::SentToNewSpawner);
    yard.exit(&AttemptDir::new(&second.dir));
    go.go();
    assert_eq!(yard.exit(&dir).status, Some(Status::Code(6)));
}

fn killing_a_supervisor(freeze: Option<Freezer>) {
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let mut launch = yard.script(&format!("{ESCAPE} echo $$ >$HOME/pids; while :; do sleep 0.01; done"));
    launch.freezers = freeze.into_iter().collect();
    let dir = yard.launch(&launch);
    let processes = pids.pids::<3>();
    let running = yard.running(&dir);
    if freeze.is_some() {
        dir.write_desired(DesiredRecord::Freeze).unwrap();
        yard.frozen(&dir);
    }
    running.supervisor.signal(libc::SIGKILL).unwrap();
    eventually("the supervisor is gone", || !running.supervisor.is_alive());
    let RecordedAttempt::Died(running) = dir.inspect().unwrap() else { panic!("{:?}", dir.inspect()) };
    let ended = dir.end_leftovers(&running).unwrap();
    assert!(ended >= 2, "{ended}");
    eventually("no process is left", || !processes.iter().any(|process| process.is_alive()));
    assert_eq!(dir.end_leftovers(&running).unwrap(), 0);
    assert!(dir.state().unwrap().and_then(|state| state.group).is_none_or(|group| !group.exists()));
}

#[test]
fn a_supervisor_killed_is_found_dead_and_its_leftovers_are_ended() {
    killing_a_supervisor(None);
}

#[test]
fn a_supervisor_killed_while_its_task_was_frozen_leaves_nothing_either() {
    Freezer::all().into_iter().for_each(|way| killing_a_supervisor(Some(way)));
}

#[test]
fn a_supervisor_shrugs_at_the_signals_of_a_terminal() {
    let mut yard = Yard::new();
    let go = yard.fifo("go");
    let launch = yard.script("read go <$HOME/go; exit 2");
    let dir = yard.launch(&launch);
    let running = yard.running(&dir);
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGPIPE, libc::SIGTTOU] {
        assert!(running.supervisor.signal(signal).unwrap());
    }
    go.go();
    assert_eq!(yard.exit(&dir).status, Some(Status::Code(2)));
}

#[test]
fn a_pid_used_again_is_neither_taken_for_the_supervisor_nor_signalled() {
    let yard = Yard::new();
    let mut stranger = Command::new("sleep").arg("1000").spawn().unwrap();
    let path = yard.attempts().join("9.0.0.1");
    fs::create_dir(&path).unwrap();
    let boot = text("/proc/sys/kernel/random/boot_id");
    let now = ProcessRef::now(stranger.id() as i32);
    let record = |boot: &str, seen_us: u64| {
        let supervisor = ProcessRef { seen_us, ..now };
        let running = RunningRecord {
            v: 1,
            key: "9.0.0.1".into(),
            log: None,
            on_lost: OnLost::Rerun,
            boot: boot.into(),
            supervisor,
            task: None,
        };
        fs::write(path.join("running"), serde_json::to_string(&running).unwrap() + "\n").unwrap();
    };
    let dir = AttemptDir::new(&path);
    record(boot.trim(), now.seen_us);
    assert!(
        matches!(dir.inspect().unwrap(), RecordedAttempt::Supervised(_, Phase::Running)),
        "the record itself is sound"
    );
    for (boot, seen_us) in [(boot.trim(), 1), ("another-boot", now.seen_us)] {
        record(boot, seen_us);
        assert!(matches!(dir.inspect().unwrap(), RecordedAttempt::Died(_)));
        dir.write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    }
    // The poke would have ended it first.
    stranger.kill().unwrap();
    assert_eq!(stranger.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn a_record_of_a_later_version_is_refused_by_its_version() {
    let yard = Yard::new();
    let path = yard.attempts().join("9.0.0.1");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("exit"), r#"{"v":2,"ending":"poetic"}"#).unwrap();
    let refused = AttemptDir::new(path).inspect();
    assert!(matches!(refused, Err(RecordError::Newer { found: 2, .. })), "{refused:?}");
}

#[test]
fn nobody_need_listen_for_pokes() {
    let mut yard = Yard::new();
    let mut launch = yard.command(["true"]);
    launch.notify = Some(yard.path("nobody-here"));
    let dir = yard.launch(&launch);
    eventually("it ends all the same", || matches!(dir.inspect(), Ok(RecordedAttempt::Exited(_))));
}

#[test]
fn more_pokes_than_the_kernel_queues_all_arrive() {
    let mut yard = Yard::new();
    let dirs: Vec<_> = (0..50)
        .map(|_| {
            let launch = yard.command(["true"]);
            yard.launch(&launch)
        })
        .collect();
    eventually("all have ended, unheard", || {
        dirs.iter().all(|dir| matches!(dir.inspect(), Ok(RecordedAttempt::Exited(_))))
    });
    let mut missing: std::collections::BTreeSet<String> =
        dirs.iter().map(|dir| dir.path().file_name().unwrap().to_str().unwrap().to_owned()).collect();
    while !missing.is_empty() {
        let mut key = [0; 64];
        let length = yard.pokes.recv(&mut key).unwrap();
        missing.remove(std::str::from_utf8(&key[..length]).unwrap());
    }
}

#[test]
fn a_spawner_given_noise_leaves() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut spawner = Command::new(example("spawner"))
        .stdin(std::process::Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    ours.write_all(&[0xff; 64]).unwrap();
    assert_eq!(spawner.wait().unwrap().code(), Some(1));
}

#[test]
fn a_launch_that_comes_after_its_attempt_was_put_away_starts_nothing() {
    let mut yard = Yard::new();
    let launch = yard.script("echo ran >>$HOME/runs");
    // A spawner that was given the launch but has not got to it, as when its worker was killed.
    let mut late = Spawner::start(example("spawner"), Vec::<String>::new()).unwrap();
    let stopped = ProcessRef::now(late.pid() as i32);
    assert!(stopped.signal(libc::SIGSTOP).unwrap());
    late.launch(&launch).unwrap();
    yard.run(&launch);
    fs::remove_dir_all(&launch.dir).unwrap();
    // What it is given after that shows that it has got past the late launch.
    let after = yard.script("exit 0");
    late.launch(&after).unwrap();
    assert!(stopped.signal(libc::SIGCONT).unwrap());
    yard.exit(&AttemptDir::new(&after.dir));
    drop(late);
    assert!(!launch.dir.exists());
    assert_eq!(fs::read_to_string(yard.path("runs")).unwrap(), "ran\n");
}

#[test]
fn a_supervisor_whose_directory_was_replaced_takes_the_new_one_and_one_without_any_leaves() {
    let mut yard = Yard::new();
    let launch = yard.script("sleep 600");
    let dir = yard.launch(&launch);
    let running = yard.running(&dir);
    fs::remove_dir_all(&launch.dir).unwrap();
    fs::create_dir(&launch.dir).unwrap();
    assert!(running.supervisor.signal(libc::SIGUSR1).unwrap());
    let again = yard.running_unpoked(&dir);
    assert_eq!((again.supervisor.pid, again.task), (running.supervisor.pid, running.task));
    dir.write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    assert_eq!(yard.exit(&dir).cause, ExitCause::Stopped);

    // Of an attempt nobody asks about any more nothing stays.
    let gate = yard.fifo("gate");
    let launch = yard.script("read x <$HOME/gate");
    let dir = yard.launch(&launch);
    let running = yard.running(&dir);
    fs::remove_dir_all(&launch.dir).unwrap();
    // Another supervisor has the one in its place.
    fs::create_dir(&launch.dir).unwrap();
    fs::write(launch.dir.join("running"), "another's").unwrap();
    gate.go();
    eventually("the task has ended", || !running.task.as_ref().unwrap().process.is_alive());
    eventually("it supervises nothing any more", || running.processes().is_empty());
    assert!(!launch.dir.join("exit").exists(), "nothing is written to another's directory");
}
