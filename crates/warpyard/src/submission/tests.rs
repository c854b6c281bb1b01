use super::*;
use crate::cli::{Cli, Command};
use crate::exit;
use clap::Parser;
use serde_json::json;
use std::io::Write;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::TerminalSize;

fn here() -> CallerEnvironment {
    let variables = [
        ("PATH", "/bin"),
        ("HOME", "/home/ann"),
        ("PWD", "/home/ann"),
        ("SHLVL", "2"),
        ("_", "/usr/bin/warpyard"),
        ("SSH_CONNECTION", "1 2 3 4"),
        ("WARPYARD_TOKEN", "secret"),
    ];
    CallerEnvironment {
        user: Some("ann".to_owned()),
        dir: Ok("/home/ann/project".into()),
        variables: variables.map(|(name, value)| (name.into(), value.into())).into(),
        terminal: Some(TerminalSize { rows: 50, columns: 160 }),
    }
}

fn prepare(args: &[&str]) -> anyhow::Result<Submission> {
    let all = ["warpyard", "submit"].into_iter().chain(args.iter().copied());
    let Command::Submit(submit) = Cli::try_parse_from(all)?.command else { panic!("not submit") };
    submit.request.prepare("submit", &here(), |select| {
        Ok(match select {
            "last" => vec!["9".to_owned()],
            "3-5" => vec!["3".to_owned(), "5".to_owned()],
            _ => Vec::new(),
        })
    })
}

fn refusal(args: &[&str]) -> String {
    let error = prepare(args).expect_err("a refusal");
    assert_eq!(exit::exit_code(&error), 2, "{error}");
    exit::rendered(&error)
}

fn file(ending: &str, text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().prefix("flow").suffix(ending).tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("room for it");
    file
}

#[test]
fn the_sweep_of_the_manual_becomes_its_document() {
    let args = [
        "--gpus",
        "2",
        "--gpu-memory",
        "6GiB",
        "--priority",
        "5",
        "--retries",
        "2",
        "--name",
        "sweep",
        "--array",
        "1-100%8",
        "--",
        "./t.sh",
        "%{index}",
    ];
    let submission = prepare(&args).unwrap();
    assert_eq!((submission.name.as_str(), submission.tasks), ("sweep", 100));
    let expected = json!({"name": "sweep", "priority": 5, "tasks": [{
        "name": "sweep", "command": ["./t.sh", "%{index}"], "array": "1-100%8", "gpus": 2, "gpu_memory": "6GiB",
        "retries": 2}]});
    assert_eq!(submission.submit.doc, expected);
    assert_eq!(submission.submit.user.as_deref(), Some("ann"));
    assert_eq!(submission.submit.workdir.as_deref(), Some("/home/ann/project"));
}

#[test]
fn every_option_has_its_field() {
    let args = [
        "--gpus",
        "1",
        "--gpu-type",
        "V100,A100",
        "--gpu-scope",
        "0,gpu1/1",
        "--prefer",
        "0",
        "--wait-mode",
        "queue",
        "--cpus",
        "0.5",
        "--memory",
        "2GiB",
        "--timeout",
        "10m",
        "--grace",
        "5s",
        "--expected",
        "1m",
        "--retry-on-timeout",
        "--on-lost",
        "hold",
        "--preempt",
        "freeze",
        "--project",
        "vision",
        "--stdout",
        "o",
        "--stderr",
        "e",
        "--priority",
        "-3",
        "--",
        "true",
    ];
    let expected = json!({"name": "true", "priority": -3, "project": "vision", "tasks": [{
        "name": "true", "command": ["true"], "gpus": 1, "gpu_type": ["V100", "A100"], "gpu_scope": [0, "gpu1/1"],
        "gpu_preferred": [0], "wait_mode": "queue", "cpus": 0.5, "memory": "2GiB", "timeout": "10m", "grace": "5s",
        "expected": "1m", "retry_on_timeout": true, "on_lost": "hold", "preempt": "freeze", "stdout": "o",
        "stderr": "e"}]});
    assert_eq!(prepare(&args).unwrap().submit.doc, expected);
}

#[test]
fn the_environment_goes_along_without_the_session_and_never_with_the_token() {
    let names = |args: &[&str]| prepare(args).unwrap().submit.env.into_keys().collect::<Vec<_>>();
    assert_eq!(names(&["--", "true"]), ["HOME", "PATH"]);
    assert_eq!(names(&["--no-env", "--env", "A=1=2", "--env", "HOME", "--", "true"]), ["A", "HOME"]);
    let submission = prepare(&["--env", "PATH=/opt", "--", "true"]).unwrap();
    assert_eq!(submission.submit.env["PATH"], "/opt");
    assert_eq!(
        refusal(&["--env", "WARPYARD_TOKEN", "--", "true"]),
        "error: --env: WARPYARD_TOKEN is not set here; write WARPYARD_TOKEN=value\n"
    );
    assert!(refusal(&["--env", "=x", "--", "true"]).contains("is not a variable"));
}

#[test]
fn dependencies_on_other_jobs() {
    let after = |args: &[&str]| prepare(args).unwrap().submit.doc["after"].clone();
    assert_eq!(
        after(&["--after", "7,8", "--", "true"]),
        json!([{"job": "7", "on": "ok"}, {"job": "8", "on": "ok"}])
    );
    assert_eq!(
        after(&["--after", "last:any", "--after", "3-5:fail", "--", "true"]),
        json!([{"job": "9", "on": "any"}, {"job": "3", "on": "fail"}, {"job": "5", "on": "fail"}])
    );
    assert!(refusal(&["--after", "7:never", "--", "true"]).contains("is not a dependency"));
    assert!(refusal(&["--after", "7.train", "--", "true"]).contains("is not a dependency"));
    assert!(refusal(&["--after", "40-41", "--", "true"]).contains("selects no job"));
}

#[test]
fn a_directory_is_named_as_seen_from_anywhere() {
    let workdir = |dir: &str| prepare(&["--workdir", dir, "--", "true"]).unwrap().submit.workdir.unwrap();
    assert_eq!(workdir("runs"), "/home/ann/project/runs");
    assert_eq!(workdir("/data"), "/data");
}

#[test]
fn a_file_is_a_job_named_after_it_and_its_job_can_be_changed() {
    let file = file(
        ".toml",
        "[[tasks]]\nname = 'a'\ncommand = 'true'\n[[tasks]]\nname = 'b'\narray = '1-3'\n\
        command = 'true'\nafter = 'a'\n",
    );
    let path = file.path().to_str().unwrap();
    let submission = prepare(&[path, "--priority", "2", "--after", "7"]).unwrap();
    assert!(submission.name.starts_with("flow"), "{}", submission.name);
    assert_eq!(submission.tasks, 4);
    assert_eq!(submission.submit.doc["priority"], 2);
    assert_eq!(submission.submit.doc["after"], json!([{"job": "7", "on": "ok"}]));
    assert_eq!(
        refusal(&[path, "--gpus", "1"]),
        "error: --gpus cannot be combined with a job file; set it in the file, in the task it is for\n"
    );
}

#[test]
fn a_wrong_file_is_told_with_its_lines() {
    let file = file(
        ".toml",
        "name = 'x'\n[[tasks]]\nname = 'a'\ncommand = 'true'\ngpu_memroy = '6GiB'\ncpus = -1\n",
    );
    let path = file.path().to_str().unwrap();
    insta::assert_snapshot!(refusal(&[path]).replace(path, "job.toml"), @"
    error: tasks[0].gpu_memroy: no such field
      job.toml:5: gpu_memroy = '6GiB'
      help: did you mean gpu_memory?        (code: unknown-field)
    error: tasks[0].cpus: '-1' is negative
      job.toml:6: cpus = -1
      (code: negative)
    ");
}

#[test]
fn wrong_options_are_told_by_their_names() {
    insta::assert_snapshot!([
        refusal(&["--gpu-memory", "6GiB", "--", "true"]),
        refusal(&["--gpus", "1", "--timeout", "10", "--array", "5-1", "--", "true"]),
        refusal(&["--", ""]),
        refusal(&[]),
        refusal(&["job.toml", "--", "true"]),
        refusal(&["./no-such-program"]),
    ].concat(), @r#"
    error: --gpu-memory: the task asks for no GPU
      help: add --gpus 1        (code: gpus-not-asked)
    error: --array: the range '5-1' ends before it starts
      help: write ranges and, after %, the most at once: 1-100%8, 0-9:2, 1,3,5-7        (code: bad-array)
    error: --timeout: '10' has no unit
      help: say the unit: "10s" is seconds, "10m" minutes        (code: bad-duration)
    error: the command: there is nothing to run
      help: write the program and its arguments: ["python", "train.py"]        (code: empty-command)
    error: nothing to submit; name a job file, or write a command after --
    error: both a job file ('job.toml') and a command; submit one of them
    error: no job file './no-such-program'; to run it as a command: warpyard submit -- ./no-such-program
    "#);
}

#[test]
fn what_the_server_refuses_is_told_where_it_was_written() {
    let refused = |origin: &Origin| {
        let problem = Problem::new(
            code::NO_DEVICE_LARGE_ENOUGH,
            "tasks[0].gpu_memory",
            "24 GiB is more than any GPU \
            here has (largest: V100 16 GiB on gpu1)",
        )
        .with_help("lower it; `warpyard gpus` lists them");
        exit::rendered(&origin.refusal(vec![problem]).into())
    };
    let of_file = prepare(&[file(".toml", "command = 'true'\ngpus = 1\ngpu_memory = '24GiB'\n")
        .path()
        .to_str()
        .unwrap()]);
    let Origin::File { text, .. } = of_file.unwrap().origin else { panic!("not a file") };
    let of_file = Origin::File { name: "job.toml".to_owned(), text };
    let of_options = prepare(&["--gpus", "1", "--gpu-memory", "24GiB", "--", "true"]).unwrap().origin;
    insta::assert_snapshot!(refused(&of_file) + &refused(&of_options), @"
    error: tasks[0].gpu_memory: 24 GiB is more than any GPU here has (largest: V100 16 GiB on gpu1)
      job.toml:3: gpu_memory = '24GiB'
      help: lower it; `warpyard gpus` lists them        (code: no-device-large-enough)
    error: --gpu-memory: 24 GiB is more than any GPU here has (largest: V100 16 GiB on gpu1)
      help: lower it; `warpyard gpus` lists them        (code: no-device-large-enough)
    ");
}
