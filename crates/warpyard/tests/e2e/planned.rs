//! A plan submitted as a job to a live server: it runs, in the order and on the devices it was planned for. And what the
//! policy `heft` plans by itself, where it is known how fast GPUs are.

use crate::support::{Server, wait_at};
use serde_json::{Value, json};

/// What each step does: says when it begins and ends, and which GPU it was given.
const STEP: &str = "echo begin $0 >> order; echo $0 $WARPYARD_GPUS >> where; echo end $0 >> order";

/// A diamond; what each step costs on the first GPU and on the second.
const COSTS: [(&str, [u32; 2]); 4] =
    [("prep", [2, 9]), ("left", [2, 9]), ("right", [9, 2]), ("merge", [9, 2])];
const EDGES: [[&str; 2]; 4] = [["prep", "left"], ["prep", "right"], ["left", "merge"], ["right", "merge"]];

fn workflow(gpus: &[String; 2]) -> Value {
    let tasks = COSTS.map(|(name, [first, second])| {
        let costs = json!({gpus[0].as_str(): first, gpus[1].as_str(): second});
        json!({"name": name, "costs": costs, "command": ["sh", "-c", STEP, name]})
    });
    let machines = [0, 1].map(|at| json!({"name": gpus[at]}));
    json!({"tasks": tasks, "edges": EDGES, "machines": machines})
}

#[test]
fn a_plan_submitted_as_a_job_runs_in_its_order_where_it_was_planned() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB,1xK80:12GiB", "--policy", "heft"]);
    let listed = server.json(&["gpus"]);
    let named = |at: usize| listed[at]["id"].as_str().expect("an id").to_owned();
    server.write("flow.json", &workflow(&[named(0), named(1)]).to_string());
    for form in ["job.toml", "job.json"] {
        let plan = server.json(&["plan", "flow.json", "--algorithm", "heft", "--as-job", form]);
        assert_eq!(plan["schedule"].as_array().map(Vec::len), Some(4), "{plan}");
        let job = server.submit(&[form]);
        assert_eq!(server.outcome(&job), "succeeded");
        let order = server.read("order");
        let at =
            |line: String| order.lines().position(|l| l == line).unwrap_or_else(|| panic!("{line}: {order}"));
        for [before, after] in EDGES {
            assert!(at(format!("end {before}")) < at(format!("begin {after}")), "{order}");
        }
        let mut given: Vec<String> = server.read("where").lines().map(str::to_owned).collect();
        given.sort_unstable();
        let planned = ["left fake-0-V100", "merge fake-1-K80", "prep fake-0-V100", "right fake-1-K80"];
        assert_eq!(given, planned, "{form}");
        server.write("order", "");
        server.write("where", "");
    }
}

#[test]
fn heft_waits_for_the_gpu_on_which_a_task_ends_first() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB,1xK80:12GiB", "--policy", "heft"]);
    let speeds = json!({"v100": {"('a', 1)": {"null": 40}}, "k80": {"('a', 1)": {"null": 1}}});
    server.said(&["throughputs", "--set", &server.write("table.json", &speeds.to_string())]);
    let options = |name: &'static str| ["--name", name, "--profile", "a", "--steps", "400", "--gpus", "1"];
    let script = format!("echo started $WARPYARD_GPUS; {}", wait_at(&server.path("gate")));
    let first = server.script(&options("first"), &script);
    server.printed(&first, "started fake-0-V100");
    let second = server.script(&options("second"), "echo $WARPYARD_GPUS > given");
    assert_eq!(
        server.state(&second),
        "ready",
        "10 s each on the V100 that is taken, 400 s on the K80 that is free"
    );
    server.open("gate");
    assert_eq!(
        (server.outcome(&first).as_str(), server.outcome(&second).as_str()),
        ("succeeded", "succeeded")
    );
    assert_eq!(server.read("given").trim(), "fake-0-V100");
}
