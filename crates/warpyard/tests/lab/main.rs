//! The commands that need no server, by the real binary: what is printed, in the form scripts rely on, and what is
//! exited with.

mod hostile;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_warpyard");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

#[derive(Debug)]
struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The request was wrong, and what is said of it has all of these in it.
    #[track_caller]
    fn refused(&self, with: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        assert!(self.err.starts_with("error: "), "{self:?}");
        for part in with {
            assert!(self.err.contains(part), "{part:?} in {}", self.err);
        }
    }
}

fn ask(args: &[&str]) -> Answer {
    let output = Command::new(BINARY).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Answer { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A directory with these files in it.
fn files<const N: usize>(of: [(&str, &str); N]) -> (tempfile::TempDir, [String; N]) {
    let dir = tempfile::tempdir().expect("a directory");
    let paths = of.map(|(name, text)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    });
    (dir, paths)
}

/// A file of the shared data, if it is here.
fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(DATA).join(path);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not here", path.display());
    }
    path.exists().then_some(path)
}

/// Two tasks on unlike machines: the second is far cheaper on the other one.
const TWO: &str = r#"{"costs": [[3, 5], [4, 1]], "edges": [[0, 1, 2]]}"#;

mod plan {
    use super::*;

    #[test]
    fn a_plan_has_the_shape_scripts_rely_on() {
        let (_dir, [file]) = files([("two.json", TWO)]);
        let plan = ask(&["plan", &file, "--algorithm", "heft", "--json"]).json();
        let mut wanted =
            ["algorithm", "winner", "makespan", "mean_turnaround", "lower_bound", "seconds", "schedule"];
        wanted.sort_unstable();
        let mut found = keys(&plan);
        found.sort_unstable();
        assert_eq!(found, wanted);
        assert_eq!((&plan["algorithm"], &plan["winner"]), (&json!("heft"), &json!("heft")));
        assert_eq!(plan["makespan"], json!(6), "whole costs give whole times");
        assert_eq!(
            plan["schedule"],
            json!([{"task": 0, "machine": 0, "start": 0, "finish": 3},
                   {"task": 1, "machine": 1, "start": 5, "finish": 6}])
        );
        let bound = plan["lower_bound"].as_f64().unwrap();
        assert!(bound > 0.0 && bound <= 6.0, "{bound}");
    }

    #[test]
    fn the_textbook_example_takes_80() {
        let Some(path) = shared("dag/heft_topcuoglu.json") else { return };
        let book: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let edges: Vec<Value> = book["edges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| {
                let of = |key: &str| e[key].as_u64().expect("a number");
                json!([of("from") - 1, of("to") - 1, of("comm")])
            })
            .collect();
        let text = json!({"costs": book["comp_cost"], "edges": edges}).to_string();
        let (_dir, [file]) = files([("book.json", &text)]);
        assert_eq!(ask(&["plan", &file, "--algorithm", "heft", "--json"]).json()["makespan"], 80);
        let best = ask(&["plan", &file, "--iterations", "300", "--json"]).json();
        let makespan = best["makespan"].as_u64().unwrap();
        assert!((73..=80).contains(&makespan), "between the optimum and heft: {makespan}");
        assert_ne!(best["winner"], "best", "the member that won is named");
    }

    #[test]
    fn a_generated_workflow_is_the_same_for_the_same_seed() {
        let ask = |seed| {
            let args = ["plan", "--generate", "60x4", "--seed", seed, "--iterations", "40", "--json"];
            let mut plan = super::ask(&args).json();
            plan["seconds"] = Value::Null;
            plan
        };
        assert_eq!(ask("3"), ask("3"));
        assert_ne!(ask("3")["schedule"], ask("4")["schedule"]);
    }

    #[test]
    fn planners_are_compared_in_one_table() {
        let args = ["plan", "--generate", "30x3", "--compare", "all", "--iterations", "20"];
        let table = ask(&args).out;
        assert!(table.starts_with("ALGORITHM"), "{table}");
        assert_eq!(table.lines().count(), 1 + warpyard_dag::algorithm::ALGORITHMS.len(), "{table}");
        let rows = ask(&["plan", "--generate", "30x3", "--compare", "heft, peft", "--json"]).json();
        assert_eq!((&rows[0]["algorithm"], &rows[1]["algorithm"]), (&json!("heft"), &json!("peft")));
        assert_eq!(rows[0]["lower_bound"], rows[1]["lower_bound"]);
    }

    #[test]
    fn every_format_is_read_and_named_tasks_keep_their_names() {
        let (dir, [dot, stg, machines]) = files([
            ("w.dot", "digraph { load [work=4]; fit [work=8]; load -> fit [data=1]; }"),
            ("w.stg", "2\n0 0 0\n1 3 1 0\n2 4 1 1\n3 0 1 2\n"),
            ("m.toml", "[[machine]]\nname = \"a100\"\nspeed = 2.0\n[[machine]]\nname = \"k80\"\n"),
        ]);
        let svg = dir.path().join("g.svg");
        let args = ["plan", &dot, "--machines", &machines, "--algorithm", "heft"];
        let plan = ask(&[&args[..], &["--gantt", svg.to_str().unwrap(), "--json"]].concat()).json();
        assert_eq!(plan["makespan"], json!(6));
        assert_eq!(plan["schedule"][1]["task_name"], "fit");
        assert_eq!(plan["schedule"][1]["machine_name"], "a100");
        assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
        let stg = ask(&["plan", &stg, "--machines", "2", "--algorithm", "heft", "--json"]).json();
        assert_eq!(stg["makespan"], json!(7));
        let said = ask(&args).out;
        assert!(said.contains("makespan         6"), "{said}");
    }

    #[test]
    fn what_cannot_be_planned_is_said_and_exits_with_2() {
        let (_dir, [two, circle, text, alone]) = files([
            ("two.json", TWO),
            ("circle.json", r#"{"costs": [[1], [1]], "edges": [[0, 1, 0], [1, 0, 0]]}"#),
            ("text.json", "{\"costs\": [[1, \"two\"]]}"),
            ("alone.dot", "digraph { a [work=1]; }"),
        ]);
        ask(&["plan", &two, "--algorithm", "hetf"]).refused(&["'hetf'", "did you mean 'heft'?", "cpop"]);
        ask(&["plan", &circle]).refused(&["circle.json", "0 -> 1"]);
        ask(&["plan", &text]).refused(&["text.json", "line 1"]);
        ask(&["plan", &alone]).refused(&["alone.dot", "--machines"]);
        ask(&["plan", "/no/such/file.json"]).refused(&["cannot read /no/such/file.json"]);
        ask(&["plan"]).refused(&["<WORKFLOW>"]);
        ask(&["plan", "--generate", "10"]).refused(&["--generate", "1000x8"]);
        ask(&["plan", &two, "--ccr", "50"]).refused(&["--ccr goes with --generate"]);
        let help = ask(&["plan", "--help"]).out;
        assert!(warpyard_dag::algorithm::ALGORITHMS.iter().all(|a| help.contains(a.summary)), "{help}");
    }
}

mod allocate {
    use super::*;

    /// The worked example: one GPU of each of two types, three jobs.
    const SLIDE: &str = r#"{"worker_types": ["v100", "k80"], "num_workers": [1, 1], "jobs": [
        {"id": 0, "throughputs": [40, 10]}, {"id": 1, "throughputs": [12, 4]}, {"id": 2, "throughputs": [100, 50]}]}"#;

    #[test]
    fn an_allocation_has_the_shape_scripts_rely_on() {
        let (_dir, [file]) = files([("slide.json", SLIDE)]);
        let found = ask(&["allocate", "--instance", &file, "--policy", "max-min", "--json"]).json();
        let mut wanted = ["policy", "objective", "allocation", "normalised", "prices", "seconds"];
        wanted.sort_unstable();
        assert_eq!(keys(&found), wanted);
        let shares: Vec<Vec<f64>> = serde_json::from_value(found["allocation"].clone()).unwrap();
        for (row, near) in shares.iter().zip([[0.45, 0.0], [0.45, 0.09], [0.09, 0.91]]) {
            assert!(row.iter().zip(near).all(|(x, y)| (x - y).abs() < 0.01), "{shares:?}");
        }
        let objective = found["objective"].as_f64().unwrap();
        let normalised: Vec<f64> = serde_json::from_value(found["normalised"].clone()).unwrap();
        let least = normalised.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((objective - least).abs() < 1e-9, "{objective} {normalised:?}");
    }

    #[test]
    fn every_goal_stands_up_to_checking_and_says_so() {
        let (_dir, [file]) = files([("full.json", &full())]);
        for goal in warpyard_allocate::GOALS {
            let args = ["allocate", "--instance", &file, "--policy", goal.name, "--check"];
            let check = ask(&[&args[..], &["--json"]].concat()).json()["check"].clone();
            assert_eq!(check["feasible"], true, "{}: {check}", goal.name);
            let said = ask(&args).out;
            assert!(said.starts_with(goal.name) && said.contains("the shares fit"), "{said}");
        }
        let said = ask(&["allocate", "--instance", &file, "--policy", "max-min", "--types", "blind"]).out;
        assert!(said.contains("would raise everyone by up to"), "{said}");
    }

    /// An instance with all that any goal needs.
    fn full() -> String {
        let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
        instance["cost_per_hour"] = json!([3.0, 0.5]);
        for job in instance["jobs"].as_array_mut().unwrap() {
            job["num_steps_remaining"] = json!(1000);
            job["deadline_s"] = json!(10_000.0);
        }
        instance["entities"] = json!({"weights": {"a": 1.0, "b": 2.0}, "policies": {"a": "fairness", "b": "fifo"},
            "jobs": {"a": [0, 1], "b": [2]}});
        instance.to_string()
    }

    #[test]
    fn shared_gpus_come_in_pairs() {
        let mut instance: Value = serde_json::from_str(SLIDE).unwrap();
        for (job, name) in instance["jobs"].as_array_mut().unwrap().iter_mut().zip(["a", "b", "c"]) {
            job["job_type"] = json!(name);
        }
        instance["pair_throughputs"] = json!({"v100": {"('a', 1)": {"('b', 1)": [39.0, 11.0]}}, "k80": {}});
        let (_dir, [file]) = files([("pairs.json", &instance.to_string())]);
        let args = ["allocate", "--instance", &file, "--policy", "max-min", "--sharing", "--check", "--json"];
        let found = ask(&args).json();
        assert_eq!(found["pairs"][0]["jobs"], json!([0, 1]));
        assert_eq!(found["pairs"][0]["shares"].as_array().map(Vec::len), Some(2));
        ask(&["allocate", "--instance", &file, "--policy", "cost"]).refused(&["cost_per_hour", "missing"]);
    }

    #[test]
    fn bad_instances_are_named_and_exit_with_2() {
        let wrong = SLIDE.replace("[12, 4]", "[0, 0]");
        let unknown = SLIDE.replace("num_workers", "num_wokers");
        let nan = SLIDE.replace("[12, 4]", "[12, NaN]");
        let (_dir, [slide, zero, unknown, nan]) = files([
            ("slide.json", SLIDE),
            ("zero.json", &wrong),
            ("unknown.json", &unknown),
            ("nan.json", &nan),
        ]);
        let ask = |file, goal| ask(&["allocate", "--instance", file, "--policy", goal]);
        ask(&zero, "max-min").refused(&["zero.json", "job 1: throughputs"]);
        ask(&unknown, "max-min").refused(&["unknown.json", "num_wokers", "line 1"]);
        ask(&nan, "max-min").refused(&["nan.json", "jobs[1].throughputs[1] is NaN"]);
        ask(&slide, "makespan").refused(&["job 0", "num_steps_remaining", "makespan needs it"]);
        ask(&slide, "max-mni").refused(&["did you mean 'max-min'?", "strategy-proof"]);
    }

    #[test]
    fn a_published_instance_gives_the_published_optimum() {
        let Some(instance) = shared("gavel/oracles/instance_n32.json") else { return };
        let file = instance.to_str().unwrap();
        let found = ask(&["allocate", "--instance", file, "--policy", "max-min", "--check", "--json"]).json();
        assert_eq!(found["allocation"].as_array().map(Vec::len), Some(32));
        assert!(found["check"]["gap"].as_f64().unwrap() < 1e-6, "{}", found["check"]);
        let Some(oracle) = shared("gavel/oracles/max_min_fairness_perf.n32.json") else { return };
        let oracle: serde_json::Value = serde_json::from_slice(&std::fs::read(oracle).unwrap()).unwrap();
        let published = oracle["reference"]["objective"].as_f64().unwrap();
        let ours = found["objective"].as_f64().unwrap();
        assert!((ours - published).abs() <= 1e-6 * published, "{ours} against {published}");
    }
}

mod trace {
    use super::*;

    const SACCT: &str = "JobID|User|Submit|Elapsed|State|AllocTRES\n\
        1|ann|2026-11-01T12:00:00|01:00|COMPLETED|cpu=2,gres/gpu=1\n\
        1.batch||2026-11-01T12:00:00|01:00|COMPLETED|\n\
        2|bob|2026-11-01T12:00:30|ten|COMPLETED|cpu=2\n\
        3|bob|2026-11-01T12:01:00|1-00:00:00|FAILED|gres/gpu:a100=4\n";

    #[test]
    fn what_is_imported_can_be_simulated_and_what_cannot_be_read_is_told_by_line() {
        let (dir, [log]) = files([("log.txt", SACCT)]);
        let out = dir.path().join("t.csv");
        let out = out.to_str().unwrap();
        let said = ask(&["trace", "import", &log, "--out", out]);
        assert_eq!(said.code, Some(0), "{said:?}");
        for part in [
            "looks like sacct",
            "left out: 1 × a step",
            "log.txt: line 4: Elapsed: 'ten'",
            "2 jobs read without",
        ] {
            assert!(said.err.contains(part), "{part:?} in {}", said.err);
        }
        let report = ask(&["sim", "--cluster", "4xA100", "--trace", out, "--json"]).json();
        assert_eq!((&report["jobs"], &report["finished"]), (&json!(2), &json!(1)), "one failed");
        ask(&["trace", "import", &log, "--strict"]).refused(&["log.txt: line 4: Elapsed: 'ten'"]);
        ask(&["sim", "--cluster", "4xA100", "--trace", &log]).refused(&["log.txt: line 4"]);
        ask(&["trace", "import", &log, "--format", "sact"]).refused(&["did you mean 'sacct'?", "wfcommons"]);
        ask(&["trace", "import", &log, "--format", "swf"]).refused(&["log.txt", "columns instead of 18"]);
    }

    #[test]
    fn a_trace_goes_through_every_format_and_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let mut generate =
            vec!["trace", "generate", "--jobs", "30", "--seed", "3", "--graph", "random:2-6,0.4"];
        generate.extend(["--gpu-memory", "2GiB:1,whole:1", "--gpu-types", "V100:1,any:1", "--users", "4"]);
        generate.extend(["--timeouts", "log-normal:2,0.5", "--guesses", "even:0.5,2", "--preempt", "freeze"]);
        let made = ask(&generate).out;
        assert_eq!(ask(&generate).out, made, "the same bytes every time");
        std::fs::write(path("a.csv"), &made).unwrap();
        for (from, to) in [("a.csv", "b.json"), ("b.json", "c.jsonl"), ("c.jsonl", "d.csv")] {
            let said = ask(&["trace", "convert", &path(from), "--out", &path(to)]);
            assert_eq!(said.code, Some(0), "{said:?}");
        }
        assert_eq!(std::fs::read_to_string(path("d.csv")).unwrap(), made);
        let said = ask(&["trace", "convert", &path("a.csv"), "--out", &path("e.swf")]);
        assert!(said.err.contains("swf cannot say everything"), "{said:?}");
        let (ours, theirs) = (
            ask(&["trace", "stats", &path("a.csv"), "--json"]).json(),
            ask(&["trace", "stats", &path("e.swf"), "--json"]).json(),
        );
        assert_eq!(ours["tasks"], theirs["jobs"], "every task became a job");
        assert!(ours["edges"].as_u64() > Some(30), "{ours}");
        let report = ask(&["sim", "--cluster", "8xV100", "--trace", &path("a.csv"), "--json"]).json();
        assert_eq!(report["jobs"], 30);
    }

    #[test]
    fn every_public_trace_that_is_here_is_read_whole() {
        let read = |path: &str, more: &[&str]| {
            let path = shared(path)?;
            let answer = ask(&[&["trace", "stats", path.to_str().unwrap(), "--json"], more].concat());
            assert!(!answer.err.contains("bad row"), "{}", answer.err);
            Some(answer.json())
        };
        if let Some(pods) = read("traces/openb_pod_list_default.csv", &[]) {
            assert_eq!(pods["jobs"], 8152 - 897, "all but those that never got a machine");
            assert!(pods["sharing"].as_u64() > Some(1000), "{pods}");
        }
        if let Some(philly) = read("traces/philly_job_distribution.json", &[]) {
            assert_eq!(philly["jobs"], 33_192);
        }
        if let Some(table) = shared("gavel/simulation_throughputs.json") {
            let table = ["--throughputs", table.to_str().unwrap()];
            let gavel =
                read("gavel/traces/gen150_single.trace", &table).expect("traces lie beside their speeds");
            assert_eq!(gavel["jobs"], 150);
        }
        if let Some(workflow) = read("dag/workflows/montage-chameleon-2mass-015d-001.json", &[]) {
            assert_eq!(workflow["jobs"], 1);
            assert!(
                workflow["tasks"].as_u64() > Some(50) && workflow["edges"].as_u64() > Some(50),
                "{workflow}"
            );
        }
    }
}

mod sim {
    use super::*;

    const COLUMNS: &str = "submitted,runs,timeout,gpus,gpu_memory,priority,user\n";

    /// Three jobs for one GPU: the long one first, then two short ones while it runs.
    fn three() -> String {
        format!("{COLUMNS}0,100,100,1,,0,ann\n1,50,50,1,,0,bob\n\n2,10,10,1,,0,bob\n")
    }

    fn sorted(mut keys: Vec<&str>) -> Vec<&str> {
        keys.sort_unstable();
        keys
    }

    #[test]
    fn a_report_has_the_shape_scripts_rely_on() {
        let (_dir, [trace]) = files([("t.csv", &three())]);
        let args = ["sim", "--cluster", "1xV100:16GiB", "--trace", &trace, "--policy", "sjf", "--json"];
        let report = ask(&args).json();
        let mut wanted = vec!["policy", "seed", "jobs", "finished", "rejected", "makespan_s", "utilisation"];
        wanted.extend(["weighted_turnaround_s", "preemptions", "restarts", "events", "wall_seconds"]);
        let spreads: Vec<String> = ["wait", "response", "completion"]
            .iter()
            .flat_map(|of| ["average", "p50", "p95", "p99", "max"].map(|what| format!("{what}_{of}_s")))
            .collect();
        wanted.extend(spreads.iter().map(String::as_str));
        assert_eq!(keys(&report), sorted(wanted));
        assert_eq!(
            (&report["jobs"], &report["finished"], &report["rejected"]),
            (&json!(3), &json!(3), &json!(0))
        );
        assert_eq!(report["makespan_s"], 160.0);
        // The short one starts at 100, the middle one at 110: they waited 98 and 109 s.
        assert_eq!(report["average_wait_s"].as_f64(), Some((0.0 + 109.0 + 98.0) / 3.0));
        let jobs = ask(&[&args[..], &["--per-job"]].concat()).json()["per_job"].clone();
        assert_eq!(jobs[2]["started_s"], 100.0, "{jobs}");
        let said = ask(&args[..args.len() - 1]).out;
        assert!(said.starts_with("sjf: 3 jobs, 3 finished\n"), "{said}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let trace = dir.path().join("t.csv");
        let trace = trace.to_str().unwrap();
        let generate = ["trace", "generate", "--jobs", "50", "--seed", "5", "--gpus", "1:0.8,2:0.2"];
        let made = ask(&generate).out;
        assert_eq!(ask(&[&generate[..], &["--out", trace]].concat()).code, Some(0));
        assert_eq!(std::fs::read_to_string(trace).unwrap(), made);
        let stats = ask(&["trace", "stats", trace, "--json"]).json();
        assert_eq!(stats["jobs"], 50);
        let jobs: u64 = stats["gpus"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(jobs, 50, "{stats}");
        let report = |source: &[&str]| {
            let args = [&["sim", "--cluster", "4xV100", "--seed", "5", "--json"], source].concat();
            let mut report = ask(&args).json();
            report["wall_seconds"] = Value::Null;
            report
        };
        let (traced, made) =
            (report(&["--trace", trace]), report(&["--generate", "50", "--gpus", "1:0.8,2:0.2"]));
        assert_eq!(traced, made, "whether it goes through a file makes no difference");
    }

    #[test]
    fn policies_are_compared_with_intervals() {
        let args = [
            "compare",
            "--cluster",
            "2xV100",
            "--generate",
            "20",
            "--policies",
            "fifo,short-first:beta=2,sjf",
        ];
        let rows = ask(&[&args[..], &["--repeat", "8", "--json"]].concat()).json();
        let names: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| row["policy"].as_str().unwrap()).collect();
        assert_eq!(names, ["fifo", "short-first:beta=2", "sjf"]);
        for row in rows.as_array().unwrap() {
            let mean = row["average_completion_s"].as_f64().unwrap();
            let interval = &row["intervals_95"]["average_completion_s"];
            let (low, high) = (interval[0].as_f64().unwrap(), interval[1].as_f64().unwrap());
            assert!(low < mean && mean < high, "{low} {mean} {high}");
            assert_eq!(row["repeat"], 8);
        }
        assert!(rows[2]["average_wait_s"].as_f64() < rows[0]["average_wait_s"].as_f64(), "short ones first");
        let (_dir, [trace]) = files([("t.csv", &three())]);
        let args =
            ["compare", "--cluster", "1xV100", "--trace", &trace, "--policies", "fifo,sjf", "--repeat", "9"];
        let rows = ask(&[&args[..], &["--json"]].concat()).json();
        let mean = &rows[0]["average_wait_s"];
        assert_eq!(
            rows[0]["intervals_95"]["average_wait_s"],
            json!([mean, mean]),
            "nothing is left to chance"
        );
        let said = ask(&args);
        assert!(said.out.starts_with("POLICY") && said.err.starts_with("note: "), "{said:?}");
    }

    #[test]
    fn a_cluster_may_be_a_file() {
        let (_dir, [trace, cluster, empty]) = files([
            ("t.csv", &three()),
            ("c.toml", "[[server]]\nname = 'gpu1'\ngpus = '3xV100:16GiB'\n"),
            ("empty.toml", ""),
        ]);
        let report = ask(&["sim", "--cluster", &cluster, "--trace", &trace, "--json"]).json();
        assert_eq!(report["max_wait_s"], 0.0);
        ask(&["sim", "--cluster", &empty, "--trace", &trace]).refused(&["empty.toml", "no devices"]);
    }

    #[test]
    fn what_cannot_be_simulated_is_said_with_its_line_and_exits_with_2() {
        let (_dir, [good, text, wide, header]) = files([
            ("good.csv", &three()),
            ("text.csv", &format!("{COLUMNS}0,ten,,1,,0,ann\n")),
            ("wide.csv", &format!("{COLUMNS}0,10,,1,,0,ann\n\n1,10,,5,,0,ann\n")),
            ("header.csv", "a,b\n1,2\n"),
        ]);
        let ask = |trace: &str, more: &[&str]| {
            let args = ["sim", "--cluster", "4xV100", "--trace", trace];
            super::ask(&[&args, more].concat())
        };
        ask(&good, &["--policy", "short-frist"]).refused(&["did you mean 'short-first'?", "backfill"]);
        ask(&good, &["--policy", "short-first:delta=1"]).refused(&["'delta'", "alpha"]);
        ask(&text, &[]).refused(&["text.csv: line 2: runs: 'ten'"]);
        ask(&wide, &[]).refused(&["wide.csv: line 4", "gpus", "--count-rejected"]);
        assert_eq!(ask(&wide, &["--count-rejected", "--json"]).json()["rejected"], 1);
        ask(&header, &[]).refused(&["header.csv: line 1", "'a'", "submitted, runs"]);
        ask(&good, &["--users", "3"]).refused(&["--users goes with --generate"]);
        let ask = super::ask;
        ask(&["sim", "--cluster", "", "--generate", "3"]).refused(&["--cluster", "no devices"]);
        ask(&["sim", "--cluster", "4V100", "--generate", "3"]).refused(&["--cluster", "4V100"]);
        ask(&["sim", "--cluster", "4xV100"]).refused(&["--trace"]);
        ask(&["trace", "stats", &text]).refused(&["text.csv: line 2"]);
        ask(&["trace", "generate", "--jobs", "3", "--lengths", "even"])
            .refused(&["--lengths", "log-uniform"]);
    }

    #[test]
    fn a_study_leaves_a_page_tables_and_pictures_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let mut args =
            vec!["compare", "--cluster", "4xV100", "--generate", "40", "--users", "3", "--gpus", "1:2,2:1"];
        args.extend(["--policies", "fifo,short-first:beta=2", "--repeat", "3", "--json"]);
        let plain = ask(&args).json();
        let (page, csv, plots) = (path("out.html"), path("csv"), path("plots"));
        args.extend(["--report", &page, "--csv", &csv, "--plots", &plots]);
        let mut with = ask(&args).json();
        for (row, before) in with.as_array_mut().unwrap().iter_mut().zip(plain.as_array().unwrap()) {
            row["wall_seconds"] = before["wall_seconds"].clone();
            row["intervals_95"]["wall_seconds"] = before["intervals_95"]["wall_seconds"].clone();
        }
        assert_eq!(with, plain, "watching changes nothing");
        let page = std::fs::read_to_string(page).unwrap();
        for wanted in [
            "Waiting time",
            "Completion time",
            "Slowdown",
            "Utilisation over time",
            "Jain",
            "GPUs under fifo",
            "3 simulations",
        ] {
            assert!(page.contains(wanted), "{wanted}");
        }
        for asked in ["src=", "href=", "url(", "@import", "fetch("] {
            assert!(!page.contains(asked), "nothing is asked for: {asked}");
        }
        let rows =
            |name: &str| std::fs::read_to_string(dir.path().join("csv").join(name)).unwrap().lines().count();
        assert_eq!(rows("policies.csv"), 1 + 2);
        assert_eq!(rows("users.csv"), 1 + 2 * 3);
        assert_eq!(rows("jobs-1-fifo.csv"), 1 + 3 * 40);
        assert_eq!(rows("utilisation-2-short-first_beta_2.csv"), 1 + 1000);
        for name in ["waiting", "utilisation", "slowdown-by-user", "gantt-1-fifo"] {
            let file =
                |end: &str| std::fs::read(dir.path().join("plots").join(format!("{name}.{end}"))).unwrap();
            assert!(file("svg").starts_with(b"<svg"), "{name}");
            assert!(file("png").starts_with(b"\x89PNG") && file("png").len() > 3000, "{name}");
        }
        let (_dir, [trace]) = files([("t.csv", &three())]);
        let out = path("one.html");
        let said = ask(&["sim", "--cluster", "1xV100", "--trace", &trace, "--report", &out]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(std::fs::read_to_string(out).unwrap().contains("GPUs under backfill"));
        ask(&["sim", "--cluster", "1xV100", "--trace", &trace, "--report", "/no/such/dir/x.html"])
            .refused(&["cannot write"]);
    }

    #[test]
    fn a_published_table_is_computed_anew() {
        let rows = ask(&["reproduce", "short-tasks", "--seeds", "20", "--json"]).json();
        let first = &rows[0];
        assert_eq!(keys(first), ["high", "low", "ours", "published", "row", "verdict"]);
        assert_eq!((&first["row"], &first["published"]), (&json!("fifo response"), &json!(563.989)));
        let said = ask(&["reproduce", "short-tasks", "--seeds", "20"]).out;
        assert_eq!(said.lines().count(), rows.as_array().unwrap().len() + 1, "{said}");
        ask(&["reproduce", "hybird"]).refused(&["did you mean 'hybrid'?", "short-tasks"]);
        let hybrid = ask(&["reproduce", "hybrid", "--json"]).json();
        assert_eq!(hybrid[0]["verdict"], "holds");
        ask(&["reproduce", "hybrid", "--plot", "x.svg"]).refused(&["only alibaba-2023 and gavel are drawn"]);
    }

    #[test]
    fn without_its_data_gavels_study_says_what_it_needs() {
        ask(&["reproduce", "gavel", "--gavel", "/nowhere"])
            .refused(&["/nowhere/simulation_throughputs.json", "--gavel DIR"]);
    }

    #[test]
    fn the_nodes_of_a_trace_are_filled_and_drawn() {
        ask(&["reproduce", "alibaba-2023", "--data", "/nowhere"]).refused(&["/nowhere/openb_", "--data DIR"]);
        let nodes = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,4,T4\nn2,96000,262144,4,T4\n";
        let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
                    p1,4000,1024,1,470,,LS,Running,0,1,0\np2,4000,1024,1,1000,,LS,Running,0,1,0\np3,1000,1024,1,230,,BE,Running,0,1,0\n";
        let (dir, [..]) =
            files([("openb_node_list_gpu_node.csv", nodes), ("openb_pod_list_default.csv", pods)]);
        let (data, svg) = (dir.path().to_str().unwrap(), dir.path().join("p.svg"));
        let args = ["reproduce", "alibaba-2023", "--data", data, "--shuffles", "2", "--json"];
        let rows = ask(&[&args[..], &["--plot", svg.to_str().unwrap()]].concat()).json();
        assert_eq!(rows[0]["row"], "first allocated at 90 %");
        assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
        let (dir, [..]) =
            files([("openb_node_list_gpu_node.csv", "sn,cpu_milli,memory_mib,gpu,model\nn1,many,1,1,T4\n")]);
        ask(&["reproduce", "alibaba-2023", "--data", dir.path().to_str().unwrap()])
            .refused(&["openb_node_list_gpu_node.csv: line 2: cpu_milli: 'many'"]);
    }
}

#[test]
fn faults_are_simulated_and_the_same_seeds_are_the_same_runs() {
    let args = ["sim", "--faults", "heavy", "--seed", "7", "--seeds", "3", "--json"];
    let report = ask(&args).json();
    assert_eq!(
        (&report["level"], &report["first_seed"], &report["runs"]),
        (&json!("heavy"), &json!(7), &json!(3))
    );
    assert_eq!((&report["failure"], &report["reproduce"]), (&Value::Null, &Value::Null));
    assert!(report["steps"].as_u64() > Some(100), "{report}");
    assert_eq!(ask(&args).json(), report);
    ask(&["sim", "--faults", "hevy"]).refused(&["'hevy'", "heavy"]);
    ask(&["sim", "--faults", "heavy", "--cluster", "2xV100"]).refused(&["--cluster"]);
    ask(&["sim"]).refused(&["--cluster"]);
}
