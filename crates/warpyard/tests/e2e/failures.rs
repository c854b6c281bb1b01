//! A failure explains itself wherever it is told: in `run`, `why`, `show`, `ps` and `history`.

use crate::support::{FAKE, Server, wait_at};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// How the last attempt of a job ended, in words.
fn how(server: &Server, job: &str) -> String {
    let shown = server.json(&["show", job]);
    shown["tasks"][0]["why"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_run_that_fails_says_so_in_one_line() {
    let server = Server::up(&FAKE);
    let failed = server.ask(&["run", "--", "false"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.err.starts_with("1 false  failed after "), "{failed:?}");
    assert!(failed.err.ends_with(": exited with code 1\n") && failed.err.lines().count() == 1, "{failed:?}");
    assert_eq!(server.ask(&["run", "--", "true"]).err, "", "success needs no words");
}

#[test]
fn what_could_not_be_run_is_told_apart() {
    let server = Server::up(&FAKE);
    let script = |name: &str, text: &str, mode: u32| {
        let path = server.write(name, text);
        fs::set_permissions(server.path(name), fs::Permissions::from_mode(mode)).unwrap();
        assert!(server.path(name).exists(), "{path}");
        server.path(name).display().to_string()
    };
    let plain = script("plain", "echo no\n", 0o644);
    let homeless = script("homeless", "#!/no/such/interpreter\n", 0o755);
    for (program, said) in [
        (
            "no-such-command",
            "did not start: command not found: no-such-command is in no directory of its PATH",
        ),
        ("/no/such/program", "did not start: /no/such/program does not exist"),
        (plain.as_str(), "is not executable"),
        (homeless.as_str(), "the interpreter that it names in its first line"),
    ] {
        let job = server.submit(&["--", program]);
        assert_eq!(server.outcome(&job), "failed");
        let told = how(&server, &job);
        assert!(told.contains(said), "{program}: {told}");
    }
    let job = server.submit(&["--workdir", "/no/such/directory", "--", "true"]);
    server.outcome(&job);
    assert_eq!(how(&server, &job), "did not start: its working directory /no/such/directory does not exist");
    let shell = server.script(&[], "no-such-command");
    server.outcome(&shell);
    assert_eq!(how(&server, &shell), "exited with code 127: the command was not found");
}

#[test]
fn an_end_is_told_in_the_same_words_everywhere() {
    let server = Server::up(&FAKE);
    let job = server.script(&[], "printf 'one\\ntwo \\033[2J\\n'; kill -SEGV $$");
    assert_eq!(server.outcome(&job), "failed");
    let words = "crashed with SIGSEGV (signal 11): a segmentation fault";
    let why = server.said(&["why", &job]);
    assert!(why.contains("failed\n") && why.contains(words), "{why}");
    assert!(why.contains("\n    one\n    two \\u{1b}[2J\n"), "its last lines, harmless: {why}");
    for told in [&["show", &job][..], &["ps", "-a"], &["history"]] {
        let said = server.said(told);
        assert!(said.contains(words), "{told:?}: {said}");
    }
    let late = server.submit(&["--timeout", "100ms", "--grace", "100ms", "--", "sleep", "600"]);
    assert_eq!(server.outcome(&late), "timed-out");
    assert!(
        server.said(&["why", &late]).contains("timed out after 100ms"),
        "{}",
        server.said(&["why", &late])
    );
    let fine = server.script(&[], "true");
    server.outcome(&fine);
    assert!(server.said(&["why", &fine]).contains("succeeded"), "{}", server.said(&["why", &fine]));
}

#[test]
fn failures_of_an_array_are_counted_with_the_most_common_reason_and_an_example() {
    let server = Server::up(&FAKE);
    let script = "case $WARPYARD_ARRAY_INDEX in 3|5) exit 4;; 7) exit 9;; esac";
    let job = server.script(&["--name", "sweep", "--array", "1-8"], script);
    assert_eq!(server.outcome(&job), "failed");
    let words = format!("2 of 3 failures: exited with code 4, for example {job}.sweep[3]");
    let why = server.said(&["why", &job]);
    assert!(why.contains("of 8 tasks, 5 succeeded, 3 failed") && why.contains(&words), "{why}");
    for told in [&["show", &job][..], &["ps", "-a"]] {
        let said = server.said(told);
        assert!(said.contains(&words), "{told:?}: {said}");
    }
}

#[test]
fn a_job_shows_what_it_needs_its_time_left_its_retries_and_its_deadline() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let options =
        ["--gpus", "1", "--gpu-memory", "2GiB", "--timeout", "2h", "--retries", "2", "--deadline", "3h"];
    let job = server.script(&options, &format!("echo started; {}", wait_at(&gate)));
    server.printed(&job, "started");
    let shown = server.said(&["show", &job]);
    for line in ["needs      1 GPU with 2 GiB", "timeout    2h 00m, ", "retries    2, 0 used", "(in "] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let left = server.json(&["show", &job])["tasks"][0]["time_left_seconds"].as_f64().expect("time left");
    assert!((7_000.0..7_200.0).contains(&left), "{left}");
    server.open("gate");
    assert_eq!(server.outcome(&job), "succeeded");
    assert!(server.said(&["show", &job]).contains("(met)"), "{}", server.said(&["show", &job]));
    let late = server.script(&["--deadline", "1ms"], "true");
    server.outcome(&late);
    assert!(server.said(&["show", &late]).contains("(missed by "), "{}", server.said(&["show", &late]));
}

#[test]
fn a_start_behind_a_task_without_a_time_limit_is_unknown_and_says_why() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB"]);
    let gate = server.path("gate");
    let endless = server.script(&["--gpus", "1"], &format!("echo started; {}", wait_at(&gate)));
    server.printed(&endless, "started");
    let waits = server.script(&["--gpus", "1"], "true");
    let why = server.json(&["why", &waits]);
    assert_eq!(why["expected_start"], serde_json::Value::Null);
    let reason = why["expected_start_reason"].as_str().expect("a reason");
    let said = format!(
        "unknown: a task ahead states no time limit and has no comparable earlier runs: {endless} (running for "
    );
    assert!(reason.starts_with(&said), "{reason}");
    for told in [&["why", &waits][..], &["show", &waits]] {
        assert!(server.said(told).contains(&said), "{}", server.said(told));
    }
    assert!(server.said(&["ps"]).contains("unknown"), "{}", server.said(&["ps"]));
    server.open("gate");
    assert_eq!(server.outcome(&waits), "succeeded");
}

#[test]
fn a_priority_is_said_to_be_set_where_it_is() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let job = server.script(&[], &format!("echo started; {}", wait_at(&gate)));
    server.printed(&job, "started");
    let said = server.said(&["priority", &job, "5"]);
    assert_eq!(said, format!("set priority 5 for job {job}; none of its tasks waits now\n"));
    assert_eq!(server.json(&["show", &job])["priority"], 5);
    server.open("gate");
}
