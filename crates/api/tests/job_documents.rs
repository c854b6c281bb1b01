//! Job documents, good and bad: what is read, and word for word what a person is told.

use proptest::prelude::*;
use std::collections::BTreeMap;
use warpyard_api::job::*;
use warpyard_api::problem::{CODES, MAX_PROBLEMS, Severity, code, render};
use warpyard_api::quantity::{ArraySpec, ByteSize, Micros, MilliCpus};

fn toml(text: &str) -> Result<CheckedJob, Vec<warpyard_api::problem::Problem>> {
    read(text, Format::Toml, ReadOptions::default())
}

/// Every document with what is said of it, as one page to read.
fn page(filename: &str, documents: &[(&str, &str)]) -> String {
    let told = |(what, text): &(&str, &str)| {
        let said = match read(text, Format::of(filename, text), ReadOptions::default()) {
            Ok(checked) if checked.warnings.is_empty() => panic!("{what}: nothing is said of\n{text}"),
            Ok(checked) => render(&checked.warnings, filename, text),
            Err(problems) => render(&problems, filename, text),
        };
        format!("## {what}\n{said}\n")
    };
    documents.iter().map(told).collect()
}

#[test]
fn bad_toml_documents_are_told_apart() {
    let documents = [
        (
            "a misspelt field",
            "name = 'x'\n[[tasks]]\nname = 'a'\ncommand = 'true'\n\n[[tasks]]\nname = 'b'\ncommand = 'true'\n\n[[tasks]]\nname = 'c'\ncommand = ['t']\ngpus = 1\ngpu_memroy = '6GiB'\n",
        ),
        ("a field nobody knows", "command = 'true'\ncolour = 'red'\n"),
        (
            "several things at once",
            "priority = 'high'\n[[tasks]]\nname = 'a'\ncommand = []\ngpus = -1\ntimeout = 600\n[[tasks]]\ncommand = 'true'\nmemory = '6G'\npremept = 'none'\n",
        ),
        ("sizes", "command = 'x'\ngpus = 1\ngpu_memory = '-1GiB'\nmemory = '99999999EiB'\n"),
        ("more sizes", "command = 'x'\ngpus = 1\ngpu_memory = 0\nmemory = 1.5\n"),
        ("unit misspelt", "command = 'x'\nmemory = '6 Gibs'\n"),
        ("times", "command = 'x'\ntimeout = '-5m'\ngrace = '5 minutes'\nexpected = '30m1h'\n"),
        ("a timeout of nothing", "command = 'x'\ntimeout = '0s'\n"),
        ("cpus", "command = 'x'\ncpus = -0.5\n"),
        ("too fine cpus", "command = 'x'\ncpus = 0.0001\n"),
        ("an array that lets none run", "command = 'x'\narray = '1-100%0'\n"),
        ("an array backwards", "command = 'x'\narray = '100-1'\n"),
        ("an array twice", "command = 'x'\narray = '1-5,3'\n"),
        ("an array beyond all", "command = 'x'\narray = '1-20000000'\n"),
        (
            "arrays beyond all together",
            "[[tasks]]\nname = 'a'\ncommand = 'x'\narray = '1-6000000'\n[[tasks]]\nname = 'b'\ncommand = 'x'\narray = '1-6000000'\n",
        ),
        ("an array of a number", "command = 'x'\narray = 5\n"),
        ("words", "command = 'x'\non_lost = 'return'\npreempt = 'freze'\nwait_mode = 'sometimes'\n"),
        ("nothing to run", "command = '  '\n"),
        ("an empty program", "command = ['', 'x']\n"),
        ("a command of numbers", "command = ['sleep', 5]\n"),
        ("no command", "name = 'x'\n"),
        ("a misspelt command", "comand = 'x'\n"),
        ("a misspelt tasks", "[[task]]\nname = 'a'\ncommand = 'x'\n"),
        ("no tasks", "tasks = []\n"),
        ("tasks of the wrong kind", "tasks = 'x'\n"),
        ("a task without a command", "[[tasks]]\nname = 'a'\n\n[[tasks]]\nname = 'b'\ncommand = 'x'\n"),
        ("task fields beside tasks", "gpus = 2\n[[tasks]]\nname = 'a'\ncommand = 'x'\n"),
        ("job fields in a task", "[[tasks]]\nname = 'a'\ncommand = 'x'\npriority = 5\n"),
        ("a user", "user = 'ann'\ncommand = 'x'\n"),
        (
            "names",
            "name = \"bell\\u0007\"\n[[tasks]]\nname = \"a[1]\"\ncommand = 'x'\n[[tasks]]\nname = \"right\\u202eleft\"\ncommand = 'x'\n[[tasks]]\nname = ' '\ncommand = 'x'\n",
        ),
        ("two of a name", "[[tasks]]\nname = 'a'\ncommand = 'x'\n[[tasks]]\nname = 'a'\ncommand = 'x'\n"),
        (
            "an unknown task",
            "[[tasks]]\nname = 'prep'\ncommand = 'x'\n[[tasks]]\nname = 'b'\ncommand = 'x'\nafter = ['perp', 'elsewhere']\n",
        ),
        ("itself", "[[tasks]]\nname = 'a'\ncommand = 'x'\nafter = 'a'\n"),
        (
            "twice the same",
            "[[tasks]]\nname = 'a'\ncommand = 'x'\n[[tasks]]\nname = 'b'\ncommand = 'x'\nafter = ['a', {task = 'a', on = 'any'}]\n",
        ),
        (
            "a circle",
            "[[tasks]]\nname = 'a'\ncommand = 'x'\nafter = 'c'\n[[tasks]]\nname = 'b'\ncommand = 'x'\nafter = ['a']\n[[tasks]]\nname = 'c'\ncommand = 'x'\nafter = [{task = 'b', on = 'any'}]\n",
        ),
        (
            "how it must have ended",
            "[[tasks]]\nname = 'a'\ncommand = 'x'\n[[tasks]]\nname = 'b'\ncommand = 'x'\nafter = {task = 'a', on = 'failed', when = 'now'}\n",
        ),
        ("a dependency on nothing", "[[tasks]]\nname = 'a'\ncommand = 'x'\nafter = [{on = 'ok'}]\n"),
        ("job ids", "command = 'x'\nafter = [412, 'last', {job = -3}]\n"),
        (
            "GPU fields without GPUs",
            "command = 'x'\ngpu_memory = '6GiB'\ngpu_type = 'V100'\ngpu_scope = [0]\n",
        ),
        ("too small a scope", "command = 'x'\ngpus = 3\ngpu_scope = [0, 'gpu1/1']\n"),
        (
            "preferred elsewhere",
            "command = 'x'\ngpus = 1\ngpu_scope = [0, 'gpu1/1']\ngpu_preferred = ['gpu2/1', 'gpu2/0']\n",
        ),
        ("too few to wait for", "command = 'x'\ngpus = 2\ngpu_preferred = [0]\nwait_mode = 'queue'\n"),
        ("devices", "command = 'x'\ngpus = 1\ngpu_scope = ['gpu1', -1, 'gpu1/x', 0, 0]\n"),
        ("a device twice", "command = 'x'\ngpus = 1\ngpu_scope = [0, 1, 0]\n"),
        ("environment", "command = 'x'\n[env]\nSEED = 1\n'A=B' = 'x'\nFINE = 'yes'\nNULL = \"\\u0000\"\n"),
        ("paths", "command = 'x'\nworkdir = ''\nstdout = 3\n"),
        ("retries", "command = 'x'\nretries = 99999999999\nretry_on_timeout = 'yes'\n"),
        ("longer than it may", "command = 'x'\ntimeout = '10m'\nexpected = '1h'\n"),
        ("not TOML", "command = 'x'\ngpus = = 1\ntimeout = 10m\n"),
        ("a key twice", "command = 'x'\ncommand = 'y'\n"),
    ];
    insta::assert_snapshot!("bad_toml", page("job.toml", &documents));
}

#[test]
fn bad_json_documents_are_told_apart() {
    let documents = [
        (
            "a misspelt field",
            "{\n  \"tasks\": [\n    {\"name\": \"a\", \"command\": \"true\"},\n    {\n      \"name\": \"b\",\n      \"command\": [\"x\"],\n      \"gpu_memroy\": \"6GiB\"\n    }\n  ]\n}\n",
        ),
        ("a field twice", "{\"command\": \"x\",\n \"command\": \"y\"}"),
        ("not JSON", "{\"command\": \"x\",\n \"gpus\": 1,\n}"),
        ("a list", "[1, 2]"),
        ("nothing at all", ""),
        ("far too deep", "{\"command\": \"x\", \"env\": {\"A\":\n[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}}"),
        ("an empty name", "{\"command\": [\"a\", \"\\\"quoted\\\\\"], \"\": 1, \"project\": \"x\\ny\"}"),
        ("numbers beyond all", "{\"command\": \"x\", \"priority\": 99999999999999999999, \"gpus\": 1e400}"),
        ("no weight", "{\"command\": \"x\", \"weight\": 0,\n\"steps\": 0, \"deadline\": \"0s\"}"),
        ("a weight beyond all", "{\"command\": \"x\", \"weight\": 1e31}"),
        ("a weight of next to nothing", "{\"command\": \"x\", \"weight\": 1e-31}"),
        ("a weight below nothing", "{\"command\": \"x\", \"weight\": -1.5}"),
        ("half a character", "{\"command\": \"\\ud800\"}"),
        (
            "an unknown task",
            "{\"tasks\": [{\"name\": \"a\", \"command\": \"x\"},\n{\"name\": \"b\", \"command\": \"x\",\n\"after\": [\"a\",\n{\"task\": \"c\"}]}]}",
        ),
    ];
    insta::assert_snapshot!("bad_json", page("job.json", &documents));
}

#[test]
fn a_document_with_every_field_is_read() {
    let text = r#"
        name = "sweep"
        priority = 5
        project = "vision"
        weight = 2.5
        deadline = "6h"
        after = [398, "401", {job = "405", on = "any"}]

        [[tasks]]
        name = "prep"
        command = "make data"

        [[tasks]]
        name = "train"
        command = ["./t.sh", "%{index}"]
        env = {SEED = "1"}
        workdir = "/data"
        after = ["prep"]
        array = "1-100%8"
        gpus = 2
        gpu_memory = "6GiB"
        model = "resnet.pt2"
        batch_size = 32
        mode = "train"
        optimizer = "adamw"
        estimate = {peak = "5GiB", context = "512MiB", graph = "1f00", seconds = {T4 = 0.25, V100-16GB = 1}}
        gpu_type = ["V100", "A100"]
        gpu_scope = [0, 1, "gpu1/2"]
        gpu_preferred = 1
        wait_mode = "schedule"
        cpus = 0.5
        memory = "16GB"
        timeout = "1h30m"
        grace = "30s"
        expected = "1h"
        retries = 2
        retry_on_timeout = true
        on_lost = "hold"
        preempt = "requeue"
        batch_time = "20ms"
        item_time = "1ms"
        resume_time = "2s"
        profile = "ResNet-18 (batch size 64)"
        steps = 50000
        stdout = "out.txt"
        stderr = "err.txt"
    "#;
    let doc = toml(text).unwrap().doc;
    let on_ok = |job: &str| JobDependency { job: job.to_owned(), on: DependencyCondition::Ok };
    assert_eq!(
        doc.after,
        [on_ok("398"), on_ok("401"), JobDependency { job: "405".into(), on: DependencyCondition::Any }]
    );
    let train = TaskDoc {
        name: "train".into(),
        command: Command::List(vec!["./t.sh".into(), "%{index}".into()]),
        env: BTreeMap::from([("SEED".into(), "1".into())]),
        workdir: Some("/data".into()),
        after: vec![TaskDependency { task: "prep".into(), on: DependencyCondition::Ok }],
        array: Some("1-100%8".parse().unwrap()),
        gpus: 2,
        gpu_memory: Some(ByteSize(6 << 30)),
        model: Some("resnet.pt2".into()),
        batch_size: Some(32),
        mode: Some(ModelMode::Train),
        optimizer: Some("adamw".into()),
        estimate: Some(EstimateDoc {
            peak: ByteSize(5 << 30),
            context: Some(ByteSize(512 << 20)),
            graph: Some("1f00".into()),
            seconds: BTreeMap::from([("T4".into(), 0.25), ("V100-16GB".into(), 1.0)]),
        }),
        gpu_type: vec!["V100".into(), "A100".into()],
        gpu_scope: vec![
            DeviceRef::Index(0),
            DeviceRef::Index(1),
            DeviceRef::OnWorker { worker: "gpu1".into(), index: 2 },
        ],
        gpu_preferred: vec![DeviceRef::Index(1)],
        wait_mode: WaitMode::Schedule,
        on: vec![],
        cpus: Some(MilliCpus(500)),
        memory: Some(ByteSize(16_000_000_000)),
        timeout: Some(Micros::from_secs(5400)),
        grace: Some(Micros::from_secs(30)),
        expected: Some(Micros::from_secs(3600)),
        retries: 2,
        retry_on_timeout: true,
        on_lost: OnLost::Hold,
        preempt: Preempt::Requeue,
        batch_time: Some(Micros(20_000)),
        item_time: Some(Micros(1000)),
        resume_time: Some(Micros::from_secs(2)),
        profile: Some("ResNet-18 (batch size 64)".into()),
        steps: Some(50_000),
        pty: false,
        idle: None,
        stdout: Some("out.txt".into()),
        stderr: Some("err.txt".into()),
    };
    assert_eq!(doc.tasks[1], train);
    assert_eq!((doc.name.as_str(), doc.priority, doc.project.as_deref()), ("sweep", 5, Some("vision")));
    assert_eq!((doc.weight, doc.deadline), (Some(2.5), Some(Micros::from_secs(6 * 3600))));
}

#[test]
fn a_job_of_one_task_needs_no_list() {
    let short =
        toml("name = 'sweep'\npriority = 2\ncommand = ['./t.sh']\ngpus = 1\nafter = '7'\n").unwrap().doc;
    let long = toml(
        "name = 'sweep'\npriority = 2\nafter = '7'\n[[tasks]]\nname = 'sweep'\ncommand = ['./t.sh']\ngpus = 1\n",
    );
    assert_eq!(short, long.unwrap().doc);
}

#[test]
fn what_has_no_name_gets_one() {
    let names = |text: &str, default_name: Option<&str>| {
        let doc = read(text, Format::Toml, ReadOptions { default_name, accept_user: false }).unwrap().doc;
        (doc.name, doc.tasks[0].name.clone())
    };
    let both = |name: &str| (name.to_owned(), name.to_owned());
    assert_eq!(names("command = ['/usr/bin/python', 'train.py']", None), both("train"));
    assert_eq!(names("command = 'python train.py'", Some("night")), both("night"));
    assert_eq!(names("tasks = [{name = 'a', command = 'x'}]", None), both("a"));
    assert_eq!(names("name = 'a [b]'\ncommand = 'x'", None), ("a [b]".to_owned(), "main".to_owned()));
}

#[test]
fn null_is_the_same_as_leaving_out() {
    let value = serde_json::json!({"name": "x", "tasks": null, "command": "x", "array": null, "after": null});
    let doc = read_value(&value, ReadOptions::default()).unwrap().doc;
    assert_eq!(doc, toml("name = 'x'\ncommand = 'x'").unwrap().doc);
}

#[test]
fn the_user_is_taken_from_those_who_may_say_it() {
    let options = ReadOptions { accept_user: true, ..ReadOptions::default() };
    let doc = read("user = 'ann'\ncommand = 'x'", Format::Toml, options).unwrap().doc;
    assert_eq!(doc.user.as_deref(), Some("ann"));
}

#[test]
fn a_document_may_be_long_but_not_endless() {
    let too_long = format!("command = 'x'\n#{}", " ".repeat(MAX_DOCUMENT_BYTES));
    assert_eq!(toml(&too_long).unwrap_err()[0].code, code::DOCUMENT_TOO_LARGE);

    let tasks = |n: usize| serde_json::json!({"tasks": vec![serde_json::json!({"command": "x"}); n]});
    let refused = read_value(&tasks(MAX_TASK_ENTRIES + 1), ReadOptions::default()).unwrap_err();
    assert_eq!(refused[0].code, code::TOO_MANY_TASKS);
}

#[test]
fn a_thousand_mistakes_are_told_briefly() {
    let tasks: Vec<_> =
        (0..1000).map(|i| serde_json::json!({"name": i.to_string(), "command": "x", "x": 1})).collect();
    let problems = read_value(&serde_json::json!({"tasks": tasks}), ReadOptions::default()).unwrap_err();
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
    assert_eq!(problems.last().unwrap().message, "and 900 more problems");
}

/// Naming every circle of tasks that all wait for each other would take longer than anyone waits.
#[test]
fn a_knot_of_circles_is_told_briefly() {
    let others =
        |i: usize| (0..300).filter(|other| *other != i).map(|other| other.to_string()).collect::<Vec<_>>();
    let task = |i: usize| serde_json::json!({"name": i.to_string(), "command": "x", "after": others(i)});
    let tasks: Vec<_> = (0..300).map(task).collect();
    let problems = read_value(&serde_json::json!({"tasks": tasks}), ReadOptions::default()).unwrap_err();
    assert_eq!(problems.len(), 10);
    assert!(problems.iter().all(|problem| problem.code == code::CYCLE));
}

#[test]
fn a_chain_as_long_as_a_document_is_walked() {
    let task = |i: usize| {
        let after = if i == 0 { vec![] } else { vec![(i - 1).to_string()] };
        serde_json::json!({"name": i.to_string(), "command": "x", "after": after})
    };
    let tasks: Vec<_> = (0..MAX_TASK_ENTRIES).map(task).collect();
    let doc = read_value(&serde_json::json!({"tasks": tasks}), ReadOptions::default()).unwrap().doc;
    assert_eq!(doc.tasks.len(), MAX_TASK_ENTRIES);
}

/// The server does not know the file; its problems still show the line they are about.
#[test]
fn a_problem_the_server_found_is_shown_in_the_file() {
    let problem =
        |path: &str| warpyard_api::problem::Problem::new(code::NO_DEVICE_LARGE_ENOUGH, path, "too much");
    let text = "[[tasks]]\nname = 'a'\ncommand = 'x'\n[[tasks]]\nname = 'b'\ncommand = 'x'\ngpus = 1\ngpu_memory = '24GiB'\n";
    let shown = render(&[problem("tasks[1].gpu_memory")], "job.toml", text);
    assert!(shown.contains("\n  job.toml:8: gpu_memory = '24GiB'\n"), "{shown}");
    let shorthand =
        render(&[problem("tasks[0].gpu_memory")], "job.toml", "command = 'x'\ngpu_memory = '24GiB'\n");
    assert!(shorthand.contains("\n  job.toml:2: gpu_memory = '24GiB'\n"), "{shorthand}");
    let absent = render(&[problem("tasks[1].timeout")], "job.toml", text);
    assert!(absent.contains("\n  job.toml:4: [[tasks]]\n"), "{absent}");
}

#[test]
fn every_code_of_a_document_is_in_the_table() {
    let warning = toml("command = 'x'\ntimeout = '10m'\nexpected = '1h'\n").unwrap().warnings;
    assert_eq!(warning[0].severity(), Severity::Warning);
    assert!(CODES.iter().any(|def| def.code == warning[0].code));
}

#[test]
fn the_schema_has_every_field_with_its_meaning() {
    let schema = job_schema();
    for name in ["JobDoc", "TaskDoc", "OneTaskJob"] {
        let part = &schema["$defs"][name];
        assert_eq!(part["additionalProperties"], false, "{name}");
        for (field, form) in part["properties"].as_object().expect("properties") {
            assert!(form["description"].is_string(), "{name}.{field} has no description: {form}");
            // A field the reader does not know is told as such; any other complaint is about the value.
            let document = match name {
                "TaskDoc" => serde_json::json!({"tasks": [{field: {}}]}),
                _ => serde_json::json!({field: {}}),
            };
            let problems = read_value(&document, ReadOptions::default()).err().unwrap_or_default();
            assert!(problems.iter().all(|p| p.code != code::UNKNOWN_FIELD), "{name}.{field} is not read");
        }
    }
    insta::assert_snapshot!("schema", serde_json::to_string_pretty(&schema).expect("a schema"));
}

/// A form shows examples and defaults to people, who may take them as they are, and fields in the published order.
#[test]
fn examples_and_defaults_in_the_schema_are_valid_values() {
    let schema = job_schema();
    for name in ["JobDoc", "TaskDoc"] {
        let part = &schema["$defs"][name];
        let fields = part["properties"].as_object().expect("properties");
        for leading in part["x-form-order"].as_array().expect("an order") {
            assert!(fields.contains_key(leading.as_str().expect("a name")), "{name} has no {leading}");
        }
        for (field, form) in fields {
            let examples = form["examples"].as_array().cloned().unwrap_or_default();
            for value in examples.into_iter().chain(form.get("default").cloned()) {
                let mut document = serde_json::json!({"command": "true", "gpus": 1, "pty": field == "idle"});
                if ["batch_size", "mode", "optimizer"].contains(&field.as_str()) {
                    document["model"] = "m.pt2".into();
                    document["mode"] = "train".into();
                }
                document[field] = value.clone();
                let read = read_value(&document, ReadOptions::default());
                assert!(read.is_ok(), "{field} = {value}: {read:?}");
            }
        }
    }
}

/// Every field the reader knows is in the schema too.
#[test]
fn the_reader_knows_no_field_the_schema_lacks() {
    let schema = job_schema();
    let listed = |document: &str| {
        let help = toml(document).unwrap_err().remove(0).help.expect("a list of the fields");
        help.split_once(": ")
            .expect("a list")
            .1
            .split(", ")
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let fields = |name: &str| {
        schema["$defs"][name]["properties"].as_object().expect("properties").keys().cloned().collect()
    };
    assert_eq!(listed("colour = 1\ntasks = []"), fields("JobDoc"));
    assert_eq!(listed("tasks = [{colour = 1}]"), fields("TaskDoc"));
}

fn names() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9äß_./%-][a-zA-Z0-9 äß_./%-]{0,12}[a-z]"
}

fn devices() -> impl Strategy<Value = Vec<DeviceRef>> {
    prop::collection::btree_set(
        prop_oneof![
            (0u32..8).prop_map(DeviceRef::Index),
            ("[a-z]{1,4}", 8u32..16).prop_map(|(worker, index)| DeviceRef::OnWorker { worker, index }),
        ],
        4..6,
    )
    .prop_map(|devices| devices.into_iter().collect())
}

#[test]
fn what_is_said_of_a_terminal_needs_one() {
    let doc = toml("command = 'bash'\npty = true\nidle = '30m'\n").unwrap().doc;
    assert_eq!((doc.tasks[0].pty, doc.tasks[0].idle), (true, Some(Micros::from_secs(1800))));
    let codes =
        |text: &str| toml(text).unwrap_err().into_iter().map(|p| p.code.into_owned()).collect::<Vec<_>>();
    assert_eq!(codes("command = 'bash'\nidle = '30m'\n"), ["no-terminal"]);
    assert_eq!(codes("command = 'bash'\npty = true\nstderr = 'e'\n"), ["one-stream"]);
    assert_eq!(codes("command = 'bash'\npty = true\nidle = '0s'\n"), ["zero"]);
}

prop_compose! {
    fn tasks()(
        command in prop_oneof![
            "[a-z ./\"'\\\\$\n\té]{0,20}[a-z]".prop_map(Command::Shell),
            prop::collection::vec("[a-z./]{1,8}", 1..4).prop_map(Command::List),
        ],
        env in prop::collection::btree_map("[A-Z_ .é]{1,6}", "\\PC{0,8}", 0..3),
        workdir in prop::option::of("/[a-z]{1,5}"),
        array in prop::option::of((0u32..50, 0u32..100, 1u32..5, prop::option::of(1u32..9))),
        (gpus, scope, preferred) in (1u32..4, prop::option::of(devices()), any::<bool>()),
        gpu_memory in prop::option::of(1u64..1 << 40),
        gpu_type in prop::collection::vec("[A-Z][0-9]{1,3}", 0..3),
        (queue, hold, requeue, retry_on_timeout) in any::<(bool, bool, bool, bool)>(),
        (cpus, memory) in (prop::option::of(0u32..100_000), prop::option::of(1u64..u64::MAX)),
        (timeout, grace, retries) in (prop::option::of(1u64..u64::MAX), prop::option::of(0u64..1 << 40), 0u32..9),
    ) -> TaskDoc {
        let gpu_scope = scope.unwrap_or_default();
        TaskDoc {
            name: String::new(), command, env, workdir, after: Vec::new(),
            array: array.map(|(first, length, step, at_once)| {
                ArraySpec::new([(first, first + length, step)], at_once).expect("a range")
            }),
            gpus,
            gpu_memory: gpu_memory.map(ByteSize),
            model: hold.then(|| "m.onnx".to_owned()),
            batch_size: timeout.filter(|_| hold),
            mode: hold.then_some(ModelMode::Train),
            optimizer: (hold && queue).then(|| "sgd".to_owned()),
            estimate: gpu_memory.map(|bytes| EstimateDoc {
                peak: ByteSize(bytes),
                context: requeue.then_some(ByteSize(bytes / 2)),
                graph: queue.then(|| "00ff".to_owned()),
                seconds: gpu_type.iter().map(|kind| (kind.clone(), 0.125)).collect(),
            }),
            gpu_type,
            gpu_preferred: if preferred { gpu_scope.clone() } else { Vec::new() },
            gpu_scope,
            wait_mode: if queue { WaitMode::Queue } else { WaitMode::Schedule },
            on: vec![],
            cpus: cpus.map(MilliCpus),
            memory: memory.map(ByteSize),
            timeout: timeout.map(Micros),
            grace: grace.map(Micros),
            expected: timeout.map(Micros),
            retries, retry_on_timeout,
            on_lost: if hold { OnLost::Hold } else { OnLost::Rerun },
            preempt: if requeue { Preempt::Requeue } else { Preempt::Freeze },
            batch_time: timeout.map(Micros), item_time: grace.filter(|t| *t > 0).map(Micros),
            resume_time: grace.map(Micros),
            profile: requeue.then(|| "p".to_owned()), steps: timeout,
            pty: hold, idle: timeout.filter(|_| hold).map(Micros),
            stdout: None, stderr: (!hold).then(|| "err".to_owned()),
        }
    }
}

prop_compose! {
    fn jobs()(
        name in names(),
        priority in any::<i64>(),
        project in prop::option::of(names()),
        (weight, deadline) in (prop::option::of(0.001..1e6), prop::option::of(1u64..1 << 50)),
        after in prop::collection::btree_set(0u64..1000, 0..3),
        mut tasks in prop::collection::vec(tasks(), 1..4),
    ) -> JobDoc {
        for i in 0..tasks.len() {
            tasks[i].name = format!("task {i}");
            let on = [DependencyCondition::Ok, DependencyCondition::Fail, DependencyCondition::Any][i % 3];
            tasks[i].after = (0..i).map(|before| TaskDependency { task: format!("task {before}"), on }).collect();
        }
        let after = after.into_iter().map(|job| JobDependency { job: job.to_string(), on: DependencyCondition::Any }).collect();
        JobDoc { name, priority, user: None, project, weight, deadline: deadline.map(Micros), snapshot: priority > 0, after, tasks }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_job_written_and_read_again_is_the_same(job in jobs()) {
        let checked = Ok(CheckedJob { doc: job.clone(), warnings: Vec::new() });
        let json = serde_json::to_string_pretty(&job).expect("JSON");
        prop_assert_eq!(&read(&json, Format::Json, ReadOptions::default()), &checked);
        let value = serde_json::to_value(&job).expect("a value");
        prop_assert_eq!(&read_value(&value, ReadOptions::default()), &checked);
        let toml = toml::to_string(&job).expect("TOML");
        prop_assert_eq!(&read(&toml, Format::Toml, ReadOptions::default()), &checked);
    }

    /// A misspelt field is never passed over, wherever it is.
    #[test]
    fn no_unknown_field_passes(job in jobs(), at in 0usize..4, field in "[a-z]{12}") {
        let mut value = serde_json::to_value(&job).expect("a value");
        let (table, path) = match job.tasks.get(at) {
            Some(_) => (&mut value["tasks"][at], format!("tasks[{at}].{field}")),
            None => (&mut value, field.clone()),
        };
        table[&field] = 1.into();
        let problems = read_value(&value, ReadOptions::default()).unwrap_err();
        prop_assert!(problems.iter().any(|p| p.path == path && p.code == code::UNKNOWN_FIELD));
    }

    #[test]
    fn no_text_panics(text in "[\\[\\]{}=\"',:.#a-z0-9\\\\ \n-]{0,60}", cut in any::<prop::sample::Index>()) {
        for format in [Format::Toml, Format::Json] {
            if let Err(problems) = read(&text, format, ReadOptions::default()) {
                render(&problems, "job", &text);
            }
        }
        let good = r#"{"name": "a\u00e9\"", "tasks": [{"command": ["x", "é\\"], "gpus": 1, "env": {"A": "b"}}, {}], "priority": -1.5e3}"#;
        let cut = (0..=cut.index(good.len())).rev().find(|i| good.is_char_boundary(*i)).unwrap_or(0);
        prop_assert!(read(&good[..cut], Format::Json, ReadOptions::default()).is_err());
    }
}

#[test]
fn a_size_needs_a_unit_except_in_json_where_a_number_is_bytes() {
    let read = |text: &str, format| read(text, format, ReadOptions::default());
    for text in ["gpu_memory = 6", "gpu_memory = '6'", "memory = 6"] {
        let problems = read(&format!("command = 'true'\ngpus = 1\n{text}\n"), Format::Toml).unwrap_err();
        assert_eq!(problems[0].message, "'6' has no unit; did you mean 6GiB?", "{text}");
        assert_eq!((&*problems[0].code, problems[0].line), ("bad-size", Some(3)));
    }
    let json = |size: &str| format!(r#"{{"command": "true", "gpus": 1, "gpu_memory": {size}}}"#);
    let bytes = read(&json("6442450944"), Format::Json).unwrap().doc.tasks[0].gpu_memory;
    assert_eq!(bytes, Some(ByteSize(6 << 30)));
    assert_eq!(read(&json("\"6\""), Format::Json).unwrap_err()[0].code, "bad-size");
}
