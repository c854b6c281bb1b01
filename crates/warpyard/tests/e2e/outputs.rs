//! What is said of a job, everywhere at once: by every command, as text and as JSON, by every page and by everything that
//! can be asked over HTTP. Nothing of it has a secret of the job's, or anything a terminal or a browser would obey.

use crate::closed::call;
use crate::support::{FAKE, Server, wait_at};
use serde_json::Value;
use std::fs;

/// Commands that say something of a job, with what they are asked here.
const ASKED: [&[&str]; 33] = [
    &["ps"],
    &["ps", "--all"],
    &["ps", "--all", "-o", "+command,exit,tasks"],
    &["logs", "--tail", "3", "JOB"],
    &["show", "JOB"],
    &["show", "JOB", "--expand"],
    &["snapshot", "diff", "JOB"],
    &["logs", "JOB"],
    &["why", "JOB"],
    &["why", "LATER"],
    &["wait", "DONE"],
    &["hold", "LATER"],
    &["release", "LATER"],
    &["priority", "LATER", "3"],
    &["pause", "JOB"],
    &["resume", "JOB"],
    &["throughputs"],
    &["claims"],
    &["extend", "JOB", "1h"],
    &["limits"],
    &["gpus"],
    &["workers"],
    &["policies"],
    &["policy"],
    &["history"],
    &["info"],
    &["doctor"],
    &["replay", "--policies", "fifo,sjf"],
    &["admin", "rebuild"],
    &["submit", "hostile.toml"],
    &["submit", "wrong.toml"],
    &["retry", "DONE"],
    &["cancel", "LATER"],
];

/// Commands that say nothing of a server's jobs, or cannot be asked of this one.
const OTHERS: [&str; 27] = [
    "up",
    "run",
    "progress",
    "claim",
    "adopt",
    "drain",
    "worker",
    "forget",
    "login",
    "token",
    "tls",
    "down",
    "plan",
    "estimate",
    "learn",
    "allocate",
    "sim",
    "compare",
    "trace",
    "reproduce",
    "schema",
    "install",
    "uninstall",
    "completions",
    "attach",
    "ls",
    "help",
];

/// The pages a job is seen on.
const PAGES: [&str; 10] = [
    "/",
    "/queue",
    "/finished",
    "/jobs/JOB",
    "/jobs/LATER",
    "/jobs/DONE",
    "/new",
    "/cluster",
    "/policies",
    "/what-if",
];

/// A server with a job that runs, one that waits and one that is over, all alike.
struct Told {
    server: Server,
    jobs: [(&'static str, String); 3],
}

impl Told {
    fn of(document: &str) -> Self {
        let server = Server::up(&FAKE);
        let gate = server.path("gate");
        let document = document.replace("WAIT", &wait_at(&gate));
        server.write("hostile.toml", &document);
        // The server's own files change while they are looked through.
        server.write(".warpyardignore", "/data\n");
        // The same with a mistake in each line that could be quoted.
        server.write("wrong.toml", &document.replace("env = {", "evn = {").replace("command", "comand"));
        let submit = || server.submit(&["--snapshot", "hostile.toml"]);
        server.open("gate");
        let done = submit();
        server.outcome(&done);
        fs::remove_file(&gate).expect("it was opened");
        let (job, later) = (submit(), submit());
        server.printed(&job, "started");
        Self { server, jobs: [("JOB", job), ("LATER", later), ("DONE", done)] }
    }

    fn named(&self, text: &str) -> String {
        self.jobs.iter().fold(text.to_owned(), |text, (name, job)| text.replace(name, job))
    }

    /// Everything that is said as text for people, and whether it is JSON.
    fn all(&self) -> Vec<(String, bool, String)> {
        let token = fs::read_to_string(self.server.data().join("token")).expect("a token");
        let mut all = Vec::new();
        let get = |path: &str| {
            let (status, answer) = call(&self.server, "GET", path, Some(token.trim()));
            assert!(status < 500, "{path}: {answer}");
            (status, answer)
        };
        for page in PAGES {
            let (status, answer) = get(&self.named(page));
            assert_eq!(status, 200, "{page}: {answer}");
            all.push((page.to_owned(), false, answer));
        }
        let (_, description) = get("/v1/openapi.json");
        let description =
            &description[description.find('{').expect("JSON")..=description.rfind('}').expect("JSON")];
        let description: Value = serde_json::from_str(description).expect("JSON");
        for (path, methods) in description["paths"].as_object().expect("paths") {
            // A stream of events has no end.
            if methods.get("get").is_none() || path == "/v1/events" {
                continue;
            }
            for (_, job) in &self.jobs {
                let path = path.replace("{id}", job).replace("{ids}", "0");
                all.push((path.clone(), true, get(&path).1));
            }
        }
        for asked in ASKED {
            for json in [&[][..], &["--json"]] {
                let args: Vec<_> = asked.iter().map(|word| self.named(word)).collect();
                let args: Vec<_> = args.iter().map(String::as_str).chain(json.iter().copied()).collect();
                let answer = self.server.ask(&args);
                assert_ne!(answer.code, Some(3), "{args:?}: {answer:?}");
                all.push((args.join(" "), !json.is_empty(), answer.out));
                all.push((args.join(" "), false, answer.err));
            }
        }
        all
    }
}

#[test]
fn every_command_is_looked_at() {
    let server = Server::down(&[]);
    let help = server.said(&["--help"]);
    // Commands are listed by group; what comes after the groups is about options and exit codes.
    let (commands, _) = help.split_once("`warpyard help COMMAND`").expect("a list of commands");
    let listed: Vec<_> = commands.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert!(listed.len() > 40, "{help}");
    for command in listed.iter().filter_map(|line| line.split_whitespace().next()) {
        let known = OTHERS.contains(&command) || ASKED.iter().any(|asked| asked[0] == command);
        assert!(known, "what does `{command}` say of a job? Put it into one of the tables above");
    }
}

#[test]
fn a_secret_is_in_nothing_that_is_said() {
    let told = Told::of(
        r#"
        name = "train"
        command = ["sh", "-c", "test $API_KEY = kept-by-the-task || exit 9; echo started; WAIT", "x", "--api-token", "kept-by-the-task"]
        gpus = 2
        env = { API_KEY = "kept-by-the-task", DB_PASSWORD = "kept-by-the-task", MY_TOKEN = "kept-by-the-task", EPOCHS = "shown-9" }
        "#,
    );
    let all = told.all();
    for (place, _, text) in &all {
        // The test itself is in the command; a shell's comparison is nothing that could be guessed to be a secret.
        let text = text.replace("$API_KEY = kept-by-the-task", "");
        assert!(!text.contains("kept-by-the-task"), "{place}: {text}");
    }
    let shown = |place: &str| {
        all.iter().find(|(at, ..)| at == place).map(|(.., text)| text.clone()).unwrap_or_default()
    };
    for place in [
        told.named("show JOB"),
        told.named("show JOB --json"),
        "/jobs/JOB".into(),
        told.named("/v1/jobs/JOB"),
    ] {
        assert!(
            shown(&place).contains("shown-9"),
            "what is no secret is shown by {place}: {}",
            shown(&place)
        );
    }
    // Whatever is said of it, it runs again with what it was given.
    let done = &told.jobs[2].1;
    told.server.open("gate");
    assert_eq!(told.server.outcome(done), "succeeded");
}

#[test]
fn nothing_that_is_said_is_obeyed() {
    // An escape sequence, a bell, a change of direction, a line break, and what a page would run.
    let hostile = r"\u001b[2Jred\u0007\u202eleft\u2066\u2028<script>alert(1)</script>";
    let document = r#"
        name = "plain"
        command = ["sh", "-c", "echo started; WAIT", "HOSTILE", "a\nb"]
        gpus = 2
        env = { SEEN = "HOSTILE", "HOSTILE" = "x" }
        "#;
    let told = Told::of(&document.replace("HOSTILE", hostile));
    let harmful = |c: char| matches!(c, '\u{1b}' | '\u{7}' | '\u{202e}' | '\u{2066}' | '\u{2028}');
    for (place, json, text) in told.all() {
        // JSON says what it was given, in a form that a terminal does not obey.
        let obeyed = |c: char| if json { c.is_control() && c != '\n' && c != '\r' } else { harmful(c) };
        let found = text.find(obeyed).map(|at| text[at..].chars().next());
        assert_eq!(found, None, "{place}: {text:?}");
        let page = place.starts_with('/') && !json;
        assert!(!page || !text.contains("<script>alert"), "{place}: {text}");
    }
}

#[test]
fn what_would_be_obeyed_is_no_name() {
    let server = Server::up(&FAKE);
    let fields = [
        "name = \"X\"\ncommand = 'true'",
        "project = \"X\"\ncommand = 'true'",
        "profile = \"X\"\ncommand = 'true'",
        "[[tasks]]\nname = \"X\"\ncommand = 'true'",
    ];
    for hostile in [
        r"a\nb",
        r"a\u001b[31m",
        r"a\u202eb",
        r"a\u2066b",
        r"a\u0000",
        r"a\u2028b",
        r"a\u200fb",
        r"\t",
        r"a\u200bb",
    ] {
        for field in fields {
            server.write("job.toml", &field.replace('X', hostile));
            let refused = server.ask(&["submit", "job.toml"]);
            assert_eq!(refused.code, Some(2), "{field} {hostile}: {refused:?}");
            assert!(!refused.err.trim().chars().any(|c| c.is_control() && c != '\n'), "{refused:?}");
            assert!(!refused.err.contains(['\u{202e}', '\u{2066}', '\u{2028}', '\u{200f}']), "{refused:?}");
        }
    }
}
