//! Workers on other machines, with the real binary: they join over TLS with a token, run jobs, ship their output, and survive
//! the death of either side. Every machine is a process of its own with a data directory of its own, on loopback.

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use support::{Server, end_all, eventually, is_alive, output, signal, wait_at, warpyard};

/// A worker and everything that runs under it.
struct Worker {
    data: PathBuf,
    args: Vec<String>,
    process: Option<Child>,
}

impl Worker {
    /// Starts a worker that joins a server, and waits until its agent runs.
    fn join(server: &Server, name: &str, options: &[&str]) -> Worker {
        let made = server.json(&["token", "create", "--role", "worker"]);
        let token = made["token"].as_str().expect("a token");
        let args = [&["worker", "--join", token, "--name", name], options].concat();
        let args = args.into_iter().map(ToOwned::to_owned).collect();
        let mut worker = Worker { data: server.path(name), args, process: None };
        worker.start();
        worker
    }

    fn start(&mut self) {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let mut child = warpyard(&self.data, &args).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut banner = String::new();
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        while !banner.contains("  cpus ") && said.read_line(&mut banner).is_ok_and(|n| n > 0) {}
        self.process = Some(child);
        assert!(banner.contains("  cpus "), "the worker did not start: {banner}");
    }

    fn end_by(&mut self, by: Signal) {
        let mut process = self.process.take().expect("it runs");
        signal(process.id(), by);
        process.wait().expect("it can be waited for");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end_all(self.process.take(), &self.data);
    }
}

/// A server without a worker of its own, which speaks TLS and stays at its address.
fn server(options: &[&str]) -> Server {
    let mut server = Server::up(&[&["--tls", "on", "--no-worker"], options].concat());
    server.stay();
    server
}

impl Server {
    fn worker(&self, name: &str) -> Value {
        let workers = self.json(&["workers"]);
        let named = workers.as_array().expect("a list").iter().find(|worker| worker["name"] == name);
        named.cloned().unwrap_or_default()
    }

    /// The attempts of a job's only task.
    fn attempts(&self, job: &str) -> Vec<Value> {
        self.json(&["show", job])["tasks"][0]["attempts"].as_array().cloned().unwrap_or_default()
    }
}

#[test]
fn a_job_runs_on_another_machine_and_its_output_arrives() {
    let server = server(&[]);
    let worker = Worker::join(&server, "gpu1", &["--gpus", "fake:2xV100:16GiB", "--labels", "rack=a,room=2"]);
    eventually("the state that is waited for", || server.worker("gpu1")["state"] == "up");
    let known = server.worker("gpu1");
    assert_eq!(known["labels"], json!({"rack": "a", "room": "2"}));
    assert_eq!(known["devices"][1]["type"], "V100");
    assert!(known["last_heard"].is_string(), "{known}");

    let job =
        server.script(&["--gpus", "1"], "echo to-out; echo to-err >&2; seq 1 200000 | tail -n 1; exit 3");
    assert_eq!(server.outcome(&job), "failed");
    let said = server.said(&["logs", "-f", &job]);
    assert!(said.contains("to-out") && said.contains("to-err") && said.ends_with("200000\n"), "{said}");
    assert_eq!(server.said(&["logs", "--stream", "stderr", &job]), "to-err\n");
    assert_eq!(server.attempts(&job)[0]["worker"], "gpu1");
    eventually("the state that is waited for", || {
        fs::read_dir(worker.data.join("logs")).is_ok_and(|left| left.count() == 0)
    });

    // Labels and names select it; what nobody has is refused with the remedy.
    let job = server.script(&["--on", "rack=a"], "true");
    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!(server.json(&["show", &job])["tasks"][0]["needs"]["on"], json!(["gpu1"]));
    let refused = server.ask(&["submit", "--on", "rack=b", "--", "true"]);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.err.contains("no worker is rack=b") && refused.err.contains("warpyard workers"),
        "{refused:?}"
    );
    let terminal = server.ask(&["submit", "--pty", "--", "bash"]);
    assert!(terminal.err.contains("server's own machine"), "{terminal:?}");
}

#[test]
fn attempts_survive_the_death_of_the_worker_and_of_the_server() {
    let mut server = server(&[]);
    let mut worker = Worker::join(&server, "gpu1", &["--gpus", "fake:1xV100:16GiB"]);
    let gate = server.path("gate");
    let script = format!("echo began; {}; echo ended", wait_at(&gate));
    let job = server.script(&["--gpus", "1"], &script);
    server.printed(&job, "began");

    worker.end_by(Signal::SIGKILL);
    worker.start();
    server.end_by(Signal::SIGKILL);
    server.start();
    eventually("the state that is waited for", || server.worker("gpu1")["state"] == "up");
    let waiting = server.script(&["--gpus", "1"], "echo next");
    fs::write(&gate, "").expect("the gate opens");

    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!(server.said(&["logs", "-f", &job]), "began\nended\n", "neither twice nor in part");
    assert_eq!(server.attempts(&job).len(), 1);
    assert_eq!(server.outcome(&waiting), "succeeded");
    assert_eq!(server.said(&["logs", "-f", &waiting]), "next\n");
}

#[test]
fn a_worker_that_is_silent_for_longer_than_its_lease_is_lost_and_its_task_runs_elsewhere() {
    let server = server(&["--lease", "3s"]);
    let first = Worker::join(&server, "gpu1", &["--gpus", "none"]);
    let gate = server.path("gate");
    let script = format!("echo on $$ >> {}; {}", server.path("ran").display(), wait_at(&gate));
    let job = server.script(&[], &script);
    eventually("the state that is waited for", || server.read("ran").lines().count() == 1);
    let second = Worker::join(&server, "gpu2", &["--gpus", "none"]);
    eventually("the state that is waited for", || server.worker("gpu2")["state"] == "up");

    // The agent stops, which would have ended its attempt: the supervisor does, before the task runs elsewhere.
    let agent = first.process.as_ref().expect("it runs").id();
    signal(agent, Signal::SIGSTOP);
    eventually("the state that is waited for", || server.worker("gpu1")["state"] == "lost");
    eventually("the state that is waited for", || server.read("ran").lines().count() == 2);
    let first_pid = server.read("ran").split_whitespace().nth(1).and_then(|pid| pid.parse().ok());
    assert!(!is_alive(first_pid.expect("a process number")), "two copies run at once");
    signal(agent, Signal::SIGCONT);
    eventually("the state that is waited for", || server.worker("gpu1")["state"] == "up");
    fs::write(&gate, "").expect("the gate opens");
    assert_eq!(server.outcome(&job), "succeeded");
    let workers: Vec<_> = server.attempts(&job).iter().map(|attempt| attempt["worker"].clone()).collect();
    assert_eq!(workers, ["gpu1", "gpu2"]);
    drop(second);
}

#[test]
fn what_is_not_a_members_key_is_refused_and_a_forgotten_worker_is_given_nothing() {
    let server = server(&["--lease", "2s"]);
    let never_joined = output(&mut warpyard(&server.path("nobody"), &["worker"]));
    assert!(never_joined.err.contains("token create --role worker"), "{never_joined:?}");
    let worker = Worker::join(&server, "gpu1", &["--gpus", "none"]);
    eventually("the state that is waited for", || server.worker("gpu1")["state"] == "up");
    let made = server.json(&["token", "create", "--role", "worker"]);
    let token = made["token"].as_str().expect("a token");
    let same_name =
        output(&mut warpyard(&server.path("other"), &["worker", "--join", token, "--name", "gpu1"]));
    assert!(same_name.err.contains("has joined already"), "{same_name:?}");

    assert!(server.said(&["forget", "gpu1"]).contains("forgotten"));
    eventually("the state that is waited for", || server.worker("gpu1").is_null());
    let waits = server.script(&[], "true");
    assert_eq!(server.state(&waits), "ready");
    drop(worker);
}
