//! The real binary against a real server of its own: what a person types, what is printed and what is exited with.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_warpyard");

/// A server with a data directory of its own; ended with all its tasks when dropped.
struct Yard {
    data: tempfile::TempDir,
    server: Child,
}

impl Yard {
    fn up(more: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let server = serve(data.path(), more);
        Self { data, server }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(args).env("WARPYARD_DATA", self.data.path()).stdin(Stdio::null());
        command.env_remove("WARPYARD_SERVER").env_remove("WARPYARD_TOKEN");
        command
    }

    fn ask(&self, args: &[&str]) -> Answer {
        Answer::of(self.command(args).output().expect("the binary runs"))
    }

    /// Standard output of a command that has to succeed.
    fn said(&self, args: &[&str]) -> String {
        let answer = self.ask(args);
        assert_eq!(answer.code, Some(0), "{args:?}: {answer:?}");
        answer.out
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.said(&[&["--json"], args].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let down = self.command(&["down", "--kill-tasks"]).output();
        if down.is_ok_and(|down| !down.status.success()) {
            let _gone_already = self.server.kill();
        }
        let _status = self.server.wait();
    }
}

/// Starts a server and waits until it says that it answers.
fn serve(data: &Path, more: &[&str]) -> Child {
    let mut server = Command::new(BINARY)
        .args(["up", "--data"])
        .arg(data)
        .args(more)
        .env("WARPYARD_LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("it was piped")).read_line(&mut line).expect("text");
    assert!(line.starts_with("warpyard "), "{line:?}");
    server
}

#[derive(Debug)]
struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Answer {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

const FAKE: [&str; 2] = ["--gpus", "fake:2xV100:16GiB"];

#[test]
fn run_prints_the_log_and_exits_as_the_task_did() {
    let yard = Yard::up(&FAKE);
    let answer = yard.ask(&["run", "--gpus", "1", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(7), "out\nerr\n"));
    assert!(answer.err.ends_with(": exited with code 7\n"), "{answer:?}");
    assert_eq!(yard.ask(&["run", "--", "true"]).code, Some(0));
    assert_eq!(yard.ask(&["run", "--", "sh", "-c", "kill -9 $$"]).code, Some(137));
    assert_eq!(
        yard.ask(&["run", "--timeout", "100ms", "--grace", "100ms", "--", "sleep", "600"]).code,
        Some(124)
    );
    assert_eq!(yard.ask(&["run", "--", "/no/such/program"]).code.map(|code| code != 0), Some(true));
}

#[test]
fn a_run_that_did_not_end_by_itself_says_how_it_ended() {
    let yard = Yard::up(&FAKE);
    let late = yard.ask(&["run", "--timeout", "100ms", "--grace", "100ms", "--", "sleep", "600"]);
    assert_eq!(late.err, "1 sleep  timed out after 100ms\n", "{late:?}");
    let missing = yard.ask(&["run", "--", "/no/such/program"]);
    assert!(missing.err.contains("/no/such/program"), "{missing:?}");

    let mut run = yard.command(&["run", "--", "sh", "-c", "echo started; exec sleep 600"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    BufReader::new(run.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    yard.said(&["cancel", "3"]);
    let answer = Answer::of(run.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "as one that was cancelled here: {answer:?}");
    assert!(answer.err.starts_with("3 sh  cancelled after "), "{answer:?}");
    assert!(
        answer.err.ends_with(
            ": not from here, but from another terminal, a page, by an admin, or by the server for idle GPUs\n"
        ),
        "{answer:?}"
    );
}

#[test]
fn a_retried_run_prints_every_attempt_and_exits_as_the_last() {
    let yard = Yard::up(&FAKE);
    let script = "echo try $WARPYARD_ATTEMPT; test $WARPYARD_ATTEMPT -ge 2";
    let answer = yard.ask(&["run", "--retries", "2", "--", "sh", "-c", script]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(0), "try 1\ntry 2\n"), "{answer:?}");
}

#[test]
fn a_run_of_several_tasks_says_how_far_it_came() {
    let yard = Yard::up(&FAKE);
    let answer = yard.ask(&["run", "--array", "1-3", "--", "sh", "-c", "test %{index} -ne 2"]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(1), ""));
    let said: Vec<_> = answer.err.lines().collect();
    assert_eq!(said[0], "1 sh  3/3 done, 1 failed");
    assert!(said[1].starts_with("1 sh  failed after ") && said[1].ends_with(": 1.sh[2] exited with code 1"));
}

#[test]
fn ctrl_c_cancels_the_job_that_is_followed() {
    let yard = Yard::up(&FAKE);
    let mut run = yard.command(&["run", "--", "sh", "-c", "echo started; exec sleep 600"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n", "the log is followed from its first byte while the task runs");
    kill(Pid::from_raw(run.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let answer = Answer::of(run.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    let said = "cancelling job 1; Ctrl-C again leaves at once\n1 sh  cancelled";
    assert!(answer.err.starts_with(said) && answer.err.lines().count() == 2, "{answer:?}");
    assert_eq!(yard.json(&["show", "1"])["outcome"], "cancelled");
}

#[test]
fn the_shapes_scripts_rely_on() {
    let yard = Yard::up(&FAKE);
    assert_eq!(
        yard.json(&["submit", "--gpus", "1", "--name", "train", "--", "echo", "hello"]),
        json!({"job": "1"})
    );
    assert_eq!(yard.ask(&["wait", "1"]).code, Some(0));
    assert_eq!(yard.said(&["logs", "1"]), "hello\n");
    let job = yard.json(&["show", "last"]);
    assert_eq!((&job["job"], &job["name"], &job["state"]), (&json!("1"), &json!("train"), &json!("done")));
    let task = &job["tasks"][0];
    assert_eq!((&task["outcome"], &task["exit_code"]), (&json!("succeeded"), &json!(0)));
    assert_eq!(task["attempts"][0]["devices"].as_array().map(Vec::len), Some(1));
    let listed = yard.json(&["ps", "--all"]);
    assert_eq!(listed[0]["job"], "1");
    assert!(listed[0]["tasks"][0].get("attempts").is_none(), "{listed}");
    let gpus = yard.json(&["gpus"]);
    assert_eq!((gpus.as_array().map(Vec::len), &gpus[0]["type"]), (Some(2), &json!("V100")));
    assert_eq!(yard.json(&["history"])[0]["job"], "1");
    assert_eq!(yard.json(&["workers"])[0]["gpus"], 2);
}

#[test]
fn wait_succeeds_only_if_everything_did() {
    let yard = Yard::up(&FAKE);
    assert_eq!(yard.said(&["submit", "--", "true"]), "1\n");
    assert_eq!(yard.said(&["submit", "--after", "last:any", "--", "false"]), "2\n");
    assert_eq!(yard.ask(&["wait", "1"]).code, Some(0));
    assert_eq!(yard.ask(&["wait", "1-2"]).code, Some(1));
    assert_eq!(yard.ask(&["wait", "1", "2"]).code, Some(1));
    assert_eq!(yard.ask(&["wait", "77"]).code, Some(2));
}

#[test]
fn waiting_jobs_are_held_released_raised_and_cancelled() {
    let yard = Yard::up(&FAKE);
    yard.said(&["submit", "--gpus", "2", "--name", "hog", "--", "sleep", "600"]);
    yard.said(&["submit", "--gpus", "2", "--name", "next", "--", "true"]);
    yard.said(&["hold", "2"]);
    assert_eq!(yard.json(&["show", "2"])["held"], true);
    yard.said(&["release", "2"]);
    yard.said(&["priority", "2", "-7"]);
    assert_eq!(yard.json(&["show", "2"])["priority"], -7);
    assert!(yard.said(&["ps"]).contains("next"));
    let why = yard.said(&["why", "2"]);
    assert!(why.starts_with("2 next  ready, 1st in the queue"), "{why}");
    assert!(why.contains("needs     2 GPUs on one worker"), "{why}");
    assert!(yard.said(&["cancel", "all", "--yes"]).starts_with("cancelled 2 tasks of 2 jobs"));
    assert_eq!(yard.ask(&["wait", "1", "2"]).code, Some(1));
    yard.said(&["retry", "2", "--failed"]);
    assert_eq!(yard.ask(&["wait", "2"]).code, Some(0));
}

#[test]
fn workers_are_drained_and_resumed_and_the_policy_is_changed() {
    let yard = Yard::up(&FAKE);
    assert!(yard.said(&["drain"]).contains("is draining"));
    assert!(yard.said(&["resume"]).contains("is up"));
    yard.said(&["policy", "set", "short-first", "beta=2"]);
    let policy = yard.json(&["policy"]);
    assert_eq!((&policy["name"], &policy["active"]), (&json!("short-first"), &json!(true)));
    let wrong = yard.ask(&["policy", "set", "short-frist"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
}

#[test]
fn a_refusal_names_the_line_of_the_file() {
    let yard = Yard::up(&FAKE);
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(b"command = 'true'\ngpus = 1\ngpu_memory = '24GiB'\n").unwrap();
    let path = file.path().to_str().unwrap();
    let answer = yard.ask(&["submit", path]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.err.contains(&format!("{path}:3: gpu_memory = '24GiB'")), "{}", answer.err);
    assert!(answer.err.contains("(code: no-device-large-enough)"), "{}", answer.err);
    assert_eq!(yard.json(&["ps", "--all"]), json!([]), "nothing was half-submitted");
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let yard = Yard::up(&FAKE);
    let data = yard.data.path().to_str().unwrap();
    let second = yard.ask(&["up", "--listen", "127.0.0.1:0", "--data", data]);
    assert_eq!(second.code, Some(2));
    assert!(second.err.contains("already uses"), "{}", second.err);
}

#[test]
fn down_leaves_tasks_running_and_the_next_up_finds_them() {
    let mut yard = Yard::up(&FAKE);
    let gate = yard.data.path().join("gate");
    let script = format!("echo before; until test -e {}; do sleep 0.05; done; echo after", gate.display());
    let mut run = yard.command(&["run", "--", "sh", "-c", &script]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(run.stdout.take().unwrap());
    let mut text = String::new();
    out.read_line(&mut text).unwrap();
    let address = yard.json(&["info"])["address"].as_str().unwrap().trim_start_matches("http://").to_owned();
    assert!(yard.said(&["down"]).contains("1 running task left to go on"));
    yard.server.wait().unwrap();
    assert_eq!(yard.ask(&["ps"]).code, Some(3));
    yard.server = serve(yard.data.path(), &["--gpus", FAKE[1], "--listen", &address]);
    std::fs::write(&gate, "").unwrap();
    out.read_to_string(&mut text).unwrap();
    let job = yard.said(&["show", "1", "--json"]);
    assert_eq!(text, "before\nafter\n", "{job} the one that follows goes on where it was");
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(yard.said(&["logs", "1"]), "before\nafter\n");
}

#[test]
fn a_reader_that_left_ends_us_quietly() {
    // More than any buffer holds, so that the first write that fails is one in the middle.
    let trace = tempfile::NamedTempFile::new().unwrap();
    let path = trace.path().to_str().unwrap();
    let made = Command::new(BINARY).args(["trace", "generate", "--jobs", "3000", "--out", path]).status();
    assert!(made.unwrap().success());
    let (generate, import) = (["trace", "generate", "--jobs", "3000"], ["trace", "import", path]);
    let convert = |to| ["trace", "convert", path, "--to", to];
    for args in [
        ["schema", "job"].as_slice(),
        &["completions", "bash"],
        &["--help"],
        &["help", "sim"],
        &generate,
        &import,
        &convert("json"),
        &convert("jsonl"),
        &convert("swf"),
        &["policies"],
        &["sim", "--cluster", "1xV100", "--trace", path],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(BINARY).args(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let notes = err.lines().filter(|line| !line.starts_with("note: ")).count();
        assert_eq!((output.status.code(), notes), (Some(0), 0), "{args:?}: {err}");
    }
}

#[test]
fn without_a_server_it_says_how_to_start_one() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command.arg("ps").env("WARPYARD_DATA", data.path()).env_remove("WARPYARD_SERVER");
    let answer = Answer::of(command.output().unwrap());
    assert_eq!(answer.code, Some(3));
    assert!(answer.err.contains("start one with `warpyard up`"), "{}", answer.err);
}

/// What the binary says without any server.
fn alone(args: &[&str]) -> Answer {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command.args(args).env("WARPYARD_DATA", data.path()).env_remove("WARPYARD_SERVER").stdin(Stdio::null());
    Answer::of(command.output().unwrap())
}

#[test]
fn errors_are_json_where_answers_are() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (config, job) = (file("config.toml", "policy = 3\n"), file("job.toml", "comand = 'true'\n"));
    for (args, exit, code) in [
        (["--json", "ps"].as_slice(), 3, "no-server"),
        (&["ps", "--frob", "--json"], 2, "usage"),
        (&["--json"], 2, "usage"),
        (&["--json", "submt"], 2, "usage"),
        (&["up", "--config", &config, "--json"], 2, "bad-configuration"),
        (&["--json", "submit"], 2, "bad-request"),
        (&["--json", "submit", &job], 2, "unknown-field"),
        (&["--json", "sim", "--cluster", "x", "--generate", "1"], 2, "bad-request"),
    ] {
        let answer = alone(args);
        assert_eq!((answer.code, answer.out.as_str()), (Some(exit), ""), "{args:?}: {answer:?}");
        let error: Value =
            serde_json::from_str(&answer.err).unwrap_or_else(|e| panic!("{args:?}: {e}: {answer:?}"));
        assert_eq!(error["code"], code, "{args:?}: {error}");
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{args:?}: {error}");
        assert!(error.get("help").is_some(), "{args:?}: {error}");
    }
    let after = alone(&["ps", "--frob", "--", "--json"]);
    assert!(after.err.starts_with("error: "), "what is after -- is no option: {after:?}");
}

#[test]
fn a_configuration_that_is_none_is_drawn_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "policy = 3\n").unwrap();
    let answer = alone(&["up", "--config", path.to_str().unwrap()]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.err.contains("\n1 | policy = 3\n"), "{}", answer.err);
    assert!(!answer.err.contains("\\u{a}"), "{}", answer.err);
}

#[test]
fn a_script_where_a_job_file_should_be_is_told_how_to_run() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("train.py", "import torch\n");
    write("job", "#!/bin/sh\ntrue\n");
    for (file, command) in
        [("train.py", "python train.py"), ("job", "./job"), ("gone.py", "python gone.py"), ("gone", "gone")]
    {
        let mut submit = Command::new(BINARY);
        submit.args(["submit", file]).current_dir(dir.path()).env("WARPYARD_DATA", dir.path());
        let answer = Answer::of(submit.env_remove("WARPYARD_SERVER").output().unwrap());
        let hint = format!("warpyard submit -- {command}\n");
        assert!(answer.code == Some(2) && answer.err.ends_with(&hint), "{file}: {answer:?}");
    }
}

#[test]
fn help_is_a_command_too() {
    assert_eq!(alone(&["help"]).out, alone(&["--help"]).out);
    let help = alone(&["help", "trace", "generate"]);
    assert_eq!((help.code, help.out.contains("--jobs <N>")), (Some(0), true), "{help:?}");
    let none = alone(&["help", "submt"]);
    assert_eq!((none.code, none.err.contains("did you mean 'submit'?")), (Some(2), true), "{none:?}");
}

#[test]
fn one_gpu_of_several_can_be_looked_at() {
    let yard = Yard::up(&FAKE);
    let one = yard.json(&["gpus", "-i", "1"]);
    assert_eq!((one.as_array().map(Vec::len), &one[0]["index"]), (Some(1), &json!(1)));
    assert_eq!(yard.json(&["gpus", "--id", "0,1"]).as_array().map(Vec::len), Some(2));
    let none = yard.ask(&["gpus", "-i", "2"]);
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.err.starts_with("error: there is no GPU 2; there are "), "{none:?}");
}

#[test]
fn a_job_is_called_as_the_script_it_runs() {
    let yard = Yard::up(&FAKE);
    yard.said(&["submit", "--", "python", "/home/ann/train.py", "--lr", "1"]);
    assert_eq!(yard.json(&["show", "1"])["name"], "train");
}

fn ids(jobs: &Value) -> Vec<&str> {
    jobs.as_array().expect("a list").iter().map(|job| job["job"].as_str().expect("an id")).collect()
}

#[test]
fn ps_lists_jobs_as_they_will_run_and_with_all_the_newest_first() {
    let yard = Yard::up(&FAKE);
    yard.said(&["submit", "--", "true"]);
    assert_eq!(yard.ask(&["wait", "1"]).code, Some(0));
    yard.said(&["submit", "--gpus", "2", "--name", "hog", "--", "sleep", "600"]);
    yard.said(&["submit", "--gpus", "2", "--name", "late", "--", "true"]);
    yard.said(&["submit", "--gpus", "2", "--name", "held", "--", "true"]);
    yard.said(&["hold", "4"]);
    yard.said(&["submit", "--gpus", "2", "--name", "soon", "--priority", "5", "--", "true"]);
    assert_eq!(ids(&yard.json(&["ps"])), ["2", "5", "3", "4"], "what runs, the queue, what is held");
    assert_eq!(ids(&yard.json(&["ps", "-n", "2"])), ["2", "5"]);
    assert_eq!(ids(&yard.json(&["ps", "-a"])), ["5", "4", "3", "2", "1"]);
    assert_eq!(ids(&yard.json(&["ps", "-a", "-n", "3"])), ["5", "4", "3"]);
    assert_eq!(ids(&yard.json(&["ps", "1-3"])), ["2", "3", "1"], "what is over stands last");
}

#[test]
fn ps_selects_by_state_and_name_and_shows_the_columns_asked_for() {
    let yard = Yard::up(&FAKE);
    yard.said(&["submit", "--name", "train-a", "--", "sh", "-c", "exit 3"]);
    yard.said(&["submit", "--name", "train-b", "--", "sh", "-c", "kill -9 $$"]);
    yard.said(&["submit", "--name", "eval", "--", "true"]);
    yard.ask(&["wait", "1-3"]);
    yard.said(&["submit", "--gpus", "2", "--name", "train-c", "--", "sleep", "600"]);
    yard.said(&["submit", "--gpus", "2", "--name", "train-d", "--", "true"]);
    yard.said(&["hold", "5"]);
    assert_eq!(ids(&yard.json(&["ps", "--state", "failed"])), ["2", "1"]);
    assert_eq!(ids(&yard.json(&["ps", "--state", "succeeded"])), ["3"]);
    assert_eq!(ids(&yard.json(&["ps", "--state", "done", "-n", "1"])), ["3"]);
    assert_eq!(ids(&yard.json(&["ps", "--state", "held"])), ["5"]);
    assert_eq!(ids(&yard.json(&["ps", "--state", "running"])), ["4"]);
    assert_eq!(ids(&yard.json(&["ps", "--name", "train-*"])), ["4", "5"]);
    assert_eq!(ids(&yard.json(&["ps", "-a", "--name", "train-?"])), ["5", "4", "2", "1"]);
    let table = yard.said(&["ps", "-a", "-o", "id,exit,command", "--state", "failed"]);
    assert_eq!(table, "ID     EXIT  COMMAND\n 2  SIGKILL  sh -c kill -9 $$\n 1        3  sh -c exit 3\n");
    let listed = yard.said(&["ps", "-o", "help"]);
    assert!(listed.contains("\n  command ") && listed.contains("\n  exit "), "{listed}");
    let wrong = yard.ask(&["ps", "-o", "comand"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("did you mean 'command'?"), "{wrong:?}");
}

#[test]
fn logs_end_with_the_lines_asked_for_and_go_on_from_there() {
    let yard = Yard::up(&FAKE);
    let gate = yard.data.path().join("gate");
    let script = format!("seq 1 30000; until test -e {}; do sleep 0.05; done; echo over", gate.display());
    yard.said(&["submit", "--", "sh", "-c", &script]);
    let mut follow = yard.command(&["logs", "-f", "--tail", "2", "1"]);
    // Some of it is there once the last line is.
    while !yard.said(&["logs", "1"]).ends_with("30000\n") {}
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(follow.stdout.take().unwrap());
    let mut text = String::new();
    out.read_line(&mut text).unwrap();
    std::fs::write(&gate, "").unwrap();
    out.read_to_string(&mut text).unwrap();
    assert_eq!((follow.wait().unwrap().code(), text.as_str()), (Some(0), "29999\n30000\nover\n"));
    assert_eq!(yard.said(&["logs", "--tail", "1", "1"]), "over\n");
    let many = yard.said(&["logs", "--tail", "20001", "1"]);
    assert_eq!((many.lines().count(), many.lines().next()), (20001, Some("10001")), "more than one part");
    assert_eq!(yard.said(&["logs", "--tail", "0", "1"]), "");
    assert_eq!(yard.said(&["logs", "--tail", "99999", "1"]).lines().count(), 30001);
}

#[test]
fn the_log_of_a_whole_array_says_whose_each_line_is() {
    let yard = Yard::up(&FAKE);
    yard.said(&["submit", "--array", "1-3", "--", "sh", "-c", "echo one; printf %s two-%{index}"]);
    assert_eq!(yard.ask(&["wait", "1"]).code, Some(0));
    let all = "[1]  one\n[1]  two-1\n[2]  one\n[2]  two-2\n[3]  one\n[3]  two-3\n";
    assert_eq!(yard.said(&["logs", "1"]), all);
    assert_eq!(yard.said(&["logs", "-f", "1"]), all);
    assert_eq!(yard.said(&["logs", "--tail", "1", "1"]), "[1]  two-1\n[2]  two-2\n[3]  two-3\n");
    assert_eq!(yard.said(&["logs", "1[2]"]), "one\ntwo-2");
    let none = yard.ask(&["logs", "1", "--attempt", "7"]);
    assert!(none.code == Some(2) && none.err.contains("no task of job 1 has had an attempt 7"), "{none:?}");
    let first = yard.said(&["logs", "1", "--json"]);
    assert!(first.starts_with("{\"line\":\"one\",\"task\":\"[1]\"}\n"), "{first}");
}

#[test]
fn an_attempt_that_never_was_is_an_error() {
    let yard = Yard::up(&FAKE);
    yard.ask(&["run", "--retries", "1", "--", "sh", "-c", "echo $WARPYARD_ATTEMPT; false"]);
    assert_eq!(yard.said(&["logs", "1", "--attempt", "1"]), "1\n");
    for attempt in ["0", "3"] {
        let answer = yard.ask(&["logs", "1", "--attempt", attempt]);
        assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{answer:?}");
        let said = format!("task 1 has no attempt {attempt}: it has had 2 attempts");
        assert!(answer.err.contains(&said) && answer.err.contains("(code: unknown-attempt)"), "{answer:?}");
    }
    yard.said(&["submit", "--gpus", "2", "--", "sleep", "600"]);
    yard.said(&["submit", "--gpus", "2", "--", "true"]);
    let answer = yard.ask(&["logs", "3", "--attempt", "1"]);
    assert!(answer.code == Some(2) && answer.err.contains("it has not started yet"), "{answer:?}");
}

/// The example of a kind of file, in a file.
fn example(dir: &Path, of: &str, name: &str) -> String {
    let answer = alone(&["schema", of, "--example"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let path = dir.join(name);
    std::fs::write(&path, answer.out).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_example_is_accepted_by_the_command_that_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = |of, name| example(dir.path(), of, name);
    let instance = file("instance", "instance.json");
    assert_eq!(alone(&["allocate", "--example"]).out, std::fs::read_to_string(&instance).unwrap());
    let (workflow, machines) = (file("workflow", "workflow.json"), file("machines", "machines.toml"));
    let (cluster, trace) = (file("cluster", "cluster.toml"), file("trace", "trace.csv"));
    for args in [
        ["allocate", "--instance", &instance, "--policy", "max-min", "--check"].as_slice(),
        &["plan", &workflow, "--machines", &machines, "--algorithm", "heft"],
        &["sim", "--cluster", &cluster, "--trace", &trace],
        &["trace", "stats", &trace, "--strict"],
    ] {
        let answer = alone(args);
        assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""), "{args:?}: {answer:?}");
    }
    let yard = Yard::up(&["--config", &file("config", "config.toml"), "--gpus", FAKE[1]]);
    assert_eq!(yard.said(&["submit", &file("job", "job.toml")]), "1\n");
    assert_eq!(yard.json(&["show", "1"])["name"], "pipeline");
    let none = alone(&["schema", "openapi", "--example"]);
    assert_eq!(none.code, Some(2), "{none:?}");
}

#[test]
fn why_of_an_array_that_ended_is_about_all_of_it_and_names_the_log_to_read() {
    let yard = Yard::up(&FAKE);
    yard.said(&[
        "submit",
        "--name",
        "fit",
        "--array",
        "1-3",
        "--",
        "sh",
        "-c",
        "echo on; test %{index} -ne 2",
    ]);
    let waited = yard.ask(&["wait", "1"]);
    assert!(waited.out.ends_with(": 1.fit[2] exited with code 1\n"), "{waited:?}");
    let why = yard.said(&["why", "1"]);
    assert!(why.starts_with("1 fit  failed\n"), "{why}");
    assert!(why.contains("of 3 tasks, 2 succeeded, 1 failed; 1.fit[2] exited with code 1"), "{why}");
    for said in [why, yard.said(&["show", "1"])] {
        assert!(said.contains("(`warpyard logs 1.fit[2]` prints all):\n    on\n"), "{said}");
    }
    let one = yard.said(&["why", "1.fit[1]"]);
    assert!(one.starts_with("1 fit[1]  succeeded\n"), "{one}");
}

#[test]
fn ps_names_what_is_lacking_and_says_so_where_there_is_nothing_to_list() {
    let yard = Yard::up(&FAKE);
    assert_eq!(yard.said(&["ps"]), "no job is running or queued; `warpyard ps -a` lists finished ones too\n");
    assert_eq!(yard.json(&["ps"]), json!([]));
    yard.said(&["submit", "--gpus", "2", "--name", "hog", "--", "sleep", "600"]);
    yard.said(&["submit", "--gpus", "2", "--name", "next", "--", "true"]);
    let listed = yard.said(&["ps"]);
    assert!(listed.ends_with("  1st: both GPUs are taken\n"), "{listed}");
    assert_eq!(
        yard.said(&["ps", "--name", "x"]),
        "no such job is running or queued; -a lists finished ones too\n"
    );
}

#[test]
fn a_job_file_that_is_not_there_is_not_taken_for_a_command() {
    let answer = alone(&["submit", "gone.toml"]);
    assert_eq!(answer.code, Some(2));
    assert_eq!(
        answer.err,
        "error: no job file 'gone.toml'; `warpyard schema job --example` prints one to start from\n"
    );
}
