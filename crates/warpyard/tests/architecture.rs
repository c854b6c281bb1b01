//! Architecture tests: the table of crates in ARCHITECTURE.md, the layers of modules inside each crate, that nothing but the
//! core decides about attempts, and that only the stores know SQLite.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What each crate may use of ours. A crate exists where the compiler should forbid something; this is what.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("allocate", &[]),
    ("dag", &[]),
    ("estimate", &[]),
    ("api", &["session"]),
    ("policies", &["core", "allocate", "dag"]),
    ("sim", &["core", "policies", "allocate"]),
    ("worker", &["core", "session", "snapshot"]),
    ("session", &[]),
    ("snapshot", &[]),
    ("server", &["core", "policies", "sim", "api", "worker", "session", "snapshot", "estimate"]),
    (
        "warpyard",
        &[
            "core", "policies", "allocate", "dag", "estimate", "sim", "api", "worker", "server", "session",
            "snapshot",
        ],
    ),
];

/// Crates that make the pure ones impure.
const IMPURE: &[&str] = &["tokio", "axum", "rusqlite", "nix", "libc", "ureq", "rand", "crossbeam-channel"];

fn dependencies(krate: &str) -> BTreeSet<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate).join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).unwrap_or_else(|e| panic!("{}: {e}", manifest.display()));
    let table =
        text.lines().skip_while(|l| *l != "[dependencies]").skip(1).take_while(|l| !l.starts_with('['));
    let name = |line: &str| line.split(['.', ' ', '=']).next().map(str::to_owned);
    table.filter(|l| !l.trim().is_empty() && !l.starts_with('#')).filter_map(name).collect()
}

#[test]
fn every_crate_is_in_the_table_and_uses_only_what_it_may() {
    let crates = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("the crates");
    for entry in crates {
        let name = entry.expect("a crate").file_name().into_string().expect("a plain name");
        let row = MAY_USE.iter().find(|(krate, _)| *krate == name);
        let (_, allowed) = row.unwrap_or_else(|| panic!("{name} is not in the table"));
        for used in dependencies(&name).iter().filter_map(|d| d.strip_prefix("warpyard-")) {
            assert!(allowed.contains(&used), "{name} uses {used}");
        }
    }
}

#[test]
fn pure_crates_depend_on_nothing_that_touches_the_world() {
    for name in ["core", "policies", "allocate", "dag", "estimate", "session"] {
        let used = dependencies(name);
        for impure in IMPURE {
            assert!(!used.contains(*impure), "{name} depends on {impure}");
        }
    }
}

/// The files that drive the core's agent: each hands its outputs to an executor.
const DRIVERS: [&str; 3] = ["sim/src/machine.rs", "sim/src/faults/machine.rs", "worker/src/agent/run.rs"];

/// Text of the crates that drive agents which decides about attempts, and where it stands for something else.
const DECISIONS: &[(&str, &[&str])] = &[
    // Comparing what should be with what is.
    ("reconcile(", &[]),
    ("AttemptState::", &[]),
    ("Desired {", &[]),
    (" d.want", &[]),
    // The executors' own words for what they are told.
    (
        "DesiredState::",
        &["sim/src/faults/machine.rs", "sim/src/faults/supervisors.rs", "worker/src/agent/process/"],
    ),
    ("DesiredRecord::", &["worker/src/agent/process/"]),
    // Ending what runs elsewhere on loss.
    ("patience", &[]),
    // A rule of the fault simulator compares it as well.
    ("on_lost ==", &["sim/src/faults/invariants.rs"]),
    ("OnLost::Rerun", &["sim/src/faults/users.rs", "sim/src/faults/invariants.rs"]),
    // Leases are handed to agents, set how often a worker is heard of, and are dropped where nobody is missed.
    (
        ".lease",
        &[
            "sim/src/sim.rs",
            "sim/src/sim/turn.rs",
            "sim/src/sim/records.rs",
            "sim/src/faults/machine.rs",
            "sim/src/forecast.rs",
            "sim/src/replay/recorder.rs",
        ],
    ),
];

/// What is asked of an executor: only where an output of the agent says so.
const EXECUTED: &[&str] = &["Output::Launch(", "Output::Stop {", "Output::CallOff(", "Output::Retire("];

fn sources(dir: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => sources(&path, all),
            false if path.extension().is_some_and(|e| e == "rs") => all.push(path),
            false => {}
        }
    }
}

/// The code of each file of the crates that drive agents: without comments and tests.
fn driving_code() -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&crates.join("sim/src"), &mut files);
    sources(&crates.join("worker/src/agent"), &mut files);
    let code = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().lines();
        let code: Vec<_> = code.filter(|line| !line.trim_start().starts_with("//")).collect();
        let name = path.strip_prefix(&crates).expect("a file of a crate").display().to_string();
        (name, code.join("\n"))
    };
    files.into_iter().map(code).collect()
}

#[test]
fn nobody_but_the_core_decides_to_launch_stop_or_expire() {
    let code = driving_code();
    for (decision, elsewhere) in DECISIONS {
        for (file, code) in &code {
            let allowed = elsewhere.iter().any(|place| file.starts_with(place));
            assert!(allowed || !code.contains(decision), "{file} has `{decision}`: that is for core::agent");
        }
    }
    for output in EXECUTED {
        let has = |file: &&(String, String)| file.1.contains(output);
        let found: BTreeSet<_> = code.iter().filter(has).map(|(file, _)| file.as_str()).collect();
        assert_eq!(found, BTreeSet::from(DRIVERS), "who carries out `{output}..`");
    }
}

/// The layers of top-level modules inside each crate, the lowest first: a module uses only modules of layers before its own.
/// Modules of one layer depend on each other; a layer of several is a cycle that is still to be taken apart.
const LAYERS: &[(&str, &[&[&str]])] = &[
    (
        "core",
        &[
            &["ids"],
            &["index"],
            &["time"],
            &["limits"],
            &["bitset"],
            &["model"],
            &["spec"],
            &["pool"],
            &["fragment"],
            &["place"],
            &["plan"],
            &["ranked"],
            &["small"],
            &["shares"],
            &["cluster", "command", "event", "explain", "policy", "protocol", "queue"],
            &["agent"],
            &["inbox"],
            &["store"],
            &["engine"],
            &["lengths"],
            &["preempt"],
            &["profile"],
            &["reserve"],
            &["ordered"],
            &["shortage"],
        ],
    ),
    (
        "allocate",
        &[
            &["lp"],
            &["decompose"],
            &["solution"],
            &[
                "filling",
                "goal",
                "goals",
                "instance",
                "leftover",
                "max_level",
                "max_total",
                "nash",
                "problem",
                "sharing",
                "table",
            ],
            &["check"],
            &["estimate"],
            &["rounds"],
        ],
    ),
    (
        "dag",
        &[
            &["instance"],
            &["multiversion"],
            &["rank"],
            &["bounds"],
            &["schedule"],
            &["insertion", "remaining_cost"],
            &["random"],
            &["generate"],
            &["algorithm", "learned"],
            &["check"],
            &["gantt"],
            &["read"],
        ],
    ),
    (
        "estimate",
        &[
            &["allocator"],
            &["calls"],
            &["graph"],
            &["operators"],
            &["storage"],
            &["forward"],
            &["backward"],
            &["conformal"],
            &["admission"],
            &["expr"],
            &["gpu"],
            &["layout"],
            &["optimizer"],
            &["read"],
            &["digest"],
            &["roofline"],
            &["training"],
        ],
    ),
    ("snapshot", &[&["manifest"], &["changes"], &["pack"], &["store"], &["unpack"]]),
    (
        "api",
        &[
            &["private_dir"],
            &["quantity"],
            &["text"],
            &["secrets"],
            &["job", "problem"],
            &["proof"],
            &["token"],
            &["wire"],
            &["client"],
            &["selector"],
        ],
    ),
    (
        "policies",
        &[
            &["fifo"],
            &["all_at_once"],
            &["backfill"],
            &["by_goal"],
            &["drf"],
            &["fair_share"],
            &["gmin"],
            &["heft"],
            &["hybrid"],
            &["preemption"],
            &["las"],
            &["priority_serial"],
            &["short_first"],
            &["sjf"],
            &["srtf"],
            &["wsjf"],
        ],
    ),
    (
        "sim",
        &[
            &["arrival"],
            &["contention"],
            &["counterfactual"],
            &["random"],
            &["faults"],
            &["forecast"],
            &["process"],
            &["machine"],
            &["oracle"],
            &["record"],
            &["timers"],
            &["sim"],
            &["report"],
            &["replay"],
            &["workload"],
            &["reproduce"],
            &["run_time"],
        ],
    ),
    (
        "worker",
        &[
            &["accounts"],
            &["probe", "supervise"],
            &["claim_holder"],
            &["tree_removal"],
            &["agent"],
            &["inherited"],
            &["login_env"],
        ],
    ),
    (
        "server",
        &[
            &["clock"],
            &["tls"],
            &["tokens"],
            &["caller"],
            &["hosts"],
            &["login_sessions"],
            &["auth"],
            &["data"],
            &["store"],
            &["consistency"],
            &["recovery"],
            &["backup"],
            &["catch_up"],
            &["change_feed"],
            &["config"],
            &["model_admission"],
            &["convert"],
            &["enforcement"],
            &["estimate_command"],
            &["event_logging"],
            &["latency"],
            &["summary"],
            &["job_index"],
            &["repairs"],
            &["replica"],
            &["replicator"],
            &["engine"],
            &["worker_protocol"],
            &["remote_workers"],
            &["units"],
            &["shortage_text"],
            &["why"],
            &["forecast"],
            &["forecast_cache"],
            &["idle_gpus"],
            &["outcome_text"],
            &["views"],
            &["listing"],
            &["login_envs"],
            &["logs"],
            &["select"],
            &["quota"],
            &["serve"],
            &["simulation"],
            &["recording"],
            &["replays"],
            &["output_tail"],
            &["app"],
            &["http"],
            &["pages"],
            &["router"],
            &["unix_listener"],
            &["forwarder"],
            &["usage_samples"],
            &["daemon"],
            &["worker_daemon"],
            &["simulated_server"],
        ],
    ),
    (
        "warpyard",
        &[
            &["usage_error"],
            &["input"],
            &["exit"],
            &["demo"],
            &["logging"],
            &[
                "cli",
                "commands",
                "complete",
                "context",
                "doctor",
                "follow",
                "install",
                "session",
                "show",
                "simulation",
                "submission",
                "watch",
                "workload",
            ],
            &["book"],
            &["overview"],
            &["usage"],
        ],
    ),
];

/// Files that hold nothing but tests, or what tests share.
const TEST_FILES: [&str; 2] = ["tests.rs", "testing.rs"];

/// The code of a file without comments and without its test modules.
fn production_code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let opens_tests =
            line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(|next| next.ends_with('{'));
        if opens_tests {
            let indent = line.len() - line.trim_start().len();
            let end = format!("{}}}", " ".repeat(indent));
            lines.by_ref().find(|line| *line == end);
        } else if !line.trim_start().starts_with("//") {
            code += line;
            code.push('\n');
        }
    }
    code
}

/// The names that follow `crate::` in a text, those in braces too.
fn names_of_the_crate(code: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    names.insert(word(&list[i..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// What the root of a crate re-exports, by the module it is from.
fn re_exports(root: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for item in root
        .split(';')
        .filter_map(|item| item.split_once("use ").filter(|(before, _)| before.contains("pub")))
    {
        let path = item.1.trim().trim_start_matches("crate::");
        if let Some((module, rest)) = path.split_once("::") {
            let names =
                rest.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
            found.extend(names.map(|name| (name.to_owned(), module.to_owned())));
        }
    }
    found
}

#[test]
fn modules_use_only_the_layers_below_them() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (krate, layers) in LAYERS {
        let src = crates.join(krate).join("src");
        let layer_of = |module: &str| layers.iter().position(|layer| layer.contains(&module));
        let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|path| path.exists());
        let exported = re_exports(&production_code(&root.expect("a crate has a root")));
        let mut files = Vec::new();
        sources(&src, &mut files);
        for file in files {
            let inside = file.strip_prefix(&src).expect("a file of the crate");
            let name = inside.file_name().and_then(|name| name.to_str()).expect("a plain name");
            let first =
                inside.components().next().expect("a path").as_os_str().to_str().expect("a plain name");
            let module = first.trim_end_matches(".rs");
            if TEST_FILES.contains(&name) || ["lib", "main"].contains(&module) {
                continue;
            }
            let own =
                layer_of(module).unwrap_or_else(|| panic!("{krate}::{module} has no layer in the table"));
            for name in names_of_the_crate(&production_code(&file)) {
                let known = exported.iter().find(|(item, _)| *item == name);
                let used = known.map_or(name.as_str(), |(_, module)| module);
                if used == module {
                    continue;
                }
                if let Some(layer) = layer_of(used) {
                    assert!(
                        layer <= own,
                        "{krate}: {} uses {used}, which is above {module}",
                        inside.display()
                    );
                }
            }
        }
    }
}

#[test]
fn only_the_stores_know_sqlite() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for (krate, _) in MAY_USE {
        sources(&crates.join(krate).join("src"), &mut files);
    }
    let stores = crates.join("server/src/store");
    let is_test =
        |file: &PathBuf| file.file_name().is_some_and(|name| TEST_FILES.iter().any(|test| name == *test));
    let with = |file: &&PathBuf| production_code(file).contains("rusqlite") && !is_test(file);
    let users: Vec<_> = files.iter().filter(with).collect();
    assert!(users.iter().any(|file| file.starts_with(&stores)), "the search finds the stores");
    let elsewhere: Vec<_> = users.into_iter().filter(|file| !file.starts_with(&stores)).collect();
    assert!(elsewhere.is_empty(), "rusqlite belongs under store/: {elsewhere:?}");
}
