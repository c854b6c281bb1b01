//! The commands that need no server, by the real binary: what is printed, in the form scripts rely on, and what is
//! exited with.

mod allocate;
mod estimate;
mod hostile;
mod plan;
mod sim;
mod trace;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BINARY: &str = env!("CARGO_BIN_EXE_warpyard");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

#[derive(Debug)]
struct Answer {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Answer {
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The request was wrong, and what is said of it has all of these in it.
    #[track_caller]
    fn refused(&self, with: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        let said = match serde_json::from_str::<Value>(&self.err) {
            Ok(error) => error["message"].as_str().expect("an error has a message").to_owned(),
            Err(_) => self.err.strip_prefix("error: ").unwrap_or_else(|| panic!("{self:?}")).to_owned(),
        };
        for part in with {
            assert!(said.contains(part), "{part:?} in {said}");
        }
    }
}

fn ask(args: &[&str]) -> Answer {
    let output = Command::new(BINARY).args(args).stdin(Stdio::null()).output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Answer { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A directory with these files in it.
fn files<const N: usize>(of: [(&str, &str); N]) -> (tempfile::TempDir, [String; N]) {
    let dir = tempfile::tempdir().expect("a directory");
    let paths = of.map(|(name, text)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_owned()
    });
    (dir, paths)
}

/// A file of the shared data, if it is here.
fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(DATA).join(path);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not here", path.display());
    }
    path.exists().then_some(path)
}

/// Two tasks on unlike machines: the second is far cheaper on the other one.
const TWO: &str = r#"{"costs": [[3, 5], [4, 1]], "edges": [[0, 1, 2]]}"#;

#[test]
fn faults_are_simulated_and_the_same_seeds_are_the_same_runs() {
    let args = ["sim", "--faults", "heavy", "--seed", "7", "--seeds", "3", "--json"];
    let report = ask(&args).json();
    assert_eq!(
        (&report["level"], &report["first_seed"], &report["runs"]),
        (&json!("heavy"), &json!(7), &json!(3))
    );
    assert_eq!((&report["failure"], &report["reproduce"]), (&Value::Null, &Value::Null));
    assert!(report["steps"].as_u64() > Some(100), "{report}");
    assert_eq!(ask(&args).json(), report);
    ask(&["sim", "--faults", "hevy"]).refused(&["'hevy'", "heavy"]);
    ask(&["sim", "--faults", "heavy", "--cluster", "2xV100"]).refused(&["--cluster"]);
    ask(&["sim"]).refused(&["--cluster"]);
}
