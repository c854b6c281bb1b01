//! Parsers: shared files completely, and errors that name the task or the line.

mod shared;

use std::error::Error;

use serde_json::Value;
use warpyard_dag::algorithm::{SearchOptions, find, heft};
use warpyard_dag::read::{Format, Machines, parse, parse_as};
use warpyard_dag::{Bounds, Instance, check};

/// Error with its sources.
fn error_chain(error: impl Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

fn parse_error(text: &str) -> String {
    let machines = Machines::identical(2);
    let given = if Format::of(text) == Format::Native { None } else { Some(&machines) };
    error_chain(parse(text).and_then(|input| input.instantiate(given)).expect_err(text))
}

#[test]
fn errors_name_the_task_or_line() {
    for (text, expected) in [
        (r#"{"costs": [[1, 2], [3]], "edges": []}"#, "task 1: has 1 costs, but there are 2 machines"),
        (r#"{"costs": [[1, 2], [3, null]], "edges": []}"#, "task 1: no cost on machine 1"),
        (r#"{"costs": [[1, -2]], "edges": []}"#, "task 0: cost -2 on machine 1 is not"),
        (r#"{"costs": [[1, 2], [1, NaN]], "edges": []}"#, "task 1: cost on machine 1 is NaN"),
        (r#"{"costs": [[1], [1]], "edges": [[0, 1, Infinity]]}"#, "task 0: edge to task 1 is Infinity"),
        (
            r#"{"tasks": [{"name": "NaN \" a"}, {"name": "b", "work": -Infinity}], "machines": ["m"]}"#,
            "task b: work is -Infinity",
        ),
        (r#"{"costs": [[1, NaN], [1], "edges": []}"#, "line 1 column 16"),
        (r#"{"costs": [[1], [1]], "edges": [[0, 2, 1]]}"#, "edge 0 (0 to 2): there is no task 2"),
        (r#"{"costs": [[1], [1]], "edges": [[0, 1, -1]]}"#, "edge 0 to 1: -1 is not"),
        (r#"{"costs": [[1], [1], [1]], "edges": [[0, 1, 0], [1, 2, 0], [2, 1, 0]]}"#, "1 -> 2 -> 1"),
        (r#"{"costs": [[1]], "edgse": []}"#, "unknown field `edgse`"),
        (r#"{"costs": [[1], [1]], "edges": [{"from": 0, "to": 1, "comm": 18}]}"#, "unknown field `comm`"),
        (r#"{"costs": [[1], [1]], "edges": [[0, 1, null]]}"#, "expected f64"),
        (r#"{"costs": [[1], [1]], "edges": [[0, 1, 2, 3]]}"#, "expected an edge, [from, to, cost]"),
        (r#"{"costs": [[1], [1]], "edges": [[0]]}"#, "expected an edge, [from, to, cost]"),
        (r#"{"costs": [[1], [1]], "edges": [[0, -1]]}"#, "the number or the name of a task"),
        (r#"{"tasks": [{"name": "a", "wrok": 1}], "machines": ["m"]}"#, "unknown field `wrok`"),
        (r#"{"tasks": [7], "machines": ["m"]}"#, "expected a name or a description in braces"),
        (r#"{"tasks": ["a"], "machines": [{"name": "m", "sped": 2}]}"#, "unknown field `sped`"),
        (r#"{"costs": [[1, 2]], "bandwidth": "fast"}"#, "one number for all links"),
        (r#"{"tasks": [{"name": "a"}], "machines": [{"name": "m"}]}"#, "task a: no cost on machine m"),
        (r#"{"tasks": [{"name": "a", "work": 1}]}"#, "no machines"),
        (
            r#"{"tasks": [{"name": "a", "work": 1, "costs": {"k8": 2}}], "machines": [{"name": "k80"}]}"#,
            "task a: there is no machine, or type of machine, called k8",
        ),
        (r#"{"tasks": [{"name": "a", "work": -1}], "machines": ["m"]}"#, "task a: work -1 is not"),
        (
            r#"{"tasks": [{"name": "a", "work": 1}], "edges": [["a", "b"]], "machines": ["m"]}"#,
            "there is no task b",
        ),
        (r#"{"tasks": [{"name": "a"}, {"name": "a"}]}"#, "two tasks are called a"),
        (
            r#"{"tasks": [{"name": "a", "work": 1}], "machines": [{"name": "m", "speed": 0}]}"#,
            "machine m: speed 0",
        ),
        (
            r#"{"costs": [[1, 2]], "edges": [], "bandwidth": [[0, 1], [-1, 0]]}"#,
            "bandwidth -1 from machine 1 to machine 0",
        ),
        ("2\n0 0 0\n1 x 0\n", "line 3: \"x\" is not a number"),
        ("2\n0 0 0\n1 5 1 7\n", "line 3: task 1 waits for task 7"),
        ("2\n0 0 0\n1 5 2 0\n", "ends before a predecessor"),
        ("9\n0 0 0\n", "line 1: 1 tasks, but the first line says 9"),
        ("3 18446744073709551615\n0 1 0\n", "18446744073709551615"),
        ("1\n0 -4 0\n", "line 2: time -4 of task 0"),
        ("2\n0 1 1 1\n1 1 1 0\n", "dependency cycle: "),
        (
            "digraph {\n a [work=1]\n b\n a -> b\n}",
            "line 3: task b has no work or cost; give it one, such as b [work=3]",
        ),
        ("digraph {\n a [work=nan]\n}", "line 2: \"nan\" is not a number"),
        ("digraph {\n a -- b\n}", "line 2: an edge without direction"),
        ("graph {\n}", "line 1: expected digraph"),
        ("digraph { a [work=1]", "ends before the closing }"),
        (r#"{"schemaVersion": "1.4", "workflow": {"specification": {"tasks": []}}}"#, "schema version 1.4"),
        (
            r#"{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"id": "a", "parents": ["z"]}]}}}"#,
            "task a: there is no task z",
        ),
        (
            r#"{"schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"id": "a"}]}}}"#,
            "task a: no cost on machine",
        ),
    ] {
        let found = parse_error(text);
        assert!(found.contains(expected), "{text}\n  gives {found:?}\n  not   {expected:?}");
    }
}

#[test]
fn the_second_form_divides_work_by_speed_and_data_by_bandwidth() {
    let text = r#"{"tasks": [{"name": "a", "work": 12}, {"name": "b", "work": 6, "costs": {"fast": 1}, "release": 4}],
        "edges": [["a", 1, 30]], "machines": [{"name": "m0", "speed": 2, "type": "fast"}, {"name": "m1", "speed": 3}],
        "bandwidth": [[null, 10], [5, null]], "latency": [[0, 1], [2, 0]]}"#;
    let instance = parse(text).unwrap().instantiate(None).unwrap();
    assert_eq!(instance.cost_matrix(), [6.0, 4.0, 1.0, 2.0]);
    assert_eq!((instance.transfer(30.0, 0, 1), instance.transfer(30.0, 1, 0)), (4.0, 8.0));
    assert_eq!(instance.mean_transfer(30.0), 1.5 + 30.0 / 7.5);
    assert_eq!((instance.release(1), instance.task_name(1).as_ref()), (4.0, "b"));
}

#[test]
fn a_release_list_works_with_tasks_as_with_costs() {
    let text = |rest: &str| {
        format!(
            r#"{{"tasks": [{{"name": "a", "work": 1}}, {{"name": "b", "work": 1}}], "machines": ["m"], {rest}}}"#
        )
    };
    let instance = parse(&text(r#""release": [0, 7]"#)).unwrap().instantiate(None).unwrap();
    assert_eq!((instance.release(0), instance.release(1)), (0.0, 7.0));
    assert_eq!(parse_error(&text(r#""release": [7]"#)), "1 release times for 2 tasks");
    let twice = r#"{"tasks": [{"name": "a", "work": 1, "release": 2}], "machines": ["m"], "release": [7]}"#;
    assert!(parse_error(twice).contains("given twice"), "{}", parse_error(twice));
    let alone = r#"{"tasks": [{"name": "a", "work": 1}], "bandwidth": 3}"#;
    assert!(parse_error(alone).contains("bandwidth is given without machines"), "{}", parse_error(alone));
}

#[test]
fn dot_reads_chains_defaults_subgraphs_and_comments() {
    let text = "/* a\n comment */ strict digraph G { // more\n rankdir=LR; node [work=3]; edge [data=2]\n \
                subgraph cluster_x { a -> \"b c\" -> d [cost=7]; }\n# line\n d [costs=\"4, 5\", label=x]; a:n -> d\n}";
    let instance = parse(text).unwrap().instantiate(Some(&Machines::identical(2))).unwrap();
    assert_eq!(instance.cost_matrix(), [3.0, 3.0, 3.0, 3.0, 4.0, 5.0]);
    let edges: Vec<_> = instance.edges().map(|e| (e.from, e.to, e.data)).collect();
    assert_eq!(edges, [(0, 1, 7.0), (0, 2, 2.0), (1, 2, 7.0)]);
    assert_eq!(instance.task_name(1), "b c");
}

#[test]
fn machines_come_from_toml_with_types_and_counts() {
    let machines = Machines::from_toml(
        "latency = 0.5\nbandwidth = 4\n[[machine]]\nname = \"a\"\ncount = 2\nspeed = 2\n",
    )
    .unwrap();
    let instance = parse("digraph { x [work=8]; y [work=2]; x -> y [data=2] }")
        .unwrap()
        .instantiate(Some(&machines))
        .unwrap();
    assert_eq!(instance.cost_matrix(), [4.0, 4.0, 1.0, 1.0]);
    assert_eq!(instance.transfer(instance.successors(0)[0].1, 0, 1), 1.0);
    let wrong = Machines::from_toml("[[machine]]\nname = \"a\"\nsped = 2\n").unwrap_err();
    assert!(error_chain(wrong).contains("sped"));
}

fn stg(name: &str, machines: usize) -> Option<Instance> {
    let text = shared::text(&format!("stg/{name}"))?;
    let input = parse_as(&text, Format::Stg).unwrap();
    assert_eq!(Format::of(&text), Format::Stg);
    Some(input.instantiate(Some(&Machines::identical(machines))).unwrap())
}

#[test]
fn standard_task_graphs_give_the_recorded_makespans() {
    let Some(optima) = shared::text("stg/optima.json") else { return };
    let optima: Value = serde_json::from_str(&optima).unwrap();
    let (mut proven, mut reached) = (0, 0);
    for (name, by_count) in optima["results"].as_object().unwrap() {
        for (count, result) in by_count.as_object().unwrap() {
            let Some(instance) = stg(name, count.parse().unwrap()) else { return };
            let number = |key: &str| result[key].as_f64().unwrap();
            assert_eq!(heft(&instance).makespan(), number("heft"), "{name} on {count}");
            let bounds = Bounds::of(&instance);
            assert_eq!(bounds.critical_path, number("critical_path"), "{name} on {count}");
            let best = find("best").unwrap().plan(&instance, &mut SearchOptions::iterations(300));
            assert_eq!(check(&instance, &best.schedule), Ok(()));
            assert!(best.schedule.makespan() >= number("bound") && bounds.makespan() <= number("best"));
            if let Some(optimum) = result["optimal"].as_f64() {
                proven += 1;
                reached += u32::from(best.schedule.makespan() == optimum);
            }
        }
    }
    assert!(proven == 14 && reached >= 13, "{reached} of {proven}");
    for (name, tasks) in [("s_proto000.stg", 453), ("s_proto001.stg", 475), ("s_sample01.stg", 12)] {
        let Some(instance) = stg(name, 4) else { return };
        assert_eq!(instance.tasks(), tasks, "{name}");
    }
}

#[test]
fn real_workflows_are_read_with_their_files() {
    for (name, tasks) in [
        ("1000genome-chameleon-2ch-100k-001", 52),
        ("bwa-chameleon-small-005", 104),
        ("cycles-chameleon-2l-2c-9p-001", 266),
        ("helloworld-forkjoin-10-chameleon", 10),
        ("montage-chameleon-2mass-015d-001", 310),
        ("rnaseq-dirt02-001", 197),
        ("srasearch-chameleon-10a-001", 22),
    ] {
        let Some(text) = shared::text(&format!("workflows/{name}.json")) else { return };
        let machines = Machines::from_toml(
            "bandwidth = 1e8\n[[machine]]\nname = \"a\"\nspeed = 2\n[[machine]]\nname = \"b\"\ncount = 3\n",
        );
        let instance = parse(&text).unwrap().instantiate(Some(&machines.unwrap())).unwrap();
        assert_eq!((instance.tasks(), instance.machines()), (tasks, 4), "{name}");
        assert!(instance.edges().any(|e| e.data > 0.0), "{name}: no data passes along any edge");
        for algorithm in ["heft", "cpop", "peft", "blend", "lookahead"] {
            let plan = find(algorithm).unwrap().plan(&instance, &mut SearchOptions::iterations(1));
            assert_eq!(check(&instance, &plan.schedule), Ok(()), "{algorithm} on {name}");
        }
    }
}
