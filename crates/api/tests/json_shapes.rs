//! The JSON others rely on, word for word: a change here breaks someone's script.

use serde_json::json;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::*;

fn moment(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_794_775_520_000 + seconds * 1000).expect("a moment of this century")
}

fn attempt() -> AttemptView {
    AttemptView {
        number: 1,
        worker: "gpu1".into(),
        devices: vec!["gpu1/0".into()],
        started_at: Some(moment(1)),
        ended_at: Some(moment(61)),
        outcome: Some(Outcome::TimedOut),
        reason: None,
        why: None,
        exit_code: None,
        signal: Some(15),
        peak_gpu_memory_bytes: Some(1 << 30),
        peak_rss_bytes: Some(1 << 20),
        cpu_seconds: Some(58.5),
        gpu_seconds: 60.0,
    }
}

fn job() -> JobView {
    JobView {
        job: "412".into(),
        name: "train".into(),
        state: State::Running,
        outcome: None,
        user: "ann".into(),
        priority: -3,
        project: None,
        held: false,
        submitted_at: moment(0),
        started_at: Some(moment(1)),
        ended_at: None,
        gpus: 1,
        counts: StateCounts { ready: 62, running: 1, done: 38, ..StateCounts::default() },
        outcomes: OutcomeCounts { succeeded: 37, timed_out: 1, ..OutcomeCounts::default() },
        position: None,
        expected_start: None,
        expected_start_reason: None,
        deadline: None,
        deadline_missed: None,
        log_tail: vec![],
        log_of: None,
        why: None,
        over_request: vec![],
        notes: vec![],
        snapshot: None,
        runs: vec![],
        tasks: vec![
            TaskView {
                name: "prep".into(),
                index: None,
                state: State::Done,
                outcome: Some(Outcome::TimedOut),
                exit_code: None,
                signal: Some(15),
                reason: None,
                attempts: Some(vec![attempt()]),
                why: Some("ran into its timeout of 1m".into()),
                array: None,
                counts: None,
                outcomes: None,
                terminal: None,
                needs: None,
                timeout_seconds: None,
                time_left_seconds: None,
                retries: None,
            },
            TaskView {
                name: "sweep".into(),
                index: None,
                state: State::Running,
                outcome: None,
                exit_code: None,
                signal: None,
                reason: None,
                attempts: None,
                why: None,
                array: Some("1-100%8".parse().expect("indices")),
                counts: Some(StateCounts { ready: 62, running: 1, done: 37, ..StateCounts::default() }),
                outcomes: Some(OutcomeCounts { succeeded: 37, ..OutcomeCounts::default() }),
                terminal: None,
                needs: None,
                timeout_seconds: None,
                time_left_seconds: None,
                retries: None,
            },
        ],
        next: None,
    }
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("JSON")
}

#[test]
fn a_job_with_its_tasks_and_attempts() {
    insta::assert_snapshot!("job", pretty(&job()));
    assert_eq!(serde_json::from_str::<JobView>(&pretty(&job())).expect("the same"), job());
}

#[test]
fn a_submitted_job_is_its_id_alone() {
    let submitted = SubmitReply { job: "412".into(), warnings: Vec::new() };
    assert_eq!(serde_json::to_value(&submitted).unwrap(), json!({"job": "412"}));
}

#[test]
fn a_gpu_has_the_promised_fields() {
    let gpu = GpuView {
        id: "gpu1/0".into(),
        kind: "V100".into(),
        memory_bytes: 16 << 30,
        used_bytes: 7 << 30,
        free_bytes: 9 << 30,
        foreign_bytes: 0,
        foreign: vec![],
        tasks: vec![GpuTask {
            task: "412.train".into(),
            user: "ann".into(),
            memory_bytes: 7 << 30,
            requested_bytes: None,
            name: None,
            since: None,
            note: None,
        }],
        worker: "gpu1".into(),
        index: 0,
        uuid: None,
        budget_bytes: 16 << 30,
        max_tasks: None,
        utilisation_percent: Some(75),
        power_watts: None,
        temperature_celsius: Some(65),
        unavailable: None,
    };
    insta::assert_snapshot!("gpu", pretty(&gpu));
}

#[test]
fn why_says_it_in_words_and_figures() {
    let why = WhyView {
        job: "412".into(),
        task: "train".into(),
        index: None,
        state: State::Ready,
        outcome: None,
        text: vec!["412 train  ready for 3m 12s, 4th in line".into()],
        code: None,
        needs: Needs {
            gpus: 2,
            gpu_memory_bytes: Some(10 << 30),
            gpu_type: Vec::new(),
            cpus: "1.5".parse().expect("CPUs"),
            memory_bytes: 0,
            on: Vec::new(),
            estimate: None,
        },
        free: vec![FreeDevice {
            device: "gpu1/0".into(),
            kind: "V100".into(),
            free_bytes: 16 << 30,
            whole: true,
        }],
        ahead: vec![TaskAhead {
            task: "398".into(),
            user: "ann".into(),
            priority: 5,
            because: "priority 5".into(),
        }],
        position: Some(4),
        expected_start: Some(StartRange { low: moment(60), high: moment(960), of: 0.8, as_of: None }),
        expected_start_reason: None,
        sooner: vec![Suggestion {
            change: "--gpu-memory 9GiB".into(),
            effect: "would start now on gpu2".into(),
        }],
        log_tail: vec![],
        log_of: None,
    };
    insta::assert_snapshot!("why", pretty(&why));
    assert_eq!(serde_json::from_str::<WhyView>(&pretty(&why)).expect("the same"), why);
}

#[test]
fn a_refusal_lists_every_problem() {
    let problem =
        |path: &str| Problem::new(code::UNKNOWN_FIELD, path, "no such field").with_help("did you mean gpus?");
    let body = ProblemBody::of_problems(422, vec![problem("tasks[0].gpu"), problem("tasks[1].gpu")]);
    insta::assert_snapshot!("refusal", pretty(&body));
    assert_eq!(serde_json::from_str::<ProblemBody>(&pretty(&body)).expect("the same"), body);
}

#[test]
fn the_words_of_states_and_outcomes_are_their_json() {
    for state in State::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        let mut counts = StateCounts::default();
        *counts.of(state) = 1;
        assert_eq!(
            (serde_json::to_value(counts).unwrap()[state.word()].as_u64(), counts.total()),
            (Some(1), 1)
        );
    }
    for outcome in Outcome::ALL {
        assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.word());
        let mut counts = OutcomeCounts::default();
        *counts.of(outcome) = 1;
        assert_eq!(
            (serde_json::to_value(counts).unwrap()[outcome.word()].as_u64(), counts.total()),
            (Some(1), 1)
        );
    }
}
