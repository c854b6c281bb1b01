//! The chapters of the book, run as they are written: files that a chapter shows are written, servers it starts are
//! started, and every command must succeed.
//!
//! Comments in a chapter say what its reader does by hand: `<!-- file: NAME -->` before a block saves it under that name,
//! `<!-- server: OPTIONS -->` starts a server as the next `warpyard up` shows it, `<!-- run: COMMAND -->` prepares what the
//! reader has already. Everything after `$ ` in a `console` block is run by a shell, in one directory for the whole chapter,
//! unless `<!-- not run: REASON -->` stands before the block. That every command is one the program takes is tested for all
//! blocks (`src/book.rs`).

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{BINARY, Server, output};

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src");

/// A step of a chapter, in the order a reader takes them.
enum Step<'a> {
    Server(Vec<&'a str>),
    File { name: &'a str, text: &'a str },
    Command(&'a str),
}

/// What is between `before` and `after`, and the rest.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(before)?.split_once(after)
}

fn steps(chapter: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = chapter;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        if let Some((options, _)) = between(line, "<!-- server: ", " -->") {
            steps.push(Step::Server(options.split(' ').collect()));
        } else if let Some((name, _)) = between(line, "<!-- file: ", " -->") {
            let (_, block) = rest.split_once('\n').expect("a block follows the name of its file");
            let (text, after) = block.split_once("```\n").expect("a block ends");
            steps.push(Step::File { name, text });
            rest = after;
        } else if let Some((command, _)) = between(line, "<!-- run: ", " -->") {
            steps.push(Step::Command(command));
        } else if line.starts_with("<!-- not run: ") {
            let (_, after) = rest.split_once("```\n").expect("a block ends");
            rest = after;
        } else if let Some(command) = line.strip_prefix("$ ") {
            // The server is started by the comment above it, on a port of its own.
            if !command.starts_with("warpyard up ") {
                steps.push(Step::Command(command));
            }
        }
    }
    steps
}

/// Runs a chapter; gives how many commands it had.
fn run(path: &Path) -> usize {
    let chapter = fs::read_to_string(path).expect("a chapter");
    let reader = tempfile::tempdir().expect("a directory");
    let bin = reader.path().join("bin");
    fs::create_dir(&bin).expect("a directory");
    std::os::unix::fs::symlink(BINARY, bin.join("warpyard")).expect("a link");
    let search = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut server = None;
    let mut commands = 0;
    for step in steps(&chapter) {
        match step {
            Step::Server(options) => server = Some(Server::up(&options)),
            Step::File { name, text } => {
                fs::write(reader.path().join(name), text).expect("a file is written")
            }
            Step::Command(line) => {
                let data = server.as_ref().map_or(reader.path().join("data"), |s| s.data().to_owned());
                let mut shell = Command::new("sh");
                shell.args(["-c", line]).env("PATH", &search).env("WARPYARD_DATA", data);
                shell.env_remove("WARPYARD_SERVER").current_dir(reader.path()).stdin(Stdio::null());
                let answer = output(&mut shell);
                assert_eq!(answer.code, Some(0), "{}: {line}: {answer:?}", path.display());
                commands += 1;
            }
        }
    }
    commands
}

fn tutorial(name: &str) -> PathBuf {
    Path::new(BOOK).join(format!("tutorial-{name}.md"))
}

#[test]
fn a_lab_shares_a_gpu_server() {
    assert!(run(&tutorial("lab")) > 10);
}

#[test]
fn many_models_on_one_gpu() {
    assert!(run(&tutorial("edge")) > 5);
}

#[test]
fn unlike_gpus_shared_fairly() {
    assert!(run(&tutorial("cluster")) > 5);
}

#[test]
fn a_workflow() {
    assert!(run(&tutorial("workflow")) > 4);
}

#[test]
fn a_policy_is_chosen_by_measuring() {
    assert!(run(&tutorial("policy")) > 3);
}

/// The chapters that are no tutorials, with how many commands of each are run at least.
const REFERENCE: [(&str, usize); 11] = [
    ("estimates", 0),
    ("first-steps", 8),
    ("identity", 2),
    ("interface", 4),
    ("jobs", 3),
    ("laboratory", 3),
    ("operating", 2),
    ("people", 2),
    ("policies", 3),
    ("what-if", 1),
    ("which-policy", 4),
];

#[test]
fn reference_chapters() {
    for (name, least) in REFERENCE {
        let ran = run(&Path::new(BOOK).join(format!("{name}.md")));
        assert!(ran >= least, "{name}: {ran} commands");
    }
}

#[test]
fn every_chapter_with_commands_is_run() {
    let tutorials = ["lab", "edge", "cluster", "workflow", "policy"].map(tutorial);
    let reference = REFERENCE.map(|(name, _)| Path::new(BOOK).join(format!("{name}.md")));
    for entry in fs::read_dir(BOOK).expect("a book") {
        let path = entry.expect("a chapter").path();
        let has_commands =
            fs::read_to_string(&path).expect("text").lines().any(|line| line.starts_with("$ "));
        let is_run = tutorials.contains(&path) || reference.contains(&path);
        assert!(!has_commands || is_run, "{} has commands and no test here", path.display());
    }
}
