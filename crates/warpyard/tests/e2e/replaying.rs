//! `replay`: a server's own history, simulated again beside it.

use crate::support::Server;
use serde_json::Value;

/// Short sleeps on two GPUs: more than fit, so that the policy decides who is next.
fn sleeps(server: &Server, lengths: &[&str]) -> Vec<String> {
    let submit = |seconds: &&str| {
        server.submit(&[
            "--gpus",
            "1",
            "--timeout",
            &format!("{seconds}s"),
            "--",
            "sleep",
            &format!("{}", seconds.parse::<f64>().unwrap() / 20.0),
        ])
    };
    lengths.iter().map(submit).collect()
}

#[test]
fn the_history_of_a_running_server_is_reproduced_and_another_policy_compared() {
    let server = Server::up(&["--gpus", "fake:2xV100:16GiB", "--policy", "fifo"]);
    let mut jobs = sleeps(&server, &["4", "9", "3", "8", "2", "5", "1", "2"]);
    server.said(&["policy", "set", "sjf"]);
    jobs.extend(sleeps(&server, &["9", "2", "6", "1", "3"]));
    let held = server.submit(&["--gpus", "1", "--", "sleep", "0.1"]);
    server.said(&["hold", &held]);
    for job in &jobs {
        assert_eq!(server.outcome(job), "succeeded");
    }
    server.said(&["release", &held]);
    assert_eq!(server.outcome(&held), "succeeded");

    let answer = server.json(&["replay", "--policy", "short-first,wsjf"]);
    let agreement = &answer["agreement"];
    assert_eq!(agreement["starts"], 14, "{answer}");
    assert_eq!(agreement["same_order"], 1.0, "{agreement}");
    assert_eq!(agreement["max_start_error_s"], 0.0, "{agreement}");
    assert_eq!(answer["recording"]["told"]["policy_changes"], serde_json::json!(["fifo", "sjf"]), "{answer}");
    let names: Vec<&Value> = answer["replays"].as_array().unwrap().iter().map(|row| &row["policy"]).collect();
    assert_eq!(names, ["as it ran", "short-first", "wsjf"]);
    assert_eq!(answer["replays"][0]["average_completion_s"], answer["recorded"]["average_completion_s"]);
    for row in answer["replays"].as_array().unwrap() {
        assert_eq!((&row["jobs"], &row["finished"]), (&14.into(), &14.into()), "{row}");
    }
    let said = server.said(&["replay"]);
    assert!(
        said.contains("accuracy: with the policy that ran, all of 14 starts are in the recorded order"),
        "{said}"
    );
    assert!(said.contains("then fifo, sjf"), "{said}");

    let data = server.data().to_str().unwrap();
    let stats = server.json(&["trace", "stats", data]);
    assert_eq!((&stats["jobs"], &stats["gpus"]["1"]), (&14.into(), &14.into()), "{stats}");
    let trace = server.path("own.csv");
    server.said(&["trace", "import", "--format", "warpyard", data, "--out", trace.to_str().unwrap()]);
    let simulated = server.json(&["sim", "--cluster", "2xV100", "--trace", trace.to_str().unwrap()]);
    assert_eq!(simulated["finished"], 14, "{simulated}");

    let refused = server.ask(&["replay", "--since", "2100-01-01T00:00:00Z"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let refused = server.ask(&["replay", "--policy", "sfj"]);
    assert!(refused.code == Some(2) && refused.err.contains("did you mean 'sjf'?"), "{refused:?}");
}
