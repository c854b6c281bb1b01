//! Stories in small text files, each told to the simulator and checked line by line: `scenarios/*.txt`.
//!
//! A line is a moment (`t=10s`; none means the one before) and something done or expected then. Jobs and workers go by
//! their names, tasks as `job`, `job.task` or `job[value]`, devices as `worker/number`.

mod scenario;

use std::path::Path;

#[test]
fn every_scenario_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 25, "only {} scenarios were found", files.len());
    let mut wrong = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        if let Err((line, why)) = scenario::check(&text) {
            wrong.push(format!("{}:{line}: {why}", file.file_name().unwrap().display()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} do not hold:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

#[test]
fn a_scenario_can_fail() {
    let wrong =
        "cluster w1: 1xV100:16GiB\nsubmit a gpus=1 runs=5s\nexpect a running on w1\nt=5s expect a running";
    assert_eq!(scenario::check(wrong), Err((4, "expected a running, but it is succeeded".to_owned())));
}
