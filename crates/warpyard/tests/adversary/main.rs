//! The adversary suite: hostile users, files, requests, clocks and disks against the real binary. Each test is one attack
//! and one row of the tables in `docs/security.md`, which says what is expected of it; this file holds the two to each other.
//! Rows of attacks that would take the real binary half a minute, or a kernel other than this one, name a test of the crate
//! that fends them off.

mod devices;
mod files;
#[path = "../support/hung.rs"]
mod hung;
mod identity;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod machine;
mod requests;
mod state;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn every_attack_is_a_row_of_the_threat_model_and_every_row_an_attack() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = |path: &Path| fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut attacks = BTreeSet::new();
    for module in ["devices", "files", "identity", "requests", "state"] {
        let source = text(&root.join(format!("tests/adversary/{module}.rs")));
        for after in source.split("#[test]").skip(1) {
            let name = after.split("fn ").nth(1).and_then(|rest| rest.split('(').next()).expect("a test");
            attacks.insert(format!("{module}::{name}"));
        }
    }
    // | attack | expected | `module::test` |
    let document = text(&root.join("../../docs/security.md"));
    let cell = |line: &str| line.strip_suffix("` |")?.rsplit_once('`').map(|(_, name)| name.to_owned());
    let rows: BTreeSet<String> = document.lines().filter_map(cell).collect();
    let (elsewhere, rows): (BTreeSet<_>, BTreeSet<_>) =
        rows.into_iter().partition(|row| is_elsewhere(root, row));
    for row in elsewhere {
        let (of, name) = row.split_once("::").expect("a crate and a test");
        let found = match of {
            PYTHON => has_python_test(&root.join("../../python/tests"), name),
            _ => has_test(&root.join("..").join(of), name),
        };
        assert!(found, "there is no test {name} in {of}");
    }
    let missing: Vec<_> = attacks.symmetric_difference(&rows).collect();
    assert!(missing.is_empty(), "in only one of docs/security.md and tests/adversary: {missing:?}");
}

/// What rows call the Python package.
const PYTHON: &str = "python";

/// Whether a row names a test of another crate, or of the Python package.
fn is_elsewhere(root: &Path, row: &str) -> bool {
    let is_crate = |of: &str| root.join("..").join(of).join("Cargo.toml").exists();
    row.split_once("::").is_some_and(|(of, _)| of == PYTHON || is_crate(of))
}

/// Whether a test of that name is in a directory of Python files.
fn has_python_test(dir: &Path, name: &str) -> bool {
    let called = format!("    def {name}(self)");
    let sources = fs::read_dir(dir).into_iter().flatten().flatten();
    sources.filter_map(|entry| fs::read_to_string(entry.path()).ok()).any(|source| source.contains(&called))
}

/// Whether a test of that name is anywhere below a directory.
fn has_test(dir: &Path, name: &str) -> bool {
    let called = format!("fn {name}(");
    let is_here = |path: &Path| match path.is_dir() {
        true => has_test(path, name),
        false => {
            path.extension().is_some_and(|end| end == "rs") && {
                let source = fs::read_to_string(path).unwrap_or_default();
                source.split("test]").skip(1).any(|after| {
                    after.trim_start().split('{').next().is_some_and(|head| head.contains(&called))
                })
            }
        }
    };
    fs::read_dir(dir).into_iter().flatten().flatten().any(|entry| is_here(&entry.path()))
}
