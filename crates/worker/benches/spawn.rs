//! Empty tasks per second through spawner and supervisor alone, next to a bare spawn loop with the same parallelism
//! in the same run. Attempts are made in the temporary directory: on some disks removing the files of
//! one round slows the making of the next one's for minutes, so set `TMPDIR` to a file system in memory.
//! `cargo bench -p warpyard-worker --bench spawn [-- TASKS [PARALLEL]]`.

use std::{
    collections::BTreeSet,
    io::stdin,
    os::fd::AsFd,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use warpyard_worker::supervise::{
    AttemptDir, ExitCause, Launch, NotifyListener, Spawner, Status, spawner_main,
};

const PROGRAM: &str = "/bin/true";
const ROUNDS: usize = 3;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.first().is_some_and(|arg| arg == "spawner") {
        let socket = stdin().as_fd().try_clone_to_owned().expect("standard input is the socket");
        spawner_main(socket);
    }
    let number = |at: usize, default| args.get(at).map_or(default, |arg| arg.parse().expect("a number"));
    let (tasks, parallel) = (number(0, 3000), number(1, 2));
    println!("{tasks} times `{PROGRAM}`, {parallel} at once; tasks per second");
    for round in 1..=ROUNDS {
        let bare = per_second(tasks, bare(tasks, parallel));
        let ours = per_second(tasks, supervised(tasks, parallel));
        println!("round {round}: supervised {ours:.0} | bare spawn {bare:.0} ({:.0} %)", 100.0 * ours / bare);
    }
}

fn per_second(tasks: usize, took: Duration) -> f64 {
    tasks as f64 / took.as_secs_f64()
}

fn bare(tasks: usize, parallel: usize) -> Duration {
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                for _ in 0..tasks / parallel {
                    assert!(Command::new(PROGRAM).env_clear().status().expect("it runs").success());
                }
            });
        }
    });
    began.elapsed()
}

fn supervised(tasks: usize, parallel: usize) -> Duration {
    let home = tempfile::tempdir().expect("a directory");
    let pokes = NotifyListener::bind(home.path().join("pokes")).expect("a socket");
    let exe = std::env::current_exe().expect("our own path");
    let mut spawner = Spawner::start(exe, ["spawner"]).expect("a spawner");
    let mut launched = 0;
    let mut launch_next = || {
        if launched < tasks {
            spawner.launch(&launch(home.path(), &pokes, launched)).expect("launched");
            launched += 1;
        }
    };
    let began = Instant::now();
    (0..parallel).for_each(|_| launch_next());
    let mut ended = BTreeSet::new();
    while ended.len() < tasks {
        let key = pokes.recv().expect("a poke");
        // A slow one is poked about twice: as running and as ended.
        let Some(exit) = AttemptDir::new(home.path().join(&key)).exit().expect("a record") else { continue };
        assert_eq!((exit.cause, exit.status), (ExitCause::Exited, Some(Status::Code(0))));
        if ended.insert(key) {
            launch_next();
        }
    }
    began.elapsed()
}

fn launch(home: &Path, pokes: &NotifyListener, number: usize) -> Launch {
    let key = format!("1.0.{number}.1");
    let dir = home.join(&key);
    std::fs::create_dir(&dir).expect("an attempt directory");
    let mut launch = Launch::new(key, dir, [PROGRAM]);
    launch.notify = Some(pokes.path().into());
    launch
}
