//! Files: what tasks leave behind, name, and unpack.

use crate::hung::HungMount;
use crate::machine::{Machine, Person};
use crate::support::{FAKE, Server, eventually};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command};

/// Submits a document of one's own making; gives the job's number.
#[track_caller]
fn submit(person: &Person<'_>, document: Value) -> String {
    let answer = person.posts("/v1/jobs", &json!({ "doc": document }).to_string());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let body: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"));
    body["job"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Waits for a job's end; gives its outcome.
#[track_caller]
fn outcome(person: &Person<'_>, job: &str) -> String {
    let answer = person.ask(&["wait", "--json", job]);
    let jobs: Value = serde_json::from_str(&answer.out).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
    jobs[0]["outcome"].as_str().unwrap_or_else(|| panic!("{jobs}")).to_owned()
}

/// What is known of why a job did not start.
fn why_not(person: &Person<'_>, job: &str) -> String {
    person.json(&["show", job]).to_string()
}

#[test]
fn a_working_directory_on_a_hung_mount_outlives_neither_a_cancel_nor_a_timeout() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    let mut mount = HungMount::of(&ann, "lookup");
    let document =
        |timeout: &str| json!({"command": ["true"], "workdir": mount.path.join("sub"), "timeout": timeout});
    let (cancelled, late) = (document("1h"), document("500ms"));
    let job = submit(&ann, cancelled);
    mount.hangs();
    ann.ask(&["cancel", &job]).fine();
    assert_eq!(outcome(&ann, &job), "cancelled");
    let job = submit(&ann, late);
    mount.hangs();
    assert_eq!(outcome(&ann, &job), "timed-out");
    assert_eq!(ann.run("echo others go on"), "others go on\n");
}

#[test]
fn an_output_on_a_hung_mount_holds_up_neither_a_cancel_nor_an_end() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    {
        let mut mount = HungMount::of(&ann, "lookup");
        let job = submit(&ann, json!({"command": ["true"], "stdout": mount.path.join("out")}));
        mount.hangs();
        ann.ask(&["cancel", &job]).fine();
        assert_eq!(outcome(&ann, &job), "cancelled");
    }
    fs::remove_dir(ann.home.join("hung")).expect("it was unmounted");
    let mut mount = HungMount::of(&ann, "write");
    let job = submit(&ann, json!({"command": ["echo", "said"], "stdout": mount.path.join("out")}));
    mount.hangs();
    assert_eq!(outcome(&ann, &job), "succeeded");
    let log = ann.ask(&["logs", &job]).fine();
    assert!(log.contains("said") && log.contains("lacks some of the output"), "{log}");
    let flood =
        json!({"command": ["sh", "-c", "while :; do echo said; done"], "stdout": mount.path.join("flood")});
    let job = submit(&ann, flood);
    mount.hangs();
    ann.ask(&["cancel", &job]).fine();
    assert_eq!(outcome(&ann, &job), "cancelled");
}

/// A cgroup someone was given, and a process of someone else's.
struct Given {
    path: PathBuf,
    victim: Child,
}

impl Drop for Given {
    fn drop(&mut self) {
        let _gone = self.victim.kill();
        let _status = self.victim.wait();
        let _removed = fs::remove_dir(&self.path);
    }
}

#[test]
fn an_output_in_a_cgroup_moves_nobody() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let path = PathBuf::from("/sys/fs/cgroup/freezer").join(&ann.name);
    if let Err(e) = fs::create_dir(&path) {
        return eprintln!("SKIPPED: no cgroup can be made here: {e}");
    }
    let mut victim = Command::new("sleep");
    std::os::unix::process::CommandExt::uid(&mut victim, bob.uid);
    let given = Given { path, victim: victim.arg("600").spawn().expect("sleep runs") };
    let control = given.path.join("cgroup.procs");
    chown(&control, Some(ann.uid), Some(ann.gid)).expect("it can be given");
    let victim = given.victim.id().to_string();
    let job = submit(&ann, json!({"command": ["echo", victim], "stdout": control}));
    assert_eq!(outcome(&ann, &job), "failed");
    assert!(why_not(&ann, &job).contains("no place for output"), "{}", why_not(&ann, &job));
    let members = fs::read_to_string(&control).expect("a list");
    assert!(!members.lines().any(|pid| pid == victim), "{members}");
}

#[test]
fn an_output_that_is_another_users_is_refused_and_not_even_emptied() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let theirs = bob.home.join("open");
    fs::write(&theirs, "bob's").expect("written");
    chown(&theirs, Some(bob.uid), Some(bob.gid)).expect("it can be given");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o666)).expect("its rights can be set");
    let refused = |path: &str, why: &str| {
        let job = submit(&ann, json!({"command": ["echo", "overwritten"], "stdout": path}));
        assert_eq!(outcome(&ann, &job), "failed");
        assert!(why_not(&ann, &job).contains(why), "{path}: {}", why_not(&ann, &job));
    };
    refused(theirs.to_str().expect("text"), "belongs to another user");
    refused("/dev/zero", "regular file, a FIFO or a terminal");
    assert_eq!(fs::read_to_string(&theirs).expect("read"), "bob's");
    assert_eq!(ann.ask(&["run", "--stdout", "/dev/null", "--", "echo", "gone"]).code, Some(0));
}

#[test]
fn an_output_to_a_fifo_nobody_reads_is_an_error_and_blocks_nobody() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    let fifo = ann.home.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    chown(&fifo, Some(ann.uid), Some(ann.gid)).expect("it can be given");
    let job = submit(&ann, json!({"command": ["echo", "said"], "stdout": fifo}));
    assert_eq!(outcome(&ann, &job), "failed");
    // With a reader it is as good as a file.
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read_to_string(fifo).expect("text")
    });
    eventually("somebody reads", || {
        let job = submit(&ann, json!({"command": ["echo", "said"], "stdout": fifo}));
        outcome(&ann, &job) == "succeeded"
    });
    assert_eq!(reader.join().expect("it only reads"), "said\n");
}

/// Nests directories in its working directory, deeper than any path may be long.
const NEST: &str = "import os
for _ in range(18000):
    os.mkdir('d')
    os.chdir('d')
print('nested', flush=True)";

/// Where jobs with a snapshot run.
fn work_dir(machine: &Machine) -> PathBuf {
    format!("{}-work", machine.server.data().display()).into()
}

/// The copy of its snapshot that a job ran in.
#[track_caller]
fn copy_of(machine: &Machine, job: &str) -> PathBuf {
    let end = format!("-{job}");
    let mut all = fs::read_dir(work_dir(machine)).expect("a directory").flatten().map(|entry| entry.path());
    all.find(|path| path.to_string_lossy().ends_with(&end)).expect("it ran in a copy")
}

#[test]
fn a_deep_tree_left_behind_is_removed_and_costs_the_server_nothing() {
    let Some(mut machine) = Machine::up("log_age = \"1ms\"") else { return };
    let left = {
        let ann = machine.person("ann");
        fs::write(ann.home.join("nest.py"), NEST).expect("written");
        let job = ann.submit(&["--snapshot", "--", "python3", "nest.py"]);
        assert_eq!(outcome(&ann, &job), "succeeded");
        let left = copy_of(&machine, &job);
        assert!(left.join("d/d/d").exists());
        left
    };
    // It is tidied at each start.
    machine.server.end_by(nix::sys::signal::Signal::SIGTERM);
    machine.server.start();
    eventually("it is gone", || !left.exists());
    let bob = machine.person("bob");
    assert_eq!(bob.run("echo fine"), "fine\n");
}

#[test]
fn a_tree_its_owner_cannot_remove_is_told_once_and_stops_nothing() {
    let Some(mut machine) = Machine::up("log_age = \"1ms\"") else { return };
    let (left, others) = {
        let ann = machine.person("ann");
        fs::write(ann.home.join("made"), "").expect("written");
        let [left, others] = [(); 2].map(|()| ann.submit(&["--snapshot", "--", "mkdir", "-p", "kept/deep"]));
        for job in [&left, &others] {
            assert_eq!(outcome(&ann, job), "succeeded");
        }
        (copy_of(&machine, &left), copy_of(&machine, &others))
    };
    // As a container's user may leave it: not the owner's, and not empty.
    chown(left.join("kept"), Some(0), Some(0)).expect("it can be taken");
    machine.server.end_by(nix::sys::signal::Signal::SIGTERM);
    machine.server.start();
    eventually("what can be removed is", || !others.exists() && !left.join("made").exists());
    assert!(left.join("kept/deep").exists());
    let told = format!("{} cannot be removed", left.display());
    eventually("it is told", || machine.server.has_said(&told));
    let (status, said) = machine.server.end_by(nix::sys::signal::Signal::SIGTERM);
    assert!(status.success(), "{status}: {said}");
    assert_eq!(said.matches(&told).count(), 1, "{said}");
}

#[test]
fn a_file_system_mounted_on_what_is_left_holds_up_no_tidying() {
    let Some(mut machine) = Machine::up("log_age = \"1ms\"") else { return };
    let (mount, others) = {
        let (ann, bob) = (machine.person("ann"), machine.person("bob"));
        let ran = |person: &Person<'_>| {
            fs::write(person.home.join("made"), "").expect("written");
            let job = person.submit(&["--snapshot", "--", "true"]);
            assert_eq!(outcome(person, &job), "succeeded");
            copy_of(&machine, &job)
        };
        let left = ran(&ann);
        let others: Vec<PathBuf> = (0..4).map(|_| ran(&bob)).collect();
        // Hers to mount on, for she owns it. Whoever asks it anything waits.
        (HungMount::over(left, &ann, "lookup"), others)
    };
    machine.server.end_by(nix::sys::signal::Signal::SIGTERM);
    machine.server.start();
    eventually("what others left is gone", || others.iter().all(|path| !path.exists()));
    let told = format!("{} cannot be removed: a file system is mounted on it", mount.path.display());
    eventually("it is told", || machine.server.has_said(&told));
    drop(mount);
    machine.server.end_by(nix::sys::signal::Signal::SIGTERM);
}

#[test]
fn a_snapshot_that_lies_about_its_size_is_refused() {
    let Some(machine) = Machine::up("snapshot_limit = \"64KiB\"") else { return };
    let ann = machine.person("ann");
    fs::write(ann.home.join("large"), vec![0; 60 << 10]).expect("written");
    let job = ann.submit(&["--snapshot", "--", "true"]);
    assert_eq!(outcome(&ann, &job), "succeeded");
    // What it holds is here now: a thousand files of it would cost her nothing, and the disk 60 MiB.
    let told = ann.asks("GET", &format!("/v1/jobs/{job}/snapshot"), "");
    let body: Value =
        serde_json::from_str(told.split_once("\r\n\r\n").expect("a body").1.trim()).expect("JSON");
    let large = body["entries"]["large"]["file"].clone();
    let bomb = |size: u64| {
        let file = json!({"file": {"mode": 0o644, "size": size, "hash": large["hash"]}});
        let entries: serde_json::Map<_, _> = (0..1000).map(|n| (format!("f{n}"), file.clone())).collect();
        ann.posts("/v1/snapshots", &json!({ "entries": entries }).to_string())
    };
    for size in [0, 1, 60 << 10] {
        let answer = bomb(size);
        assert!(answer.contains("bad-snapshot"), "{size}: {answer}");
    }
    let two = json!({"entries": {"a": {"file": large.clone()}, "b": {"file": {"mode": 420, "size": 0, "hash": large["hash"]}}}});
    let answer = ann.posts("/v1/snapshots", &two.to_string());
    assert!(answer.contains("bad-snapshot"), "{answer}");
}

#[test]
fn unpacking_ends_when_it_is_cancelled() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    fs::write(ann.home.join("file"), "x").expect("written");
    let first = ann.submit(&["--snapshot", "--", "true"]);
    assert_eq!(outcome(&ann, &first), "succeeded");
    // Another attempt of the next job holds the lock, as one would that unpacks something large.
    let copy = copy_of(&machine, &first);
    let name = copy.file_name().expect("a name").to_string_lossy().replace(&format!("-{first}"), "-2");
    let copy = copy.with_file_name(name);
    let lock = fs::File::create(copy.with_extension("lock")).expect("a lock");
    lock.lock().expect("nobody has it");
    let job = ann.submit(&["--snapshot", "--grace", "10m", "--", "true"]);
    assert_eq!(job, "2");
    eventually("it is being unpacked", || ann.json(&["show", &job])["state"] == "running");
    ann.ask(&["cancel", &job]).fine();
    assert_eq!(outcome(&ann, &job), "cancelled");
    assert!(!copy.exists());
}

#[test]
fn no_grace_is_longer_than_the_limit_and_none_survives_a_kill() {
    let Some(machine) = Machine::up("max_grace = \"5m\"") else { return };
    let ann = machine.person("ann");
    let refused = ann.ask(&["submit", "--grace", "10000d", "--", "true"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("over-limit") && refused.err.contains("5m at the longest"), "{refused:?}");
    assert!(ann.ask(&["limits"]).fine().contains("grace period"));
    let deaf = "trap '' TERM; echo started; while :; do sleep 0.02; done";
    let job = ann.submit(&["--grace", "5m", "--", "sh", "-c", deaf]);
    eventually("it runs", || ann.ask(&["logs", &job]).out == "started\n");
    ann.ask(&["cancel", &job]).fine();
    eventually("it was asked", || ann.json(&["show", &job])["state"] == "stopping");
    ann.ask(&["cancel", "--now", &job]).fine();
    assert_eq!(outcome(&ann, &job), "cancelled");
    eventually("nothing of hers is left", || ann.processes().is_empty());
}

/// Forks without end, each process leaving at once, so that a list of them is old when it is read; until a file is there.
const RACE: &str = "import os, sys, time
print('racing', flush=True)
for _ in range(8):
    if os.fork() == 0:
        while not os.path.exists(sys.argv[1]):
            if os.fork() != 0:
                os._exit(0)
        os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)";

#[test]
fn processes_left_faster_than_they_are_reaped_hold_up_nobody() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let gate = ann.home.join("gate");
    let job = ann.submit(&["--", "python3", "-c", RACE, gate.to_str().expect("text")]);
    eventually("they race", || ann.ask(&["logs", &job]).out == "racing\n");
    for supervisor in machine.server.supervisors() {
        crate::support::signal(supervisor, nix::sys::signal::Signal::SIGKILL);
    }
    // The agent looks at everything once a second, and several times before all this has started and ended.
    for round in 0..5 {
        assert_eq!(bob.run(&format!("sleep 0.5; echo {round}")), format!("{round}\n"));
    }
    fs::write(&gate, "").expect("written");
    eventually("nothing of hers is left", || ann.processes().is_empty());
    ann.ask(&["cancel", "--now", &job]);
}

#[test]
fn a_full_file_system_in_memory_neither_stalls_starts_nor_stays_untold() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can mount");
    }
    // A namespace in which /dev/shm is a file system of 256 KiB.
    let small = "exec unshare --mount --propagation private \\
                 sh -c 'mount -t tmpfs -o size=256k tmpfs /dev/shm && exec \"$0\" \"$@\"' \"$0\" \"$@\"";
    let mut server = Server::down(&FAKE).after(small);
    server.start();
    let linked =
        fs::read_link(server.data().join("attempts")).is_ok_and(|place| place.starts_with("/dev/shm"));
    if !linked {
        return eprintln!("SKIPPED: /run is in memory here, and nobody else's to fill");
    }
    assert_eq!(server.said(&["run", "--", "echo", "fine"]), "fine\n");
    let fill =
        ["run", "--", "sh", "-c", "cat /dev/zero >/dev/shm/filled; test -s /dev/shm/filled && echo full"];
    assert!(server.ask(&fill).out.contains("full"));
    assert_eq!(server.said(&["run", "--", "echo", "still fine"]), "still fine\n");
    let job = server.script(&["--grace", "10m"], "trap '' TERM; echo started; while :; do sleep 0.02; done");
    server.printed(&job, "started");
    server.said(&["cancel", "--now", &job]);
    assert_eq!(server.outcome(&job), "cancelled");
    let (_, said) = server.end_by(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(said.matches("is full: records go to the disk").count(), 1, "{said}");
}

#[test]
fn records_of_a_shared_machine_are_where_nobody_else_can_fill_the_file_system() {
    let Some(machine) = Machine::up("") else { return };
    let attempts = machine.server.data().join("attempts");
    if let Ok(place) = fs::read_link(&attempts) {
        let parent = place.parent().expect("a directory");
        assert_eq!(fs::metadata(parent).expect("it is there").permissions().mode() & 0o002, 0, "{place:?}");
    }
    assert_eq!(machine.person("ann").run("echo fine"), "fine\n");
}
