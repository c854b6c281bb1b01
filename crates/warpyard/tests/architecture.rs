//! The table of crates in ARCHITECTURE.md, held to: who may use whom; and that nobody but the core decides about attempts.

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
    ("server", &["core", "policies", "sim", "api", "worker", "session", "snapshot"]),
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
    ("DesiredState::", &[]),
    // The executors' own words for what they are told.
    ("Want::", &["sim/src/faults/machine.rs", "sim/src/faults/supervisors.rs", "worker/src/agent/process/"]),
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
