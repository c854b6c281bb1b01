//! Timeouts, freezing and stopping, and that nothing is left.

use crate::yard::{ESCAPE, Yard, eventually, size, text};
use std::fs;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use warpyard_worker::supervise::{
    AttemptDir, DesiredRecord, ExitCause, Freezer, Phase, RecordedAttempt, Status,
};

#[test]
fn a_timeout_asks_first_and_then_insists() {
    let mut yard = Yard::new();
    let mut launch = yard.script("trap 'echo saved; exit 3' TERM; while :; do sleep 0.01; done");
    launch.timeout_ms = Some(2_000);
    let exit = yard.run(&launch);
    assert_eq!((&exit.cause, exit.status), (&ExitCause::TimedOut, Some(Status::Code(3))));
    assert_eq!(text(launch.dir.join("stdout")), "saved\n");
    assert!(exit.running_us >= 2_000_000);

    let mut launch = yard.script("trap '' TERM; while :; do sleep 0.01; done");
    launch.timeout_ms = Some(2_000);
    launch.grace_ms = 50;
    let exit = yard.run(&launch);
    assert_eq!((exit.cause, exit.status), (ExitCause::TimedOut, Some(Status::Signal(9))));
}

#[test]
fn frozen_time_does_not_count_towards_the_timeout() {
    let mut yard = Yard::new();
    let mut launch = yard.command(["sleep", "1000"]);
    launch.timeout_ms = Some(2_000);
    // Said before it begins, so that it is frozen at once.
    fs::create_dir_all(&launch.dir).unwrap();
    AttemptDir::new(&launch.dir).write_desired(DesiredRecord::Freeze).unwrap();
    let dir = yard.launch(&launch);
    yard.frozen(&dir);
    // The passing of time is what this is about.
    thread::sleep(Duration::from_millis(500));
    assert!(matches!(dir.inspect().unwrap(), RecordedAttempt::Supervised(_, Phase::Frozen)));
    dir.write_desired(DesiredRecord::Run).unwrap();
    let exit = yard.exit(&dir);
    assert_eq!((&exit.cause, exit.status), (&ExitCause::TimedOut, Some(Status::Signal(15))));
    assert!(exit.running_us >= 2_000_000);
    assert!(exit.ended_at - exit.started_at >= exit.running_us + 500_000, "{exit:?}");
}

fn freezing_stops_everything(way: Freezer, group_below: Option<&str>) {
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let mut launch = yard.script(
        "cd $HOME; echo $$ >pids; \
         setsid sh -c 'echo $$ >pids; while :; do echo x >>escaped; done' & while :; do echo x >>main; done",
    );
    launch.freezers = vec![way];
    let dir = yard.launch(&launch);
    let counters = ["main", "escaped"].map(|name| yard.path(name));
    pids.pids::<2>();
    for _ in 0..3 {
        let before = counters.clone().map(|path| size(&path));
        eventually("both counters grow", || {
            counters.iter().zip(before).all(|(path, before)| size(path) > before)
        });
        dir.write_desired(DesiredRecord::Freeze).unwrap();
        yard.frozen(&dir);
        let group = dir.state().unwrap().unwrap().group;
        if let Some(below) = group_below
            && group.is_none()
        {
            eprintln!("SKIPPED: no writable {below} here, {way:?} was not tested");
            break;
        }
        let frozen = counters.clone().map(|path| size(&path));
        thread::sleep(Duration::from_millis(50));
        assert_eq!(counters.clone().map(|path| size(&path)), frozen, "{way:?}");
        dir.write_desired(DesiredRecord::Run).unwrap();
        yard.running(&dir);
    }
    let group = dir.state().unwrap().unwrap().group;
    dir.write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    yard.exit(&dir);
    assert!(group.is_none_or(|group| !group.exists()));
}

#[test]
fn freezing_by_the_unified_hierarchy_stops_everything() {
    freezing_stops_everything(Freezer::Cgroup2, Some("unified cgroup hierarchy"));
}

#[test]
fn freezing_by_the_old_freezer_stops_everything() {
    freezing_stops_everything(Freezer::Cgroup1, Some("cgroup freezer"));
}

#[test]
fn freezing_by_signals_stops_everything() {
    freezing_stops_everything(Freezer::Signals, None);
}

#[test]
fn a_frozen_task_may_save_before_it_stops() {
    for way in Freezer::all() {
        let mut yard = Yard::new();
        let ready = yard.fifo("ready");
        let mut launch =
            yard.script("trap 'echo saved; exit 3' TERM; echo $$ >$HOME/ready; while :; do sleep 0.01; done");
        launch.freezers = vec![way];
        let dir = yard.launch(&launch);
        ready.pids::<1>();
        dir.write_desired(DesiredRecord::Freeze).unwrap();
        yard.frozen(&dir);
        dir.write_desired(DesiredRecord::Stop { grace_ms: 20_000 }).unwrap();
        let exit = yard.exit(&dir);
        assert_eq!((exit.cause, exit.status), (ExitCause::Stopped, Some(Status::Code(3))), "{way:?}");
        assert_eq!(text(launch.dir.join("stdout")), "saved\n");
    }
}

#[test]
fn a_stop_may_be_made_more_urgent() {
    let mut yard = Yard::new();
    let ready = yard.fifo("ready");
    let launch = yard.script("trap '' TERM; echo $$ >$HOME/ready; while :; do sleep 0.01; done");
    let dir = yard.launch(&launch);
    ready.pids::<1>();
    dir.write_desired(DesiredRecord::Stop { grace_ms: 3_600_000 }).unwrap();
    dir.write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    let exit = yard.exit(&dir);
    assert_eq!((exit.cause, exit.status), (ExitCause::Stopped, Some(Status::Signal(9))));
}

#[test]
fn what_escaped_is_ended_when_the_task_stops() {
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let launch = yard.script(&format!("{ESCAPE} while :; do sleep 0.01; done"));
    let dir = yard.launch(&launch);
    let escaped = pids.pids::<2>();
    assert!(escaped.iter().all(|process| process.is_alive()));
    dir.write_desired(DesiredRecord::Stop { grace_ms: 10 }).unwrap();
    let exit = yard.exit(&dir);
    assert_eq!((exit.cause, exit.status), (ExitCause::Stopped, Some(Status::Signal(15))));
    assert!(!escaped.iter().any(|process| process.is_alive()));
}

#[test]
fn what_is_left_is_ended_when_the_task_exits_by_itself() {
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let launch = yard.script(&format!("{ESCAPE} read go <$HOME/go; exit 5"));
    let go = yard.fifo("go");
    let dir = yard.launch(&launch);
    let left = pids.pids::<2>();
    go.go();
    let exit = yard.exit(&dir);
    assert_eq!((exit.cause, exit.status), (ExitCause::Exited, Some(Status::Code(5))));
    assert!(!left.iter().any(|process| process.is_alive()));
}

#[test]
fn a_stop_wanted_before_the_launch_starts_nothing() {
    let mut yard = Yard::new();
    let launch = yard.script("echo ran");
    fs::create_dir_all(&launch.dir).unwrap();
    AttemptDir::new(&launch.dir).write_desired(DesiredRecord::Stop { grace_ms: 0 }).unwrap();
    let exit = yard.run(&launch);
    assert_eq!((exit.cause, exit.status), (ExitCause::Stopped, None));
    assert!(!launch.dir.join("stdout").exists());
}

#[test]
fn a_want_is_never_lost_however_early_it_comes() {
    let mut yard = Yard::new();
    let dirs: Vec<_> = (0..40)
        .map(|i| {
            let launch = yard.command(["sleep", "1000"]);
            fs::create_dir_all(&launch.dir).unwrap();
            let dir = yard.launch(&launch);
            // Spread over the microseconds in which a supervisor sets itself up.
            let until = Instant::now() + Duration::from_micros(i * 50);
            while Instant::now() < until {}
            dir.write_desired(DesiredRecord::Stop { grace_ms: 10_000 }).unwrap();
            dir
        })
        .collect();
    for dir in dirs {
        assert_eq!(yard.exit(&dir).cause, ExitCause::Stopped);
    }
}
