//! The table of crates in ARCHITECTURE.md, held to: who may use whom.

use std::collections::BTreeSet;
use std::path::Path;

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
