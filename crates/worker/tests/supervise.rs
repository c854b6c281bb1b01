//! Attempts as real processes: what is started, kept, frozen, ended and found again.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::{
        fd::AsFd,
        unix::{
            fs::{MetadataExt, PermissionsExt},
            net::UnixDatagram,
            process::ExitStatusExt,
        },
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use warpyard_worker::supervise::{
    AttemptDir, Cause, Delivery, Exit, Found, Freezer, Ground, Hierarchy, Launch, PokeListener, RecordError,
    Running, Sighting, Spawner, Status, User, Want, scan,
};

/// Longer than anything here takes; a test that waits this long has failed.
const FOR_EVER: Duration = Duration::from_secs(30);

/// A directory for attempts, a spawner, and an ear for pokes.
struct Yard {
    home: tempfile::TempDir,
    spawner: Spawner,
    pokes: UnixDatagram,
    launched: usize,
}

impl Yard {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(home.path().join("attempts")).unwrap();
        let pokes = PokeListener::bind(home.path().join("pokes")).unwrap().into_std();
        pokes.set_read_timeout(Some(FOR_EVER)).unwrap();
        let spawner = Spawner::start(example("spawner"), Vec::<String>::new()).unwrap();
        Self { home, spawner, pokes, launched: 0 }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn attempts(&self) -> PathBuf {
        self.path("attempts")
    }

    /// A launch of a shell script that finds our directory in `$HOME`.
    fn script(&mut self, script: &str) -> Launch {
        self.command(["/bin/sh", "-c", script])
    }

    fn command<const N: usize>(&mut self, argv: [&str; N]) -> Launch {
        self.launched += 1;
        let key = format!("{}.0.0.1", self.launched);
        let mut launch = Launch::new(&key, self.attempts().join(&key), argv);
        launch.env.insert("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        launch.env.insert("HOME".into(), self.home.path().to_str().unwrap().into());
        launch.poke = Some(self.path("pokes"));
        launch
    }

    fn launch(&mut self, launch: &Launch) -> AttemptDir {
        self.spawner.launch(launch).unwrap();
        AttemptDir::new(&launch.dir)
    }

    /// Waits for pokes until `dir` shows what is asked for.
    fn until<T>(&self, dir: &AttemptDir, wanted: impl Fn(Found) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(dir.look().unwrap()) {
                return found;
            }
            let poked = self.pokes.recv(&mut [0; 64]);
            assert!(poked.is_ok(), "{:?} stays {:?} in state {:?}", dir.path(), dir.look(), dir.state());
        }
    }

    fn exit(&self, dir: &AttemptDir) -> Exit {
        self.until(dir, |found| match found {
            Found::Exited(exit) => Some(exit),
            _ => None,
        })
    }

    fn running(&self, dir: &AttemptDir) -> Running {
        self.until(dir, |found| match found {
            Found::Running(running) if running.task.is_some() => Some(running),
            _ => None,
        })
    }

    fn frozen(&self, dir: &AttemptDir) -> Running {
        self.until(dir, |found| match found {
            Found::Frozen(running) => Some(running),
            _ => None,
        })
    }

    fn run(&mut self, launch: &Launch) -> Exit {
        let dir = self.launch(launch);
        self.exit(&dir)
    }

    /// A named pipe, by which a script says where it is or is held back.
    fn fifo(&self, name: &str) -> Fifo {
        let path = self.path(name);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        Fifo(path)
    }
}

/// A test that failed leaves no process behind.
impl Drop for Yard {
    fn drop(&mut self) {
        for (dir, found) in scan(&self.attempts()).into_iter().flatten() {
            if matches!(found, Found::Running(_) | Found::Frozen(_)) && thread::panicking() {
                let _already_failed = dir.write_want(Want::Stop { grace_ms: 0 });
            }
        }
    }
}

struct Fifo(PathBuf);

impl Fifo {
    /// The next pids scripts write to it.
    fn pids<const N: usize>(&self) -> [Sighting; N] {
        // Open for writing too, so that it does not end between two writers.
        let file = fs::File::options().read(true).write(true).open(&self.0).unwrap();
        let mut lines = BufReader::new(file).lines();
        std::array::from_fn(|_| Sighting::now(lines.next().unwrap().unwrap().parse().unwrap()))
    }

    /// Lets the script that reads from it go on.
    fn go(&self) {
        fs::write(&self.0, "go\n").unwrap();
    }
}

/// Built by `cargo test` next to the tests.
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

/// For what has no event to wait for: a file somebody else writes, a process that is not our child.
fn eventually(what: &str, check: impl Fn() -> bool) {
    let began = Instant::now();
    while !check() {
        assert!(began.elapsed() < FOR_EVER, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn failed_to_start(exit: &Exit) -> &str {
    match &exit.cause {
        Cause::FailedToStart { message } => message,
        other => panic!("expected a failure to start, got {other:?}"),
    }
}

#[test]
fn codes_and_signals_are_kept() {
    let mut yard = Yard::new();
    for (script, status) in
        [("exit 0", Status::Code(0)), ("exit 7", Status::Code(7)), ("kill -SEGV $$", Status::Signal(11))]
    {
        let launch = yard.script(script);
        let exit = yard.run(&launch);
        assert_eq!(
            (exit.key, exit.cause, exit.status),
            (launch.key, Cause::Exited, Some(status)),
            "{script}"
        );
        assert!(exit.started_at <= exit.ended_at);
    }
}

#[test]
fn a_silent_task_leaves_only_its_records() {
    let mut yard = Yard::new();
    let launch = yard.command(["true"]);
    let exit = yard.run(&launch);
    let mut files: Vec<_> = fs::read_dir(launch.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["exit", "running"]);
    assert_eq!(exit.output, Default::default());
    assert!(exit.usage.peak_rss_bytes > 0);
}

#[test]
fn output_is_followable_and_kept_interleaved_and_apart() {
    let mut yard = Yard::new();
    let go = yard.fifo("go");
    let launch = yard.script("echo one; read x <$HOME/go; echo two >&2; read x <$HOME/go; echo three");
    let dir = yard.launch(&launch);
    let log = launch.dir.join("log");
    for so_far in ["one\n", "one\ntwo\n"] {
        eventually("the log follows the task", || text(&log) == so_far);
        go.go();
    }
    let exit = yard.exit(&dir);
    assert_eq!(text(log), "one\ntwo\nthree\n");
    assert_eq!(text(launch.dir.join("stdout")), "one\nthree\n");
    assert_eq!(text(launch.dir.join("stderr")), "two\n");
    assert_eq!((exit.output.out_bytes, exit.output.err_bytes), (10, 4));
}

#[test]
fn output_may_live_apart_from_the_records_and_only_if_there_is_some() {
    let mut yard = Yard::new();
    let logs = yard.path("logs/1");
    for (script, made) in [("true", false), ("echo hello", true)] {
        let mut launch = yard.script(script);
        launch.output_dir = Some(logs.clone());
        yard.run(&launch);
        assert!(!launch.dir.join("log").exists());
        assert_eq!(logs.exists(), made, "{script}");
    }
    assert_eq!((text(logs.join("log")), text(logs.join("stdout"))), ("hello\n".into(), "hello\n".into()));
    assert!(!logs.join("stderr").exists());
}

#[test]
fn a_flood_is_drained_but_only_its_head_is_kept() {
    let mut yard = Yard::new();
    let mut launch = yard.script("head -c 5000000 /dev/zero; printf 0123456789 >&2");
    launch.log_cap_bytes = 10;
    let exit = yard.run(&launch);
    assert_eq!(exit.status, Some(Status::Code(0)));
    assert_eq!((exit.output.out_bytes, exit.output.err_bytes), (5_000_000, 10));
    assert!(exit.output.out_truncated && exit.output.log_truncated && !exit.output.err_truncated);
    let notice = "\n[warpyard: only the first 10 bytes are kept]\n";
    assert_eq!(text(launch.dir.join("stdout")), "\0".repeat(10) + notice);
    assert_eq!(text(launch.dir.join("stderr")), "0123456789");
}

#[test]
fn streams_go_where_the_task_says_and_may_share_a_file() {
    let mut yard = Yard::new();
    fs::create_dir(yard.path("work")).unwrap();
    fs::write(yard.path("work/out.txt"), "from an earlier run").unwrap();
    let mut launch = yard.script("echo a; echo b >&2");
    launch.workdir = yard.path("work");
    launch.stdout = Some("out.txt".into());
    launch.stderr = Some(yard.path("work/out.txt"));
    yard.run(&launch);
    let mut lines: Vec<_> = text(yard.path("work/out.txt")).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a", "b"]);
    assert!(!launch.dir.join("stdout").exists());

    let mut launch = yard.script("echo a");
    launch.stdout = Some(yard.path("nowhere/out.txt"));
    let exit = yard.run(&launch);
    let message = failed_to_start(&exit);
    assert!(
        message.contains("nowhere/out.txt") && message.contains("No such file or directory"),
        "{message}"
    );
}

#[test]
fn the_environment_is_the_launch_s_and_no_other() {
    let mut yard = Yard::new();
    let mut launch = yard.command(["env"]);
    launch.env.insert("GREETING".into(), "hello world".into());
    yard.run(&launch);
    let dir = launch.dir.to_str().unwrap();
    let home = yard.home.path().to_str().unwrap();
    let expected = [
        "GREETING=hello world".to_owned(),
        format!("HOME={home}"),
        "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
        format!("WARPYARD_ATTEMPT_DIR={dir}"),
    ];
    let mut lines: Vec<_> = text(launch.dir.join("stdout")).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, expected);
}

#[test]
fn a_huge_environment_arrives_and_one_too_huge_is_told_of() {
    let mut yard = Yard::new();
    let mut launch = yard.script("echo ${#BIG_0} ${#BIG_9}");
    for i in 0..10 {
        launch.env.insert(format!("BIG_{i}"), "x".repeat(100_000));
    }
    yard.run(&launch);
    assert_eq!(text(launch.dir.join("stdout")), "100000 100000\n");

    let mut launch = yard.script("true");
    launch.env.insert("BIG".into(), "x".repeat(10_000_000));
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("Argument list too long"), "{exit:?}");
}

#[test]
fn nothing_of_the_supervisor_s_reaches_the_task() {
    let mut yard = Yard::new();
    let launch = yard.script(
        "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; \
         read pid comm state ppid pgrp session rest </proc/$$/stat; echo $(($$ == pgrp)) $(($$ == session))",
    );
    yard.run(&launch);
    let text = text(launch.dir.join("stdout"));
    // The fourth descriptor is the one by which `ls` reads the directory. Signals 32 and 33 are the C library's own.
    let text = text.replace("0000000180000000", "0000000000000000");
    let zero = "0000000000000000";
    assert_eq!(text, format!("0\n1\n2\n3\nSigBlk:\t{zero}\nSigIgn:\t{zero}\n1 1\n"));
}

#[test]
fn what_cannot_start_says_why() {
    let mut yard = Yard::new();
    let launch = yard.command(["no-such-program"]);
    let exit = yard.run(&launch);
    let message = failed_to_start(&exit);
    assert!(
        message.contains("no-such-program") && message.contains("No such file or directory"),
        "{message}"
    );
    assert_eq!(exit.status, None);

    let mut launch = yard.command(["true"]);
    launch.workdir = "/no/such/place".into();
    let exit = yard.run(&launch);
    let message = failed_to_start(&exit);
    assert!(message.contains("/no/such/place") && message.contains("No such file or directory"), "{message}");

    let launch = yard.command(["/etc/passwd"]);
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("Permission denied"), "{exit:?}");

    let launch = yard.command([]);
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("empty"), "{exit:?}");
}

#[test]
fn a_script_without_a_first_line_runs_as_in_a_shell() {
    let mut yard = Yard::new();
    let path = yard.path("script");
    fs::write(&path, "echo got $1; exit 3\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let launch = yard.command([path.to_str().unwrap(), "this"]);
    let exit = yard.run(&launch);
    assert_eq!(exit.status, Some(Status::Code(3)), "{exit:?}");
    assert_eq!(text(launch.dir.join("stdout")), "got this\n");
}

#[test]
fn a_timeout_asks_first_and_then_insists() {
    let mut yard = Yard::new();
    let mut launch = yard.script("trap 'echo saved; exit 3' TERM; while :; do sleep 0.01; done");
    launch.timeout_ms = Some(200);
    let exit = yard.run(&launch);
    assert_eq!((&exit.cause, exit.status), (&Cause::TimedOut, Some(Status::Code(3))));
    assert_eq!(text(launch.dir.join("stdout")), "saved\n");
    assert!(exit.running_us >= 200_000);

    let mut launch = yard.script("trap '' TERM; while :; do sleep 0.01; done");
    launch.timeout_ms = Some(50);
    launch.grace_ms = 50;
    let exit = yard.run(&launch);
    assert_eq!((exit.cause, exit.status), (Cause::TimedOut, Some(Status::Signal(9))));
}

#[test]
fn frozen_time_does_not_count_towards_the_timeout() {
    let mut yard = Yard::new();
    let mut launch = yard.command(["sleep", "1000"]);
    launch.timeout_ms = Some(400);
    let dir = yard.launch(&launch);
    yard.running(&dir);
    dir.write_want(Want::Freeze).unwrap();
    yard.frozen(&dir);
    // The passing of time is what this is about.
    thread::sleep(Duration::from_millis(500));
    assert!(matches!(dir.look().unwrap(), Found::Frozen(_)));
    dir.write_want(Want::Run).unwrap();
    let exit = yard.exit(&dir);
    assert_eq!((&exit.cause, exit.status), (&Cause::TimedOut, Some(Status::Signal(15))));
    assert!(exit.running_us >= 400_000);
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
        dir.write_want(Want::Freeze).unwrap();
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
        dir.write_want(Want::Run).unwrap();
        yard.running(&dir);
    }
    let group = dir.state().unwrap().unwrap().group;
    dir.write_want(Want::Stop { grace_ms: 0 }).unwrap();
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
        dir.write_want(Want::Freeze).unwrap();
        yard.frozen(&dir);
        dir.write_want(Want::Stop { grace_ms: 20_000 }).unwrap();
        let exit = yard.exit(&dir);
        assert_eq!((exit.cause, exit.status), (Cause::Stopped, Some(Status::Code(3))), "{way:?}");
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
    dir.write_want(Want::Stop { grace_ms: 3_600_000 }).unwrap();
    dir.write_want(Want::Stop { grace_ms: 0 }).unwrap();
    let exit = yard.exit(&dir);
    assert_eq!((exit.cause, exit.status), (Cause::Stopped, Some(Status::Signal(9))));
}

/// Two that left the session, one of them also its parent; neither heeds TERM.
const ESCAPE: &str = "setsid sh -c 'trap \"\" TERM; echo $$ >$HOME/pids; while :; do sleep 0.01; done' & \
     (setsid sh -c 'trap \"\" TERM; echo $$ >$HOME/pids; while :; do sleep 0.01; done' &) ;";

#[test]
fn what_escaped_is_ended_when_the_task_stops() {
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let launch = yard.script(&format!("{ESCAPE} while :; do sleep 0.01; done"));
    let dir = yard.launch(&launch);
    let escaped = pids.pids::<2>();
    assert!(escaped.iter().all(|process| process.is_alive()));
    dir.write_want(Want::Stop { grace_ms: 10 }).unwrap();
    let exit = yard.exit(&dir);
    assert_eq!((exit.cause, exit.status), (Cause::Stopped, Some(Status::Signal(15))));
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
    assert_eq!((exit.cause, exit.status), (Cause::Exited, Some(Status::Code(5))));
    assert!(!left.iter().any(|process| process.is_alive()));
}

#[test]
fn a_stop_wanted_before_the_launch_starts_nothing() {
    let mut yard = Yard::new();
    let launch = yard.script("echo ran");
    fs::create_dir_all(&launch.dir).unwrap();
    AttemptDir::new(&launch.dir).write_want(Want::Stop { grace_ms: 0 }).unwrap();
    let exit = yard.run(&launch);
    assert_eq!((exit.cause, exit.status), (Cause::Stopped, None));
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
            dir.write_want(Want::Stop { grace_ms: 10_000 }).unwrap();
            dir
        })
        .collect();
    for dir in dirs {
        assert_eq!(yard.exit(&dir).cause, Cause::Stopped);
    }
}

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
    let [(dir, Found::Running(running))] = &found[..] else { panic!("{found:?}") };
    assert_eq!(running.key, launch.key);
    assert_eq!(running.processes(), [task.pid]);
    go.go();
    yard.exit(dir);
    let found = scan(&yard.attempts()).unwrap();
    let [(_, Found::Exited(exit))] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&exit.cause, exit.status), (&Cause::Exited, Some(Status::Code(4))));
    assert_eq!(text(launch.dir.join("log")), "went on\n");
}

#[test]
fn a_spawner_killed_is_replaced_and_its_attempts_go_on() {
    let mut yard = Yard::new();
    let go = yard.fifo("go");
    let launch = yard.script("read go <$HOME/go; exit 6");
    let dir = yard.launch(&launch);
    yard.running(&dir);
    let spawner = Sighting::now(yard.spawner.pid() as i32);
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
        dir.write_want(Want::Freeze).unwrap();
        yard.frozen(&dir);
    }
    running.supervisor.signal(libc::SIGKILL).unwrap();
    eventually("the supervisor is gone", || !running.supervisor.is_alive());
    let Found::Died(running) = dir.look().unwrap() else { panic!("{:?}", dir.look()) };
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
    let now = Sighting::now(stranger.id() as i32);
    let record = |boot: &str, seen_us: u64| {
        let supervisor = Sighting { seen_us, ..now };
        let running = Running { v: 1, key: "9.0.0.1".into(), boot: boot.into(), supervisor, task: None };
        fs::write(path.join("running"), serde_json::to_string(&running).unwrap() + "\n").unwrap();
    };
    let dir = AttemptDir::new(&path);
    record(boot.trim(), now.seen_us);
    assert!(matches!(dir.look().unwrap(), Found::Running(_)), "the record itself is sound");
    for (boot, seen_us) in [(boot.trim(), 1), ("another-boot", now.seen_us)] {
        record(boot, seen_us);
        assert!(matches!(dir.look().unwrap(), Found::Died(_)));
        dir.write_want(Want::Stop { grace_ms: 0 }).unwrap();
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
    let refused = AttemptDir::new(path).look();
    assert!(matches!(refused, Err(RecordError::Newer { found: 2, .. })), "{refused:?}");
}

#[test]
fn nobody_need_listen_for_pokes() {
    let mut yard = Yard::new();
    let mut launch = yard.command(["true"]);
    launch.poke = Some(yard.path("nobody-here"));
    let dir = yard.launch(&launch);
    eventually("it ends all the same", || matches!(dir.look(), Ok(Found::Exited(_))));
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
        dirs.iter().all(|dir| matches!(dir.look(), Ok(Found::Exited(_))))
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
fn usage_counts_children_too() {
    let mut yard = Yard::new();
    let launch = yard.script("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; exit 0");
    let exit = yard.run(&launch);
    assert!(exit.usage.cpu_us > 1_000, "{exit:?}");
    assert!(exit.usage.peak_rss_bytes > 100_000, "{exit:?}");
}

#[test]
fn a_task_may_run_as_another_user() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can run tasks as somebody else");
        return;
    }
    let mut yard = Yard::new();
    let nobody = User { uid: 65534, gid: 65533, groups: vec![65532] };
    fs::create_dir(yard.path("theirs")).unwrap();
    std::os::unix::fs::chown(yard.path("theirs"), Some(nobody.uid), Some(nobody.gid)).unwrap();
    let mut launch =
        yard.script("id -u; id -g; id -G; umask; touch theirs; kill -9 $PPID 2>/dev/null || echo safe");
    launch.workdir = yard.path("theirs");
    launch.stderr = Some(yard.path("theirs/err"));
    launch.user = Some(nobody.clone());
    launch.umask = Some(0o027);
    let exit = yard.run(&launch);
    assert_eq!(exit.status, Some(Status::Code(0)), "{exit:?}");
    assert_eq!(text(launch.dir.join("stdout")), "65534\n65533\n65533 65532\n0027\nsafe\n");
    let owner = |path: PathBuf| path.metadata().map(|metadata| (metadata.uid(), metadata.gid())).unwrap();
    assert_eq!(owner(launch.dir.join("log")), (65534, 65533));
    assert_eq!(owner(launch.dir.join("exit")), (0, 0));
    assert_eq!(owner(yard.path("theirs/err")), (65534, 65533));

    // What the user may not write, root does not write for them.
    let mut launch = yard.script("echo mischief");
    launch.stdout = Some(yard.path("attempts/forged"));
    launch.user = Some(nobody);
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("Permission denied"), "{exit:?}");
    assert!(!yard.path("attempts/forged").exists());
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
    let stopped = Sighting::now(late.pid() as i32);
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

/// Where groups can be made, or a word that they cannot.
fn ground(hierarchy: Hierarchy) -> Option<Ground> {
    match Ground::find(hierarchy) {
        Ok(ground) => Some(ground),
        Err(e) => {
            eprintln!("SKIPPED: no group of {hierarchy:?} that bounds processes can be made here ({e})");
            None
        }
    }
}

/// Tries to have a thousand processes, some of them in sessions of their own, all of which ignore being asked to end.
const BOMB: &str = "trap '' TERM; i=0; while [ $i -lt 250 ]; do
     sleep 600 & setsid sh -c 'sleep 600 & sleep 600' & i=$((i+1)); done; wait";

#[test]
fn a_fork_bomb_has_no_more_processes_than_it_may_and_all_of_it_is_ended() {
    for hierarchy in [Hierarchy::Unified, Hierarchy::Pids] {
        let Some(ground) = ground(hierarchy) else { continue };
        let mut yard = Yard::new();
        // The shell would give up at the first process that it cannot have.
        let mut launch = yard.command(["python3", "-c", "import os, time\nfor _ in range(2000):\n    try:\n        if os.fork() == 0:\n            os.setsid(); time.sleep(600); os._exit(0)\n    except OSError:\n        pass\nopen(os.environ['HOME'] + '/tried', 'w').close(); time.sleep(600)"]);
        (launch.ground, launch.processes) = (Some(ground), Some(100));
        let dir = yard.launch(&launch);
        let running = yard.running(&dir);
        let until = Instant::now() + FOR_EVER;
        while !yard.path("tried").exists() {
            assert!(Instant::now() < until, "it never tried them all");
            thread::sleep(Duration::from_millis(5));
        }
        let processes = running.processes();
        assert_eq!(processes.len(), 100, "{hierarchy:?}");
        let group = running.task.as_ref().and_then(|task| task.group.clone()).expect("a group");
        dir.write_want(Want::Stop { grace_ms: 0 }).unwrap();
        assert_eq!(yard.exit(&dir).cause, Cause::Stopped);
        assert!(!processes.iter().any(|&pid| Sighting::now(pid).is_alive()));
        assert!(!group.exists(), "{group:?} is left");
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert!(log.contains("a process was refused 19"), "{log}");
    }
}

#[test]
fn where_nothing_bounds_them_too_many_processes_are_found_and_ended() {
    let mut yard = Yard::new();
    let mut launch = yard.script(BOMB);
    launch.processes = Some(200);
    let dir = yard.launch(&launch);
    let exit = yard.exit(&dir);
    assert!(matches!(exit.cause, Cause::Crowded { processes } if processes > 200), "{exit:?}");
    let mark = format!("WARPYARD_ATTEMPT_DIR={}", launch.dir.display());
    let left = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|&b| b == 0).any(|variable| variable == mark.as_bytes())
    });
    assert_eq!(left.count(), 0, "nothing of it is left");
}

#[test]
fn a_task_begins_in_its_group_and_is_frozen_and_ended_there() {
    let unified = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        Some(Ground { hierarchy: Hierarchy::Unified, parent: line.split(' ').nth(4)?.into() })
    };
    let Some(ground) = unified().filter(|_| nix::unistd::geteuid().is_root()) else {
        return eprintln!("SKIPPED: there is no unified hierarchy to make groups in");
    };
    let mut yard = Yard::new();
    let pids = yard.fifo("pids");
    let mut launch = yard.script(
        "grep ^0:: /proc/self/cgroup; trap '' TERM; echo $$ >$HOME/pids; while :; do setsid sleep 600; done",
    );
    launch.ground = Some(ground);
    let dir = yard.launch(&launch);
    let running = yard.running(&dir);
    let group = running.task.as_ref().and_then(|task| task.group.clone()).expect("a group");
    pids.pids::<1>();
    dir.write_want(Want::Freeze).unwrap();
    yard.frozen(&dir);
    assert!(
        dir.state().unwrap().is_some_and(|state| state.group.as_ref() == Some(&group)),
        "no second group"
    );
    let processes = running.processes();
    dir.write_want(Want::Stop { grace_ms: 0 }).unwrap();
    yard.exit(&dir);
    assert!(!processes.iter().any(|&pid| Sighting::now(pid).is_alive()) && !group.exists());
    let log = fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(log.contains("/warpyard-1.0.0.1-"), "it began outside: {log}");
}
