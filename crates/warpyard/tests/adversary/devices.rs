//! Devices and limits: what a task may open and how much it may use.

#[path = "../../../worker/tests/fake-nvml/mod.rs"]
mod fake_nvml;

use crate::machine::{Machine, Page, Person, tool};
use crate::support::{eventually, wait_at};
use fake_nvml::FakeNvml;
use serde_json::{Value, json};
use std::fs;

/// Writes to 300 MiB of memory.
const HOG: &str = "x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096])";

/// Two processes that compute until both have had 150 ms of a processor.
const BURN: &str = "import os, time
child = os.fork()
while time.process_time() < 0.15: pass
if child: os.wait()";

/// Whether this machine can enforce something, with a word if it cannot.
fn enforces(person: &Person<'_>, what: &str) -> bool {
    let enforced = person.json(&["info"])["enforces"][what].clone();
    if enforced["enforced"] != true {
        eprintln!("SKIPPED: {what} cannot be enforced here: {enforced}");
    }
    enforced["enforced"] == true
}

/// The attempt of a job that ended.
fn ended(person: &Person<'_>, job: &str) -> Value {
    let _says_how_it_ended = person.ask(&["wait", job]);
    person.json(&["show", job])["tasks"][0]["attempts"][0].clone()
}

#[test]
fn a_task_that_needs_more_memory_than_it_requested_is_killed() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    if !enforces(&ann, "memory") {
        return;
    }
    // A shell that would go on without the process the kernel killed. Where the kernel kills one process and its supervisor
    // the rest (v1), the shell may be a step ahead, so it goes on for long.
    let script = format!("python3 -c \"{HOG}\"; sleep 600; echo survived");
    let job = ann.submit(&["--memory", "50MiB", "--", "sh", "-c", &script]);
    let attempt = ended(&ann, &job);
    assert_eq!((&attempt["outcome"], &attempt["reason"]), (&json!("failed"), &json!("out-of-memory")));
    let shown = ann.ask(&["show", &job]).out;
    assert!(shown.contains("out of memory: it needed more than the 50 MiB it requested"), "{shown}");
    let log = ann.ask(&["logs", &job]).out;
    assert!(!log.contains("survived"), "{log}");
    let row = ann.json(&["history"])[0].clone();
    assert_eq!(row["attempt"]["reason"], "out-of-memory", "{row}");
    assert_eq!(bob.run("echo fine"), "fine\n");
}

#[test]
fn a_task_that_computes_in_many_processes_has_the_cpu_time_it_requested() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    if !enforces(&ann, "cpus") {
        return;
    }
    let job = ann.submit(&["--cpus", "0.05", "--", "python3", "-c", BURN]);
    let attempt = ended(&ann, &job);
    assert_eq!(attempt["outcome"], "succeeded");
    // By what was accounted, not by a clock of the test's: `gpu_seconds` has no GPU, `cpu_seconds` the kernel's sum.
    let moment =
        |field: &str| attempt[field].as_str().and_then(|at| at.parse::<warpyard_api::wire::Timestamp>().ok());
    let ran =
        moment("ended_at").expect("an end").as_millis() - moment("started_at").expect("a start").as_millis();
    let (ran, cpu) = (ran as f64 / 1000.0, attempt["cpu_seconds"].as_f64().expect("CPU time"));
    assert!(cpu >= 0.3 && cpu <= 0.05 * ran * 2.0 + 0.15, "{cpu} s of CPU in {ran} s");
}

/// Two GPUs with nodes of their own, and a fake driver that knows them.
fn two_gpus() -> FakeNvml {
    let gpu = |n: u32| {
        format!(
            "gpu GPU-{n}\nname Tesla V100-SXM2-16GB\npci 00000000:f{n}:00.0\nminor {n}\nmemory 17179869184\nused 0\n"
        )
    };
    FakeNvml::new(&format!("driver 550.54.15\n{}{}", gpu(0), gpu(1)))
}

/// Opens what stands for both GPUs. There is no driver behind the numbers, so the kernel says "no such device" of what may be
/// opened and "not permitted" of what may not.
fn tries_to_open(machine: &Machine) -> String {
    let dir = machine.server.path("gpu");
    for n in ["0", "1"] {
        tool("mknod", &["-m", "666", &format!("{}{n}", dir.display()), "c", "195", n]);
    }
    format!("for n in 0 1; do (: <{}$n) 2>&1 | sed 's/.*: //'; done", dir.display())
}

const OPENS: &str = "No such device or address\n";
const DENIED: &str = "Operation not permitted\n";

#[test]
fn a_task_cannot_open_a_gpu_it_was_not_granted() {
    let fake = two_gpus();
    let settings = format!("nvml_library = {:?}", fake.library());
    let Some(machine) = Machine::with_gpus(&settings, &[]) else { return };
    let ann = machine.person("ann");
    if !enforces(&ann, "devices") {
        return;
    }
    let open = tries_to_open(&machine);
    let run = |args: &[&str]| ann.ask(&[&["run"], args, &["--", "sh", "-c", &open]].concat()).fine();
    assert_eq!(run(&["--gpus", "1", "--gpu-scope", "1"]), format!("{DENIED}{OPENS}"));
    assert_eq!(run(&["--gpus", "1", "--gpu-scope", "0"]), format!("{OPENS}{DENIED}"));
    assert_eq!(run(&["--gpus", "2"]), format!("{OPENS}{OPENS}"));
    assert_eq!(run(&[]), format!("{DENIED}{DENIED}"));
    // Not by another name for the process, nor by way of a session.
    let escape = format!("setsid sh -c '{}' & wait", open.replace('\'', "'\\''"));
    assert_eq!(ann.run(&escape), format!("{DENIED}{DENIED}"));
    assert_eq!(ann.run("echo fine >/dev/null; head -c 3 /dev/zero | wc -c"), "3\n", "all else is as it was");
    let doctor = ann.ask(&["doctor"]).out;
    assert!(doctor.contains("a task can open only the GPUs it was granted"), "{doctor}");
}

#[test]
fn a_login_shell_opens_no_gpu_and_leaves_nothing_running() {
    let fake = two_gpus();
    let settings = format!("nvml_library = {:?}", fake.library());
    let Some(machine) = Machine::with_gpus(&settings, &[]) else { return };
    let ann = machine.person("ann");
    if !enforces(&ann, "devices") {
        return;
    }
    // What a task would write there, which is granted none and has the server run her shell by opening a page.
    let profile = format!("({}) >opened\nsetsid sleep 600 >/dev/null 2>&1 &\n", tries_to_open(&machine));
    fs::write(ann.home.join(".profile"), format!("cd; {profile}")).expect("written");
    let page = Page::open(ann.json(&["login"])["login"].as_str().expect("a link"));
    assert!(page.shows("/new").contains(&ann.name));
    let opened = fs::read_to_string(ann.home.join("opened")).expect("her shell ran");
    assert_eq!(opened, format!("{DENIED}{DENIED}"));
    eventually("nothing of hers is left", || ann.processes().is_empty());
}

#[test]
fn a_task_cannot_leave_or_change_its_cgroups() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    if !enforces(&ann, "memory") {
        return;
    }
    let script = "import glob
own = [line.strip().split(':', 2) for line in open('/proc/self/cgroup')]
wrote = []
for mount in ['/sys/fs/cgroup'] + glob.glob('/sys/fs/cgroup/*'):
    for path in [mount] + [mount + '/' + group.lstrip('/') for _, _, group in own]:
        for file in ['cgroup.procs', 'memory.limit_in_bytes', 'memory.max', 'cpu.cfs_quota_us', 'cpu.max', 'devices.allow']:
            try:
                open(path + '/' + file, 'w').write('0' if file == 'cgroup.procs' else '-1')
                wrote.append(path + '/' + file)
            except OSError:
                pass
print('wrote', wrote)";
    let said = ann.ask(&["run", "--memory", "100MiB", "--cpus", "1", "--", "python3", "-c", script]).fine();
    assert_eq!(said, "wrote []\n");
}

#[test]
fn gpu_memory_taken_beyond_the_request_is_charged_and_flagged() {
    let fake = two_gpus();
    let settings = format!("nvml_library = {:?}", fake.library());
    let Some(machine) = Machine::with_gpus(&settings, &[]) else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let gate = ann.home.join("gate");
    let script = format!("echo $$; {}", wait_at(&gate));
    let on_first = ["--gpus", "1", "--gpu-scope", "0"];
    let job = ann.submit(&[&on_first[..], &["--gpu-memory", "1GiB", "--", "sh", "-c", &script]].concat());
    eventually("it runs", || ann.ask(&["logs", &job]).out.ends_with('\n'));
    let pid = ann.ask(&["logs", &job]).out.trim().to_owned();
    let idle = std::fs::read_to_string(fake.world()).expect("a world");
    fake.set(&idle.replacen("used 0", &format!("used 9019431322\ncompute {pid} 9019431322"), 1));
    eventually("it is flagged", || ann.json(&["gpus"])[0]["tasks"][0]["requested_bytes"] == 1u64 << 30);
    // In steps of a sixty-fourth of the device.
    let over = json!([{"task": job, "gpu": ann.json(&["gpus"])[0]["id"], "requested_bytes": 1u64 << 30, "charged_bytes": 34u64 << 28}]);
    assert_eq!(ann.json(&["show", &job])["over_request"], over);
    assert_eq!(ann.json(&["ps"])[0]["over_request"], over);
    let table = bob.ask(&["gpus"]).out;
    assert!(table.contains("8.5G [requested 1.0G]"), "{table}");
    assert!(ann.ask(&["show", &job]).out.contains("8.5 GiB of GPU memory, requested 1 GiB"));
    // 8.4 and 8 GiB are more than there are, 8.4 and 7 are not.
    let large = bob.submit(&[&on_first[..], &["--gpu-memory", "8GiB", "--", "true"]].concat());
    let small = bob.submit(&[&on_first[..], &["--gpu-memory", "7GiB", "--", "true"]].concat());
    bob.ask(&["wait", &small]).fine();
    assert_eq!(bob.json(&["show", &large])["state"], "ready");
    fake.set(&idle);
    std::fs::write(gate, "").expect("a file");
    bob.ask(&["wait", &large]).fine();
}
