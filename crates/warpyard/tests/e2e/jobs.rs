//! Jobs: arrays, graphs, jobs after jobs, running again, holding back, order, and what is refused.

use crate::support::{FAKE, Server, eventually, output, wait_at};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The outcome of each task of a job, by name.
fn outcomes(server: &Server, job: &str) -> Vec<(String, String)> {
    let shown = server.json(&["show", job]);
    let tasks = shown["tasks"].as_array().expect("tasks").iter();
    tasks.map(|task| (text(&task["name"]), text(&task["outcome"]))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[test]
fn an_array_runs_so_many_at_once_and_each_index_once() {
    let server = Server::up(&["--gpus", "none", "--cpus", "16"]);
    let gate = server.path("gate");
    let script = format!("echo started; {}; echo %{{index}} >> ran", wait_at(&gate));
    let job = server.script(&["--name", "sweep", "--array", "1-5,8%2"], &script);
    server.printed(&format!("{job}[1]"), "started");
    server.printed(&format!("{job}[2]"), "started");
    let task = &server.json(&["show", &job])["tasks"][0];
    let counts = |task: &Value| {
        ["under way", "ready", "done"].map(|state| match (state, &task["counts"]) {
            // That a process prints is known before its supervisor has told that it runs.
            ("under way", counts) => {
                counts["running"].as_u64().zip(counts["placed"].as_u64()).map_or(99, |(r, p)| r + p)
            }
            (state, counts) => counts[state].as_u64().unwrap_or(99),
        })
    };
    assert_eq!(counts(task), [2, 4, 0], "room is for 16, the array says two: {task}");
    server.open("gate");
    assert_eq!(server.outcome(&job), "succeeded");
    let mut ran: Vec<u32> = server.read("ran").lines().map(|line| line.parse().unwrap()).collect();
    ran.sort_unstable();
    assert_eq!(ran, [1, 2, 3, 4, 5, 8]);
    let folded = &server.json(&["show", &job])["tasks"];
    assert_eq!((folded.as_array().map(Vec::len), counts(&folded[0])), (Some(1), [0, 0, 6]));
    let expanded = server.json(&["show", "--expand", &job]);
    let indices: Vec<_> = expanded["tasks"].as_array().unwrap().iter().map(|task| &task["index"]).collect();
    assert_eq!(indices, [1, 2, 3, 4, 5, 8]);
}

#[test]
fn expanding_long_arrays_goes_through_every_page() {
    let server = Server::up(&["--gpus", "none"]);
    let doc = json!({"name": "long", "tasks": [
        {"name": "a", "array": "0-1499", "command": "true"}, {"name": "b", "array": "0-1499", "command": "true"}]});
    server.write("long.json", &doc.to_string());
    server.said(&["drain"]);
    let job = server.submit(&["long.json"]);
    let shown = server.json(&["show", "--expand", &job]);
    let tasks: Vec<_> =
        shown["tasks"].as_array().unwrap().iter().map(|t| (text(&t["name"]), t["index"].as_u64())).collect();
    let all = ["a", "b"].into_iter().flat_map(|name| (0..1500).map(move |i| (name.to_owned(), Some(i))));
    assert!(tasks.iter().cloned().eq(all), "{} tasks", tasks.len());
    let page = server.json(&["show", "--expand", "--page", "1000", &job]);
    assert_eq!((page["tasks"].as_array().map(Vec::len), &page["next"]), (Some(1000), &json!("2000")));
}

#[test]
fn a_graph_goes_on_by_how_things_ended() {
    let server = Server::up(&FAKE);
    let file = server.write(
        "job.toml",
        r#"
        name = "flow"
        [[tasks]]
        name = "prep"
        command = ["sh", "-c", "echo prep >> order"]
        [[tasks]]
        name = "train"
        after = ["prep"]
        gpus = 1
        command = "echo train >> order; exit 3"
        [[tasks]]
        name = "publish"
        after = ["train"]
        command = "echo publish >> order"
        [[tasks]]
        name = "mail"
        after = [{ task = "train", on = "fail" }]
        command = "echo mail >> order"
        [[tasks]]
        name = "tidy"
        after = [{ task = "train", on = "any" }, "mail"]
        command = "echo tidy >> order"
        [[tasks]]
        name = "announce"
        after = "publish"
        command = "echo announce >> order"
        "#,
    );
    let job = server.submit(&[&file]);
    assert_eq!(server.ask(&["wait", &job]).code, Some(1));
    let expected = [
        ("prep", "succeeded"),
        ("train", "failed"),
        ("publish", "skipped"),
        ("mail", "succeeded"),
        ("tidy", "succeeded"),
        ("announce", "skipped"),
    ];
    assert_eq!(outcomes(&server, &job), pairs(&expected));
    assert_eq!(server.read("order"), "prep\ntrain\nmail\ntidy\n");
    let shown = server.json(&["show", &job]);
    assert_eq!(shown["tasks"][2]["why"], "train failed", "the cause is named");
    assert_eq!(shown["tasks"][1]["exit_code"], 3);
    assert_eq!(server.said(&["logs", &format!("{job}.mail")]), "");
    assert_eq!(server.ask(&["wait", &format!("{job}.mail")]).code, Some(0), "a task can be waited for");
}

#[test]
fn a_job_can_come_after_others() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let good = server.script(&[], &format!("echo started; {}", wait_at(&gate)));
    let bad = server.script(&[], &format!("{}; exit 1", wait_at(&gate)));
    let after = |on: &str| server.submit(&["--after", on, "--", "true"]);
    let both = after(&format!("{good},{bad}"));
    let ok = after(&good);
    let fail = after(&format!("{bad}:fail"));
    let any = after(&format!("{good},{bad}:any"));
    let never = after(&format!("{good}:fail"));
    server.printed(&good, "started");
    for job in [&both, &ok, &fail, &any, &never] {
        assert_eq!(server.state(job), "blocked");
    }
    server.open("gate");
    let ended = [&both, &ok, &fail, &any, &never].map(|job| server.outcome(job));
    assert_eq!(ended, ["skipped", "succeeded", "succeeded", "succeeded", "skipped"]);
    assert_eq!(server.json(&["show", &both])["tasks"][0]["why"], format!("job {bad} failed"));
    assert_eq!(server.ask(&["submit", "--after", "77", "--", "true"]).code, Some(2), "there is no job 77");
}

#[test]
fn what_fails_is_tried_again_as_often_as_it_says() {
    let server = Server::up(&FAKE);
    let third_time = server.script(&["--retries", "2"], "echo $WARPYARD_ATTEMPT; test $WARPYARD_ATTEMPT = 3");
    assert_eq!(server.outcome(&third_time), "succeeded");
    let attempts = server.json(&["show", &third_time])["tasks"][0]["attempts"].clone();
    let said: Vec<_> =
        attempts.as_array().unwrap().iter().map(|a| (&a["number"], &a["outcome"], &a["exit_code"])).collect();
    let expected = json!([[1, "failed", 1], [2, "failed", 1], [3, "succeeded", 0]]);
    assert_eq!(json!(said), expected);
    assert_eq!(server.said(&["logs", "--attempt", "2", &third_time]), "2\n");

    let never = server.script(&["--retries", "1"], "exit 5");
    assert_eq!(server.outcome(&never), "failed");
    assert_eq!(server.json(&["show", &never])["tasks"][0]["attempts"].as_array().map(Vec::len), Some(2));

    let slow = ["--retries", "3", "--timeout", "100ms", "--grace", "5s"];
    let slow = server.submit(&[&slow[..], &["--", "sleep", "600"]].concat());
    assert_eq!(server.outcome(&slow), "timed-out", "unless it says so, not after a timeout");
    assert_eq!(server.json(&["show", &slow])["tasks"][0]["attempts"].as_array().map(Vec::len), Some(1));
}

#[test]
fn retry_runs_all_again_or_only_what_failed() {
    let server = Server::up(&FAKE);
    let file = server.write(
        "job.toml",
        r#"
        [[tasks]]
        name = "good"
        command = "echo good >> ran"
        [[tasks]]
        name = "bad"
        command = "echo bad >> ran; test -e fixed"
        [[tasks]]
        name = "next"
        after = "bad"
        command = "echo next >> ran"
        "#,
    );
    let sorted = || {
        let ran = server.read("ran");
        let mut lines: Vec<String> = ran.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        server.write("ran", "");
        lines
    };
    let job = server.submit(&[&file]);
    assert_eq!(server.outcome(&job), "failed");
    assert_eq!(sorted(), ["bad", "good"]);
    server.write("fixed", "");
    server.said(&["retry", &job, "--failed"]);
    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!(sorted(), ["bad", "next"], "just what failed, and what that had kept from running");
    server.said(&["retry", &job]);
    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!(sorted(), ["bad", "good", "next"]);
}

#[test]
fn a_retry_has_the_secrets_of_the_first_try_and_nobody_is_shown_them() {
    let mut server = Server::up(&FAKE);
    let script = "test \"$GIVEN_TOKENS $SHELL_API_KEY $DOC_PASSWORD\" = \"kept-1 kept-2 kept-3\"";
    let command = json!(["sh", "-c", script]);
    server.write("job.toml", &format!("command = {command}\nenv = {{ DOC_PASSWORD = \"kept-3\" }}\n"));
    let mut submit = server.command(&["submit", "--env", "GIVEN_TOKENS=kept-1", "job.toml"]);
    submit.env("SHELL_API_KEY", "kept-2");
    output(&mut submit).fine();
    assert_eq!(server.outcome("1"), "succeeded");
    server.end_by(Signal::SIGKILL);
    server.start();
    server.said(&["retry", "1"]);
    assert_eq!(server.outcome("1"), "succeeded", "the task has them again");
    let shown = [server.said(&["show", "1"]), server.json(&["show", "1"]).to_string()];
    assert_eq!(server.json(&["show", "1"])["tasks"][0]["attempts"].as_array().map(Vec::len), Some(2));
    for shown in shown {
        let secrets = shown.replace("= \\\"kept-1 kept-2 kept-3", "").replace("= \"kept-1 kept-2 kept-3", "");
        assert!(!secrets.contains("kept-"), "{shown}");
        for name in ["GIVEN_TOKENS", "SHELL_API_KEY", "DOC_PASSWORD"] {
            assert!(shown.contains(name), "{name}: {shown}");
        }
    }
}

#[test]
fn held_jobs_wait_and_urgent_ones_overtake() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB"]);
    let gate = server.path("gate");
    let hog = server.script(&["--gpus", "1"], &format!("echo started; {}", wait_at(&gate)));
    server.printed(&hog, "started");
    let next = |name: &str, more: &[&str]| {
        let script = format!("echo {name} >> order");
        server.script(&[&["--gpus", "1", "--name", name], more].concat(), &script)
    };
    let first = next("first", &[]);
    let held = next("held", &["--priority", "100"]);
    let negative = next("negative", &["--priority", "-5"]);
    let raised = next("raised", &[]);
    let urgent = next("urgent", &["--priority", "5"]);
    server.said(&["hold", &held]);
    server.said(&["priority", &raised, "7"]);
    assert_eq!(server.json(&["show", &raised])["priority"], 7);
    let why = server.json(&["why", &first]);
    assert_eq!((&why["state"], &why["position"]), (&json!("ready"), &json!(3)), "{why}");
    assert_eq!(why["ahead"][0]["task"], raised.as_str(), "{why}");
    server.open("gate");
    for job in [&first, &negative, &raised, &urgent] {
        assert_eq!(server.outcome(job), "succeeded");
    }
    assert_eq!(server.read("order"), "raised\nurgent\nfirst\nnegative\n");
    assert_eq!(server.json(&["show", &held])["held"], true);
    server.said(&["release", &held]);
    assert_eq!(server.outcome(&held), "succeeded");
}

#[test]
fn selectors_name_the_last_all_and_ranges() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    assert_eq!(server.ask(&["show", "last"]).code, Some(2), "there is none yet");
    assert_eq!(server.ask(&["run", "--", "false"]).code, Some(1));
    assert_eq!(server.ask(&["wait", "all"]).code, Some(0), "nothing is left to wait for");
    for _ in 0..4 {
        server.script(&["--gpus", "2"], &wait_at(&gate));
    }
    let ids = |args: &[&str]| -> Vec<String> {
        server.json(args).as_array().unwrap().iter().map(|job| text(&job["job"])).collect()
    };
    assert_eq!(ids(&["ps"]), ["2", "3", "4", "5"]);
    assert_eq!(ids(&["ps", "--all"]), ["5", "4", "3", "2", "1"], "the newest first");
    assert_eq!(ids(&["ps", "1-2,4"]), ["2", "4", "1"], "what is over stands last");
    assert_eq!(ids(&["ps", "last"]), ["5"]);
    assert_eq!(server.json(&["show", "last"])["job"], "5");
    let cancelled = server.json(&["cancel", "3-4"]);
    assert_eq!(cancelled, json!({"jobs": ["3", "4"], "tasks": 2}));
    assert_eq!(server.json(&["cancel", "all", "--yes"])["jobs"], json!(["2", "5"]));
    assert_eq!(server.ask(&["wait", "2-5"]).code, Some(1));
    assert_eq!(server.ask(&["show", "two"]).code, Some(2));
}

#[test]
fn wrong_job_files_are_refused_whole_with_the_line_and_the_right_word() {
    let server = Server::up(&["--gpus", "fake:2xV100:16GiB,1xK80:12GiB"]);
    let refused = |file: &str, text: &str, expected: &[&str]| {
        let file = server.write(file, text);
        let answer = server.ask(&["submit", &file]);
        assert_eq!(answer.code, Some(2), "{text}: {answer:?}");
        for part in expected {
            assert!(answer.err.contains(part), "{part:?} is not in\n{}", answer.err);
        }
    };
    let good = "[[tasks]]\nname = 'good'\ncommand = 'true'\n";
    let with = |more: &str| format!("{good}[[tasks]]\nname = 'other'\ncommand = 'true'\n{more}\n");
    refused(
        "a.toml",
        &with("gpu_memroy = '6GiB'"),
        &["a.toml:7:", "tasks[1].gpu_memroy", "did you mean gpu_memory", "unknown-field"],
    );
    refused("b.toml", &with("after = ['god']"), &["b.toml:7:", "tasks[1].after", "did you mean good"]);
    refused("c.toml", &with("after = 'other'"), &["c.toml:7:", "tasks[1].after"]);
    refused("d.toml", &with("gpu_memory = '-6GiB'\ngpus = 1"), &["d.toml:7:", "negative"]);
    refused("e.toml", "name = 'x'\ncommand = []\n", &["e.toml:2:", "empty-command"]);
    refused("f.toml", &with("gpus = 4"), &["f.toml:7:", "tasks[1].gpus"]);
    refused("g.toml", &with("gpus = 1\ngpu_memory = '24GiB'"), &["g.toml:8:", "no-device-large-enough"]);
    refused("h.toml", &with("gpus = 1\ngpu_type = ['A100']"), &["h.toml:8:", "tasks[1].gpu_type"]);
    refused("i.toml", &with("preempt = 'yeild'"), &["i.toml:7:", "did you mean yield"]);
    refused(
        "j.json",
        "{\"name\": \"x\",\n \"command\": \"true\",\n \"gpsu\": 1}",
        &["j.json:3:", "did you mean gpus"],
    );
    let cycle = "[[tasks]]\nname = 'a'\ncommand = 'true'\nafter = 'b'\n[[tasks]]\nname = 'b'\ncommand = 'true'\nafter = 'a'\n";
    refused("k.toml", cycle, &["k.toml:", "cycle"]);
    assert_eq!(server.json(&["ps", "--all"]), json!([]), "nothing is half-submitted");
    let answer = server.ask(&["submit", "--gpus", "4", "--", "true"]);
    assert!(answer.code == Some(2) && answer.err.contains("--gpus"), "{answer:?}");
}

#[test]
fn a_task_between_the_budget_and_the_size_of_a_gpu_runs_alone() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB", "--gpu-budget", "12GiB"]);
    let gate = server.path("gate");
    let script = format!("echo started; {}", wait_at(&gate));
    let share = |memory: &str| server.script(&["--gpus", "1", "--gpu-memory", memory], &script);
    let (one, two, three, large) = (share("6GiB"), share("6GiB"), share("6GiB"), share("14GiB"));
    server.printed(&one, "started");
    server.printed(&two, "started");
    assert_eq!((server.state(&three).as_str(), server.state(&large).as_str()), ("ready", "ready"));
    let gpu = &server.json(&["gpus"])[0];
    let tasks: Vec<_> = gpu["tasks"].as_array().unwrap().iter().map(|task| text(&task["task"])).collect();
    assert_eq!(
        (tasks, &gpu["used_bytes"], &gpu["free_bytes"]),
        (vec![one, two], &json!(12u64 << 30), &json!(0))
    );
    server.open("gate");
    assert_eq!((server.outcome(&three), server.outcome(&large)), ("succeeded".into(), "succeeded".into()));
}

#[test]
fn cancelling_all_starts_none_of_them() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let started = server.path("started");
    let script = format!("echo $WARPYARD_JOB >> {}; {}", started.display(), wait_at(&gate));
    let first = server.script(&["--gpus", "2"], &script);
    eventually("the first runs", || started.exists());
    for _ in 0..23 {
        server.script(&["--gpus", "2"], &script);
    }
    let refused = server.ask(&["cancel", "all"]);
    assert!(refused.code == Some(2) && refused.err.contains("--yes"), "nobody to ask: {refused:?}");
    assert_eq!(server.json(&["cancel", "all", "--yes"])["tasks"], 24);
    assert_eq!(server.ask(&["wait", "1-24"]).code, Some(1));
    assert_eq!(server.json(&["history"]).as_array().map(Vec::len), Some(1), "only the first ever ran");
    assert_eq!(server.outcome(&first), "cancelled");
}

#[test]
fn single_tasks_of_an_array_are_held_paused_retried_and_cancelled() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let busy = server.script(&["--gpus", "2"], &wait_at(&gate));
    eventually("both are taken", || server.state(&busy) == "running");
    let file = server.write(
        "job.toml",
        "[[tasks]]\nname = 'train'\ngpus = 1\narray = '1-9'\ncommand = 'test ! -e fail-%{index}'\n\
         [[tasks]]\nname = 'eval'\ncommand = 'true'\nafter = 'train'\n",
    );
    let job = server.submit(&[&file]);
    let tasks = |verb: &str, target: &str| server.json(&[verb, target])["tasks"].clone();
    assert_eq!(tasks("hold", &format!("{job}.train[3]")), 1);
    assert_eq!(tasks("hold", "last.train[4]"), 1);
    assert_eq!(tasks("pause", &format!("{job}.train.5")), 1, "the shell-safe form");
    assert_eq!(tasks("cancel", &format!("{job}.train[6-7]")), 2);
    let counts = server.json(&["show", &job])["counts"].clone();
    assert_eq!((&counts["ready"], &counts["done"]), (&json!(4), &json!(2)), "{counts}");
    assert_eq!(server.json(&["why", &format!("{job}.train.3")])["code"], "held");
    for wrong in ["train[12]", "train.12", "test.3"] {
        assert_eq!(server.ask(&["hold", &format!("{job}.{wrong}")]).code, Some(2), "{wrong}");
    }
    server.write("fail-8", "");
    server.open("gate");
    eventually("the others are done", || server.json(&["show", &job])["counts"]["done"] == json!(6));
    assert_eq!(tasks("release", &format!("{job}.train[3-4]")), 2);
    assert_eq!(tasks("resume", &format!("{job}.train.5")), 1);
    assert_eq!(server.outcome(&job), "failed");
    std::fs::remove_file(server.path("fail-8")).expect("it was there");
    // One task again, without those that went well; what was skipped because of it stays so while others failed.
    assert_eq!(tasks("retry", &format!("{job}.train[8]")), 1);
    assert_eq!(server.outcome(&job), "cancelled");
    assert_eq!(tasks("retry", "last.train[6-7]"), 2);
    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!(server.json(&["show", &job])["outcomes"]["succeeded"], 10, "eval ran, too");
}

#[test]
fn a_size_without_a_unit_is_refused_everywhere() {
    let server = Server::up(&FAKE);
    let refused = |args: &[&str]| {
        let answer = server.ask(args);
        assert_eq!(answer.code, Some(2), "{args:?}: {answer:?}");
        assert!(answer.err.contains("did you mean 6GiB?"), "{args:?}: {}", answer.err);
    };
    refused(&["submit", "--gpus", "1", "--gpu-memory", "6", "--", "true"]);
    refused(&["submit", "--memory", "6", "--", "true"]);
    refused(&["claim", "--gpu-memory", "6", "--", "true"]);
    let file = server.write("size.toml", "command = 'true'\ngpus = 1\ngpu_memory = 6\n");
    refused(&["submit", &file]);
    let config = server.write("config.toml", "gpu_budget = 6\n");
    refused(&["up", "--config", &config, "--data", "elsewhere"]);
}
