//! Files that mean harm: names that a terminal, a page or a picture would obey, and names without end. Every command that
//! reads a file refuses it by name or shows it harmless, as text, as JSON, as a page and as a picture.

use super::{Answer, ask};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Names nobody has.
fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "two\nerror: lines",
        "\u{1b}[2J\u{1b}]0;mine\u{7}",
        "over\rwritten",
        "a\u{202e}b\u{2066}c\u{200f}d\u{2028}e",
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>'",
        "',); DROP -- %s %n {0}",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(1 << 20));
    names
}

/// A command and the files it reads, all with a name in them; `DIR` is where they are.
struct Case {
    /// Whether it can be done where the name is one.
    of_use: bool,
    args: &'static [&'static str],
    files: Vec<(&'static str, String)>,
}

fn toml_text(name: &str) -> String {
    json!(name).to_string()
}

fn csv_text(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn trace(name: &str) -> String {
    let task = |runs: f64| json!({"name": name, "runs": runs, "gpus": 1, "timeout": 100.0});
    let job = |id: String, at: f64| json!({"id": id, "submitted": at, "user": name, "tasks": [task(5.0)]});
    json!([job(name.to_owned(), 0.0), job(format!("{name}2"), 1.0)]).to_string()
}

fn cases(name: &str) -> Vec<Case> {
    let quoted = json!(name);
    let typed = json!([{"id": "1", "submitted": 0.0, "user": "u", "tasks":
        [{"runs": 5.0, "gpus": 1, "gpu_types": [name]}]}]);
    let profiled = json!([{"id": "1", "submitted": 0.0, "user": "u", "tasks":
        [{"runs": 5.0, "gpus": 1, "profile": name, "steps": 10}]}]);
    let csv = |field: &str| format!("submitted,runs,gpus,user\n0,5,1,{field}\n");
    let server = format!("[[server]]\nname = {}\ngpus = '2xV100'\n", toml_text(name));
    let tasks = json!({"tasks": [{"name": name, "work": 3}, {"name": "other", "work": 2}], "edges": [[name, "other", 1]],
        "machines": [{"name": name, "speed": 1}, {"name": "m", "speed": 2}]});
    let twice = json!({"tasks": [{"name": name, "work": 3}, {"name": name, "work": 2}], "machines": [{"name": "m", "speed": 1}]});
    let lost = json!({"tasks": [{"name": "a", "work": 3}], "edges": [["a", name]], "machines": [{"name": "m", "speed": 1}]});
    let circle = json!({"tasks": [{"name": name, "work": 3}], "edges": [[name, name]], "machines": [{"name": "m", "speed": 1}]});
    let dot = format!("digraph g {{ {quoted} [work=3]; b [work=2]; {quoted} -> b; }}");
    let instance = |more: Value| {
        let mut instance = json!({"worker_types": [name, "k80"], "num_workers": [1, 1],
            "jobs": [{"id": 0, "throughputs": [40, 10]}, {"id": 1, "throughputs": [12, 4]}]});
        instance.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        instance.to_string()
    };
    let mut unknown = serde_json::Map::new();
    unknown.insert(name.to_owned(), json!(1));
    let nodes = format!("sn,cpu_milli,memory_mib,gpu,model\n{0},64000,262144,4,{0}\n", csv_text(name));
    let pods = format!(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
         {0},4000,1024,1,470,,LS,Running,0,1,0\n{0},4000,1024,1,1000,{0},LS,Running,0,1,0\n",
        csv_text(name)
    );
    let case = |of_use: bool, args: &'static [&'static str], files: &[(&'static str, &str)]| Case {
        of_use,
        args,
        files: files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect(),
    };
    vec![
        case(
            true,
            &[
                "sim",
                "--cluster",
                "2xV100",
                "--trace",
                "DIR/t.json",
                "--report",
                "DIR/r.html",
                "--csv",
                "DIR/csv",
            ],
            &[("t.json", &trace(name))],
        ),
        case(
            true,
            &[
                "compare",
                "--cluster",
                "2xV100",
                "--trace",
                "DIR/t.json",
                "--policies",
                "fifo,sjf",
                "--report",
                "DIR/r.html",
            ],
            &[("t.json", &trace(name))],
        ),
        case(
            false,
            &["sim", "--cluster", "2xV100", "--trace", "DIR/t.json"],
            &[("t.json", &typed.to_string())],
        ),
        case(
            true,
            &["sim", "--cluster", "2xV100", "--trace", "DIR/t.json", "--throughputs", "DIR/s.json"],
            &[
                ("t.json", &profiled.to_string()),
                ("s.json", &json!({"v100": {format!("('{name}', 1)"): {"null": 2.0}}}).to_string()),
            ],
        ),
        case(
            true,
            &["sim", "--cluster", "DIR/c.toml", "--trace", "DIR/t.json", "--report", "DIR/r.html"],
            &[("c.toml", &server), ("t.json", &trace("plain"))],
        ),
        case(
            false,
            &["sim", "--cluster", "DIR/c.toml", "--trace", "DIR/t.json"],
            &[("c.toml", &format!("[[server]]\ngpus = {}\n", toml_text(name))), ("t.json", &trace("plain"))],
        ),
        case(
            false,
            &["sim", "--cluster", "DIR/c.toml", "--trace", "DIR/t.json"],
            &[("c.toml", &format!("{} = 1\n", toml_text(name))), ("t.json", &trace("plain"))],
        ),
        case(true, &["trace", "stats", "DIR/t.json"], &[("t.json", &trace(name))]),
        case(true, &["trace", "stats", "DIR/t.csv"], &[("t.csv", &csv(&csv_text(name)))]),
        case(
            true,
            &["trace", "stats", "DIR/t.csv"],
            &[("t.csv", &format!("submitted,runs,gpus,user\n0,{},1,u\n1,2,3,u\n", csv_text(name)))],
        ),
        case(
            false,
            &["trace", "stats", "DIR/t.csv"],
            &[("t.csv", &format!("submitted,runs,{}\n0,5,1\n", csv_text(name)))],
        ),
        case(false, &["trace", "stats", "DIR/t.json"], &[("t.json", &json!([unknown]).to_string())]),
        case(true, &["trace", "convert", "DIR/t.json", "--out", "DIR/o.csv"], &[("t.json", &trace(name))]),
        case(
            true,
            &["plan", "DIR/w.json", "--algorithm", "heft", "--gantt", "DIR/g.svg"],
            &[("w.json", &tasks.to_string())],
        ),
        case(
            true,
            &["plan", "DIR/w.json", "--algorithm", "heft", "--as-job", "DIR/j.toml"],
            &[("w.json", &tasks.to_string())],
        ),
        case(true, &["plan", "DIR/w.json", "--compare", "heft,peft"], &[("w.json", &tasks.to_string())]),
        case(false, &["plan", "DIR/w.json"], &[("w.json", &twice.to_string())]),
        case(false, &["plan", "DIR/w.json"], &[("w.json", &lost.to_string())]),
        case(false, &["plan", "DIR/w.json"], &[("w.json", &circle.to_string())]),
        case(false, &["plan", "DIR/w.json"], &[("w.json", &json!(unknown).to_string())]),
        case(true, &["plan", "DIR/w.dot", "--machines", "2", "--algorithm", "heft"], &[("w.dot", &dot)]),
        case(false, &["plan", "DIR/w.dot", "--machines", "2"], &[("w.dot", name)]),
        case(
            true,
            &[
                "plan",
                "DIR/w.json",
                "--machines",
                "DIR/m.toml",
                "--algorithm",
                "heft",
                "--gantt",
                "DIR/g.svg",
            ],
            &[
                ("w.json", &json!({"tasks": [{"name": "a", "work": 3}]}).to_string()),
                ("m.toml", &format!("[[machines]]\nname = {}\nspeed = 1\n", toml_text(name))),
            ],
        ),
        case(
            true,
            &["allocate", "--instance", "DIR/i.json", "--policy", "max-min"],
            &[("i.json", &instance(json!({})))],
        ),
        case(
            false,
            &["allocate", "--instance", "DIR/i.json", "--policy", "max-min"],
            &[("i.json", &instance(json!({name: 1})))],
        ),
        case(
            false,
            &["allocate", "--instance", "DIR/i.json", "--policy", "hierarchical"],
            &[(
                "i.json",
                &instance(
                    json!({"entities": {"weights": {name: 1.0}, "policies": {name: name}, "jobs": {name: [0, 7]}}}),
                ),
            )],
        ),
        case(
            true,
            &["reproduce", "alibaba-2023", "--data", "DIR", "--shuffles", "1", "--plot", "DIR/p.svg"],
            &[("openb_node_list_gpu_node.csv", &nodes), ("openb_pod_list_default.csv", &pods)],
        ),
        case(
            false,
            &["reproduce", "alibaba-2023", "--data", "DIR", "--shuffles", "1"],
            &[
                (
                    "openb_node_list_gpu_node.csv",
                    &format!("sn,cpu_milli,memory_mib,gpu,model\nn,{},1,1,T4\n", csv_text(name)),
                ),
                ("openb_pod_list_default.csv", &pods),
            ],
        ),
        case(
            false,
            &["reproduce", "gavel", "--gavel", "DIR"],
            &[
                ("simulation_throughputs.json", &json!({name: {name: name}}).to_string()),
                ("traces/gen150_single.trace", &format!("{name}\t{name}\n")),
            ],
        ),
    ]
}

/// What is wrong with something that people, browsers or other programs are given.
fn harm(text: &str, as_json: bool) -> Option<String> {
    let directs =
        |c: char| matches!(c, '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}');
    let harmful = |c: &char| (c.is_control() && *c != '\n') || (!as_json && directs(*c));
    let character = text.chars().find(harmful).map(|c| format!("has {c:?}"));
    character.or_else(|| (!as_json && text.len() > 200_000).then(|| format!("has {} bytes", text.len())))
}

/// What is wrong with what a command said and made of its files.
fn wrong(case: &Case, json: bool) -> Option<String> {
    let (dir, answer) = asked(case, json);
    let here = dir.path().to_str().expect("text");
    let refused = answer.code == Some(2);
    let said = [
        (!matches!(answer.code, Some(0 | 2))).then(|| "it broke".to_owned()),
        harm(&answer.out, json),
        harm(&answer.err, false),
        (refused && !answer.err.contains(here)).then(|| "which file is it?".to_owned()),
        // Nothing in a file speaks for the program.
        answer.err.contains("\nerror: ").then(|| "two errors".to_owned()),
    ];
    let said = said.into_iter().flatten().next();
    let wrong = said.or_else(|| made_in(dir.path()).iter().find_map(|made| of_made(made)))?;
    Some(format!("{:?}: {wrong}\n{}", case.args, told(&answer)))
}

fn of_made(made: &Path) -> Option<String> {
    let read = fs::read_to_string(made).expect("text");
    let obeyed =
        ["<script>alert", "<img", "onerror=alert(1)>"].into_iter().find(|obeyed| read.contains(obeyed));
    let wrong = harm(&read, false).or_else(|| obeyed.map(|obeyed| format!("has {obeyed}")))?;
    Some(format!("{} {wrong}", made.display()))
}

/// Writes the files and asks.
fn asked(case: &Case, json: bool) -> (tempfile::TempDir, Answer) {
    let dir = tempfile::tempdir().expect("a directory");
    for (file, text) in &case.files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    let here = dir.path().to_str().expect("text");
    let mut args: Vec<String> = case.args.iter().map(|arg| arg.replace("DIR", here)).collect();
    args.extend(json.then(|| "--json".to_owned()));
    let answer = ask(&args.iter().map(String::as_str).collect::<Vec<_>>());
    (dir, answer)
}

/// As much of an answer as anyone reads.
fn told(answer: &Answer) -> String {
    let cut = |text: &str| text.chars().take(2_000).collect::<String>();
    format!("exit {:?}\n{}\n{:?}", answer.code, cut(&answer.out), cut(&answer.err))
}

/// Pages and pictures that were made.
fn made_in(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => made_in(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|end| end == "html" || end == "svg"))
        .collect()
}

#[test]
fn nothing_in_a_file_is_obeyed() {
    let mut all = Vec::new();
    for name in hostile() {
        for case in cases(&name) {
            all.extend([false, true].into_iter().filter_map(|json| wrong(&case, json)));
        }
    }
    assert!(all.is_empty(), "{}", all.join("\n\n"));
}

#[test]
fn the_files_are_of_use_where_nobody_means_harm() {
    // So that what is refused above is refused for its name.
    for case in cases("plain") {
        let (_dir, answer) = asked(&case, false);
        assert_eq!(answer.code == Some(0), case.of_use, "{:?}: {}", case.args, told(&answer));
    }
}

#[test]
fn a_picture_is_drawn_whatever_a_name_is() {
    let name: String = hostile().iter().map(|name| &name[..name.len().min(100)]).collect();
    let case = Case {
        of_use: true,
        args: &["sim", "--cluster", "2xV100", "--trace", "DIR/t.json", "--plots", "DIR/plots"],
        files: vec![("t.json", trace(&name))],
    };
    assert_eq!(wrong(&case, false), None);
    let (dir, _) = asked(&case, false);
    let drawn =
        |end: &str| made_in(dir.path()).iter().filter(|path| path.with_extension(end).exists()).count();
    assert!(drawn("svg") > 4 && drawn("png") == drawn("svg"), "{:?}", made_in(dir.path()));
}
