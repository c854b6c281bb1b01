//! `plan`: schedules of task graphs.

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
    ask(&["plan", &two, "--ccr", "50"]).refused(&["--ccr needs --generate"]);
    let help = ask(&["plan", "--help"]).out;
    assert!(warpyard_dag::algorithm::ALGORITHMS.iter().all(|a| help.contains(a.summary)), "{help}");
}
