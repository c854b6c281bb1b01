//! `sim`, `compare` and `reproduce`.

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
    let mut wanted = vec!["job", "name", "user", "submitted_s", "started_s", "ended_s", "wait_s", "slowdown"];
    wanted.extend(["outcome", "attempts", "gpu_seconds", "priority"]);
    assert_eq!(keys(&jobs[0]), sorted(wanted));
    assert_eq!((&jobs[0]["user"], &jobs[2]["user"]), (&json!("ann"), &json!("bob")));
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
    let args =
        ["compare", "--cluster", "2xV100", "--generate", "20", "--policies", "fifo,short-first:beta=2,sjf"];
    let rows = ask(&[&args[..], &["--repeat", "8", "--json"]].concat()).json();
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["policy"].as_str().unwrap()).collect();
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
    assert_eq!(rows[0]["intervals_95"]["average_wait_s"], json!([mean, mean]), "nothing is left to chance");
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
    ask(&["sim", "--cluster", &empty, "--trace", &trace])
        .refused(&["empty.toml: line 1: a cluster with no devices"]);
}

#[test]
fn what_stands_still_lets_others_run_where_a_gpu_takes_so_many() {
    let memory = 1u64 << 30;
    let (_dir, [cluster, trace]) = files([
        ("c.toml", "gpus = '1xV100:16GiB'\ntasks_per_gpu = 1\n"),
        (
            "t.csv",
            &format!(
                "submitted,runs,gpus,gpu_memory,priority,preempt,batch_time,item_time,resume_time\n\
                 0,100,1,{memory},0,freeze,10,1,2\n3.5,20,1,{memory},5,freeze,10,1,2\n"
            ),
        ),
    ]);
    let sim = |policy: &str| {
        let args =
            ["sim", "--cluster", &cluster, "--trace", &trace, "--policy", policy, "--json", "--per-job"];
        let report = ask(&args).json();
        (
            report["preemptions"].as_u64(),
            report["per_job"][1]["started_s"].as_f64(),
            report["makespan_s"].as_f64(),
        )
    };
    assert_eq!(sim("wsjf:granularity=job"), (Some(0), Some(100.0), Some(120.0)));
    // After its batch or its item; going on costs 2 s.
    assert_eq!(sim("wsjf:granularity=batch"), (Some(1), Some(10.0), Some(122.0)));
    assert_eq!(sim("wsjf:granularity=item"), (Some(1), Some(4.0), Some(122.0)));
}

#[test]
fn tasks_on_one_gpu_slow_each_other_as_much_as_is_said() {
    let trace = format!("submitted,runs,gpus,gpu_memory\n0,100,1,{0}\n0,100,1,{0}\n", 1u64 << 30);
    let (_dir, [trace]) = files([("t.csv", &trace)]);
    let args = ["sim", "--cluster", "1xV100:16GiB", "--trace", &trace, "--json", "--contention"];
    let makespan = |contention| ask(&[&args[..], &[contention]].concat()).json()["makespan_s"].as_f64();
    assert_eq!((makespan("0"), makespan("0.5"), makespan("1")), (Some(100.0), Some(150.0), Some(200.0)));
    ask(&[&args[..], &["-1"]].concat()).refused(&["--contention"]);
}

#[test]
fn jobs_that_did_not_succeed_are_told_under_the_table() {
    let trace = format!("{COLUMNS}0,10,,1,,0,ann\n1,10,5,1,,0,ann\n2,10,,9,,0,ann\n");
    let (_dir, [trace]) = files([("t.csv", &trace)]);
    let args =
        ["compare", "--cluster", "1xV100", "--trace", &trace, "--policies", "fifo", "--count-rejected"];
    let said = ask(&args).out;
    assert!(said.ends_with("fifo: 2 of 3 jobs did not succeed, 1 of them rejected\n"), "{said}");
}

#[test]
fn policies_can_be_looked_up_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let all = ask(&["policies", "--data", data, "--json"]).json();
    assert!(all.as_array().unwrap().iter().all(|policy| policy["active"] == false), "{all}");
    let one = ask(&["policy", "show", "short-first", "--data", data]).out;
    assert!(one.starts_with("short-first\n") && one.contains("gamma"), "{one}");
    assert!(one.contains("one of best, first, worst, fill, spread, gradient"), "{one}");
    assert_eq!(ask(&["policy", "--data", data]).code, Some(3), "only a server has one in use");
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
    ask(&good, &["--users", "3"]).refused(&["--users needs --generate"]);
    let ask = super::ask;
    ask(&["sim", "--cluster", "", "--generate", "3"]).refused(&["--cluster", "no devices"]);
    ask(&["sim", "--cluster", "4V100", "--generate", "3"]).refused(&["--cluster", "4V100"]);
    ask(&["sim", "--cluster", "4xV100"]).refused(&["--trace"]);
    ask(&["trace", "stats", &text]).refused(&["text.csv: line 2"]);
    ask(&["trace", "generate", "--jobs", "3", "--lengths", "even"]).refused(&["--lengths", "log-uniform"]);
    for option in ["--users", "--priorities", "--batch"] {
        ask(&["trace", "generate", "--jobs", "3", option, "0"]).refused(&[option, "'0' is not 1 or more"]);
    }
    ask(&["sim", "--faults", "light", "--seeds", "0"]).refused(&["--seeds", "'0' is not 1 or more"]);
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
    let jobs = std::fs::read_to_string(dir.path().join("csv/jobs-1-fifo.csv")).unwrap();
    let cells =
        |line: usize| jobs.lines().nth(line).unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
    // Under the same headings as in JSON, and with the seed, since numbers begin anew with each.
    let (_kept, [trace]) = files([("t.csv", &three())]);
    let one = ask(&["sim", "--cluster", "1xV100", "--trace", &trace, "--json", "--per-job"]).json();
    let mut headings = cells(0);
    assert_eq!(headings.remove(0), "seed");
    assert_eq!(sorted(headings.iter().map(String::as_str).collect()), keys(&one["per_job"][0]));
    let at = |name: &str| 1 + headings.iter().position(|heading| heading == name).unwrap();
    let second = cells(1 + 40);
    assert_eq!((second[0].as_str(), second[at("job")].as_str()), ("2", "1"));
    assert_eq!((second[at("outcome")].as_str(), second[at("attempts")].as_str()), ("succeeded", "1"));
    assert!(second[at("slowdown")].parse::<f64>().unwrap() >= 1.0 && second[at("user")].starts_with("user"));
    assert_eq!(rows("utilisation-2-short-first_beta_2.csv"), 1 + 1000);
    for name in ["waiting", "utilisation", "slowdown-by-user", "gantt-1-fifo"] {
        let file = |end: &str| std::fs::read(dir.path().join("plots").join(format!("{name}.{end}"))).unwrap();
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
    assert_eq!(said.lines().position(str::is_empty), Some(rows.as_array().unwrap().len() + 1), "{said}");
    assert!(said.contains("over the seeds 0 to 19"), "{said}");
    let every = ["reproduce", "--seeds", "20", "--data", "/nowhere", "--gavel", "/nowhere"];
    let said = ask(&every);
    for table in ["short-tasks: ", "model-scheduling: ", "hybrid: "] {
        assert!(said.out.lines().any(|line| line.starts_with(table)), "{table}: {said:?}");
    }
    assert!(said.err.contains("alibaba-2023: left out") && said.err.contains("gavel: left out"), "{said:?}");
    let all = ask(&[&every[..], &["--json"]].concat()).json();
    let mut first = all[0].clone();
    assert_eq!(first.as_object_mut().unwrap().remove("table"), Some(json!("short-tasks")));
    assert_eq!(first, rows[0], "the same rows, with where they belong");
    ask(&["reproduce", "hybird"]).refused(&["did you mean 'hybrid'?", "short-tasks"]);
    let hybrid = ask(&["reproduce", "hybrid", "--json"]).json();
    assert_eq!(hybrid[0]["verdict"], "agrees");
    assert_eq!(hybrid[8]["verdict"], "no published figure", "the paper prints no times");
    ask(&["reproduce", "hybrid", "--plot", "x.svg"]).refused(&["--plot", "alibaba-2023 or gavel"]);
    ask(&["reproduce", "--plot", "x.svg"]).refused(&["--plot", "alibaba-2023 or gavel"]);
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
    let (dir, [..]) = files([("openb_node_list_gpu_node.csv", nodes), ("openb_pod_list_default.csv", pods)]);
    let (data, svg) = (dir.path().to_str().unwrap(), dir.path().join("p.svg"));
    let args = ["reproduce", "alibaba-2023", "--data", data, "--shuffles", "2", "--json"];
    let rows = ask(&[&args[..], &["--plot", svg.to_str().unwrap()]].concat()).json();
    assert_eq!(rows[0]["row"], "first allocated at 90 %");
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let png = dir.path().join("p.png");
    assert_eq!(ask(&[&args[..], &["--plot", png.to_str().unwrap()]].concat()).code, Some(0));
    assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG"), "as it is called");
    // The same files are a cluster and a trace.
    let (nodes, pods) =
        (format!("{data}/openb_node_list_gpu_node.csv"), format!("{data}/openb_pod_list_default.csv"));
    let report = ask(&["sim", "--cluster", &nodes, "--trace", &pods, "--json"]).json();
    assert_eq!((&report["jobs"], &report["finished"]), (&json!(3), &json!(3)));
    let (dir, [..]) =
        files([("openb_node_list_gpu_node.csv", "sn,cpu_milli,memory_mib,gpu,model\nn1,many,1,1,T4\n")]);
    ask(&["reproduce", "alibaba-2023", "--data", dir.path().to_str().unwrap()])
        .refused(&["openb_node_list_gpu_node.csv: line 2: cpu_milli: 'many'"]);
}

/// The long one is asked to save and exit, and begins again when the short one is done.
#[test]
fn whoever_saves_and_exits_for_another_counts_as_preempted() {
    let text = "submitted,runs,expected,preempt\n0,100,100,requeue\n10,5,5,none\n";
    let (_dir, [trace]) = files([("t.csv", text)]);
    let args = ["sim", "--cluster", "1xV100:16GiB", "--trace", &trace, "--policy", "srtf", "--json"];
    let report = ask(&args).json();
    assert_eq!((&report["preemptions"], &report["restarts"]), (&json!(1), &json!(1)), "{report}");
}

#[test]
fn what_a_run_with_faults_would_leave_out_is_refused() {
    ask(&["sim", "--faults", "light", "--policy", "sjf"]).refused(&["--faults", "--policy"]);
    ask(&["sim", "--faults", "light", "--serve"]).refused(&["--faults", "--serve"]);
    ask(&["sim", "--cluster", "1xV100", "--generate", "2", "--seeds", "5"]).refused(&["--seeds"]);
}

/// On a K80 a step costs a fifth of what it does on a V100, though that is twice as fast.
#[test]
fn the_policy_cost_knows_what_types_cost() {
    let (_dir, [speeds, trace]) = files([
        ("speeds.json", r#"{"v100": {"('net', 1)": {"null": 4.0}}, "k80": {"('net', 1)": {"null": 2.0}}}"#),
        ("t.csv", "submitted,runs,profile,steps,preempt\n0,10,net,4000,requeue\n"),
    ]);
    let ended = |cost: &[&str]| {
        let args =
            ["sim", "--cluster", "1xV100,1xK80", "--policy", "cost:round=60", "--throughputs", &speeds];
        ask(&[&args[..], &["--trace", &trace, "--json"], cost].concat()).json()["makespan_s"].as_f64()
    };
    assert_eq!(ended(&["--cost", "v100=1,k80=1"]), ended(&[]));
    assert!(ended(&["--cost", "v100=10,k80=1"]) > ended(&[]), "{:?}", ended(&["--cost", "v100=10,k80=1"]));
    ask(&["sim", "--cluster", "1xV100", "--generate", "1", "--cost", "v100"]).refused(&["TYPE=COST"]);
}

#[test]
fn policies_are_compared_workload_by_workload_and_figures_are_defined() {
    let args = ["compare", "--cluster", "4xV100", "--generate", "60", "--gap", "60s", "--priorities", "3"];
    let args = [&args[..], &["--policies", "fifo,sjf", "--repeat", "6"]].concat();
    let rows = ask(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(rows[0].get("paired"), None, "the first is what others are compared with");
    let paired = &rows[1]["paired"];
    assert_eq!(paired["against"], "fifo");
    for figure in ["average_wait_s", "average_completion_s", "weighted_turnaround_s"] {
        let of = |row: &Value| row[figure].as_f64().unwrap();
        let apart = paired["differences"][figure].as_f64().unwrap();
        assert!((apart - (of(&rows[1]) - of(&rows[0]))).abs() < 1e-6 * of(&rows[0]).max(1.0), "{figure}");
        let interval = &paired["intervals_95"][figure];
        assert!(interval[0].as_f64() <= Some(apart) && interval[1].as_f64() >= Some(apart), "{figure}");
    }
    let said = ask(&args);
    assert_eq!(said.err, "", "4 GPUs are enough for this");
    for part in [
        "WEIGHTED TURNAROUND",
        "difference from fifo\n",
        "means over 6, ± 95 % intervals",
        "weighted turnaround  sum of (priority − lowest priority) × completion",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
}

#[test]
fn more_work_than_the_cluster_has_is_pointed_out() {
    let workload = ["--generate", "300", "--seed", "7"];
    let note = "note: the offered load is ";
    let over = ask(&[&["sim", "--cluster", "4xV100"][..], &workload].concat());
    assert!(over.code == Some(0) && over.err.starts_with(note), "{}", over.err);
    let over = ask(&[&["compare", "--policies", "fifo", "--cluster", "4xV100"][..], &workload].concat());
    assert!(over.err.starts_with(note), "{}", over.err);
    let enough = ask(&[&["sim", "--cluster", "12xV100"][..], &workload].concat());
    assert_eq!(enough.err, "");
    let generate = ["trace", "generate", "--jobs", "300", "--seed", "7", "--cluster"];
    let made = ask(&[&generate[..], &["4xV100"]].concat());
    assert!(made.code == Some(0) && made.err.starts_with(note), "{}", made.err);
    let enough = ask(&[&generate[..], &["12xV100"]].concat());
    assert_eq!((enough.err.as_str(), &enough.out), ("", &made.out));
    let at_once = ask(&[&["sim", "--cluster", "4xV100", "--gap", "0s"][..], &workload].concat());
    assert_eq!(at_once.err, "", "what comes all at once has no rate");
}
