//! The adversary suite: hostile users, files, requests, clocks and disks against the real binary. Each test is one attack
//! and one row of the tables in `docs/security.md`, which says what is expected of it; this file holds the two to each other.

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
    let missing: Vec<_> = attacks.symmetric_difference(&rows).collect();
    assert!(missing.is_empty(), "in only one of docs/security.md and tests/adversary: {missing:?}");
}
