//! The JSON others can rely on, and the codes commands exit with.

use crate::support::{FAKE, Server, eventually, output, wait_at, warpyard};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// That an object has every one of these keys; it may have more.
#[track_caller]
fn has_keys(value: &Value, keys: &[&str]) {
    let object = value.as_object().unwrap_or_else(|| panic!("not an object: {value}"));
    for key in keys {
        assert!(object.contains_key(*key), "no {key:?} in {value}");
    }
}

const JOB: [&str; 7] = ["job", "name", "state", "user", "priority", "submitted_at", "tasks"];
const TASK: [&str; 6] = ["name", "index", "state", "outcome", "exit_code", "why"];
const ATTEMPT: [&str; 9] = [
    "number",
    "worker",
    "devices",
    "started_at",
    "ended_at",
    "outcome",
    "peak_gpu_memory_bytes",
    "peak_rss_bytes",
    "gpu_seconds",
];
const GPU: [&str; 7] = ["id", "type", "memory_bytes", "used_bytes", "free_bytes", "foreign_bytes", "tasks"];

#[test]
fn the_shapes_are_those_that_were_promised() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    assert_eq!(server.json(&["submit", "--gpus", "1", "--priority", "5", "--", "true"]), json!({"job": "1"}));
    assert_eq!(server.ask(&["wait", "1"]).code, Some(0));
    let job = server.json(&["show", "1"]);
    has_keys(&job, &JOB);
    has_keys(&job["tasks"][0], &TASK);
    has_keys(&job["tasks"][0]["attempts"][0], &ATTEMPT);
    assert_eq!((&job["state"], &job["priority"]), (&json!("done"), &json!(5)));
    let attempt = &job["tasks"][0]["attempts"][0];
    assert_eq!((&attempt["number"], &attempt["outcome"]), (&json!(1), &json!("succeeded")));

    let listed = server.json(&["ps", "--all"]);
    has_keys(&listed[0], &JOB);
    has_keys(&listed[0]["tasks"][0], &TASK);
    assert_eq!(listed[0]["tasks"][0].get("attempts"), None, "the same without attempts");
    let same = |key: &str| assert_eq!(listed[0][key], job[key], "{key}");
    JOB.iter().filter(|key| **key != "tasks").for_each(|key| same(key));
    for key in TASK {
        assert_eq!(listed[0]["tasks"][0][key], job["tasks"][0][key], "{key}");
    }

    let running = server.script(&["--gpus", "1"], &format!("echo started; {}", wait_at(&gate)));
    server.printed(&running, "started");
    let gpus = server.json(&["gpus"]);
    let total = 16u64 << 30;
    for gpu in gpus.as_array().expect("a list") {
        has_keys(gpu, &GPU);
        assert_eq!(
            (&gpu["type"], &gpu["memory_bytes"], &gpu["foreign_bytes"]),
            (&json!("V100"), &json!(total), &json!(0))
        );
    }
    let used: Vec<_> =
        gpus.as_array().unwrap().iter().map(|gpu| (&gpu["used_bytes"], &gpu["free_bytes"])).collect();
    assert!(
        used.contains(&(&json!(total), &json!(0))) && used.contains(&(&json!(0), &json!(total))),
        "{gpus}"
    );
    server.open("gate");
}

#[test]
fn every_command_answers_in_json() {
    let server = Server::up(&FAKE);
    server.submit(&["--", "true"]);
    server.json(&["wait", "last"]);
    for command in ["ps", "gpus", "workers", "policies", "policy", "history"] {
        server.json(&[command]);
    }
    for command in ["show", "why"] {
        server.json(&[command, "last"]);
    }
    server.json(&["admin", "rebuild"]);
    let run = server.ask(&["run", "--json", "--", "echo", "hello"]);
    let shown: Value = serde_json::from_str(&run.out).expect("the log goes elsewhere");
    assert_eq!((&shown["outcome"], run.err.as_str()), (&json!("succeeded"), "hello\n"));
    assert_eq!(server.said(&["logs", "--json", "last"]), "{\"line\":\"hello\"}\n");
    server.json(&["down"]);
}

#[test]
fn exit_codes_tell_who_was_at_fault() {
    let server = Server::up(&FAKE);
    let code = |args: &[&str]| server.ask(args).code;
    let good = server.submit(&["--", "true"]);
    let bad = server.submit(&["--", "false"]);
    assert_eq!(
        (code(&["wait", &good]), code(&["wait", &bad]), code(&["wait", &good, &bad])),
        (Some(0), Some(1), Some(1))
    );
    let held = server.submit(&["--after", &bad, "--", "true"]);
    assert_eq!(code(&["wait", &held]), Some(1), "skipped is not succeeded");
    let endless = server.submit(&["--", "sleep", "600"]);
    assert_eq!(code(&["wait", "--timeout", "50ms", &endless]), Some(1));
    for wrong in [
        &["show", "77"][..],
        &["submit"],
        &["sbumit", "--", "true"],
        &["policy", "set", "nonesuch"],
        &["policy", "set", "sjf", "x=1"],
    ] {
        assert_eq!(code(wrong), Some(2), "{wrong:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(output(&mut warpyard(dir.path(), &["ps"])).code, Some(3));
    assert_eq!(code(&["--server", "http://127.0.0.1:9", "ps"]), Some(3));
}

#[test]
fn the_schema_and_completions_need_no_server() {
    let dir = tempfile::tempdir().unwrap();
    let schema: Value =
        serde_json::from_str(&output(&mut warpyard(dir.path(), &["schema", "job"])).fine()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let text = schema.to_string();
    for field in
        ["gpu_memory", "gpu_scope", "wait_mode", "retry_on_timeout", "on_lost", "preempt", "array", "stdout"]
    {
        assert!(text.contains(&format!("\"{field}\":")), "{field}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&mut warpyard(dir.path(), &["completions", shell])).fine();
        assert!(script.contains("warpyard") && script.contains("COMPLETE"), "{shell}");
    }
    // The script asks us back, with the words typed so far.
    let mut half_typed = warpyard(dir.path(), &["--", "warpyard", "subm"]);
    half_typed.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "1").env("_CLAP_IFS", "\n");
    assert_eq!(output(&mut half_typed).fine().trim(), "submit");
}

#[test]
fn a_shell_is_offered_the_jobs_that_run_and_those_that_ended_last() {
    let server = Server::up(&FAKE);
    let url = std::fs::read_to_string(server.data().join("address")).unwrap();
    let token = std::fs::read_to_string(server.data().join("token")).unwrap();
    // More than are offered, ended long ago: none of them hides what came later.
    let body = r#"{"doc": {"command": ["true"]}}"#;
    let one = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        token.trim(),
        body.len()
    );
    let mut stream = TcpStream::connect(url.trim().strip_prefix("http://").unwrap()).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    for _ in 0..250 {
        stream.write_all(one.as_bytes()).unwrap();
        // The body before it has no end of line.
        let said = answers.by_ref().map(Result::unwrap).find(|line| line.contains("HTTP/1.1 "));
        assert!(said.as_ref().is_some_and(|line| line.contains(" 201 ")), "{said:?}");
    }
    let ended = server.script(&[], "exit 3");
    assert_eq!(server.outcome(&ended), "failed");
    let runs = server.script(&["--gpus", "1"], "sleep 600");
    eventually("it runs", || server.state(&runs) == "running");
    let mut shell = server.command(&["--", "warpyard", "show", "25"]);
    shell.env("COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2").env("_CLAP_IFS", "\n");
    let offered = output(&mut shell).fine();
    let offered: Vec<_> = offered.lines().collect();
    assert!(
        offered.contains(&runs.as_str()) && offered.contains(&ended.as_str()),
        "{runs} {ended}: {offered:?}"
    );
}
