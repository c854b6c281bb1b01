//! Closed from the first day, and shutting down.

use crate::support::{FAKE, Server, eventually, is_alive, output, wait_at, warpyard};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

/// The status and body of a call.
pub(crate) fn call(server: &Server, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let url = fs::read_to_string(server.data().join("address")).unwrap();
    let mut stream = TcpStream::connect(url.trim().strip_prefix("http://").unwrap()).unwrap();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn every_call_needs_the_token_that_only_its_owner_can_read() {
    let server = Server::up(&FAKE);
    let path = server.data().join("token");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(server.data()).unwrap().permissions().mode() & 0o077, 0);
    let token = fs::read_to_string(&path).unwrap().trim().to_owned();
    let wrong = "0".repeat(token.len());
    let calls = [
        ("GET", "/v1/jobs"),
        ("GET", "/v1/info"),
        ("POST", "/v1/jobs"),
        ("POST", "/v1/shutdown"),
        ("GET", "/v1/schema/job"),
    ];
    for (method, path) in calls {
        for token in [None, Some(wrong.as_str()), Some(""), Some(&token[1..])] {
            let (status, answer) = call(&server, method, path, token);
            assert_eq!(status, 401, "{method} {path}");
            assert!(
                answer.contains("application/problem+json") && answer.contains("\"code\":\""),
                "{answer}"
            );
        }
    }
    assert_eq!(call(&server, "GET", "/v1/jobs", Some(&token)).0, 200);

    // A person with a browser is shown where to log in, and nothing else.
    for page in ["/", "/queue", "/finished", "/jobs/1", "/jobs/1/log"] {
        for token in [None, Some(wrong.as_str())] {
            let (status, answer) = call(&server, "GET", page, token);
            assert_eq!(status, 401, "{page}");
            assert!(answer.contains("<form") && !answer.contains("V100"), "{page}: {answer}");
        }
    }

    let elsewhere = tempfile::tempdir().unwrap();
    let url = fs::read_to_string(server.data().join("address")).unwrap();
    let stranger = |token: Option<&str>| {
        let mut command = warpyard(elsewhere.path(), &["ps"]);
        command.env("WARPYARD_SERVER", url.trim());
        token.map(|token| command.env("WARPYARD_TOKEN", token));
        output(&mut command)
    };
    assert_ne!(stranger(None).code, Some(0));
    assert_ne!(stranger(Some(&wrong)).code, Some(0));
    assert_eq!(stranger(Some(&token)).code, Some(0), "whoever has the token is let in from anywhere");
}

#[test]
fn what_names_no_user_is_the_accounts_the_server_runs_as() {
    let server = Server::up(&FAKE);
    let token = fs::read_to_string(server.data().join("token")).unwrap();
    let url = fs::read_to_string(server.data().join("address")).unwrap();
    let account =
        nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().expect("whoever tests has one");
    let mut stream = TcpStream::connect(url.trim().strip_prefix("http://").unwrap()).unwrap();
    let body = r#"{"doc": {"command": "pwd; echo $USER $HOME"}, "login_environment": true}"#;
    write!(
        stream,
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        token.trim(),
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.outcome("1"), "succeeded");
    let home = account.dir.display();
    assert_eq!(server.said(&["logs", "1"]), format!("{home}\n{} {home}\n", account.name));
    assert_eq!(server.json(&["show", "1"])["user"], *account.name);
}

#[test]
fn what_tasks_were_given_and_printed_is_closed_even_in_a_directory_that_is_open() {
    let mut server = Server::down(&FAKE);
    fs::create_dir(server.data()).unwrap();
    fs::set_permissions(server.data(), fs::Permissions::from_mode(0o755)).unwrap();
    server.start();
    assert_eq!(server.outcome(&server.script(&[], "echo said")), "succeeded");
    for name in ["log.db", "log.db-wal", "history.db", "logs", "token"] {
        let mode = fs::metadata(server.data().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

#[test]
fn it_listens_on_loopback_only() {
    let server = Server::up(&FAKE);
    let url = fs::read_to_string(server.data().join("address")).unwrap();
    let port: u16 = url.trim().rsplit(':').next().unwrap().parse().unwrap();
    let tables = ["tcp", "tcp6"]
        .map(|table| fs::read_to_string(format!("/proc/{}/net/{table}", server.pid())).unwrap_or_default());
    let port = format!(":{port:04X}");
    let listening: Vec<&str> = tables
        .iter()
        .flat_map(|table| table.lines())
        .filter(|line| line.split_whitespace().nth(3) == Some("0A"))
        .filter_map(|line| line.split_whitespace().nth(1))
        .filter(|local| local.ends_with(&port))
        .collect();
    assert_eq!(listening, [format!("0100007F{port}")]);
}

#[test]
fn a_second_server_on_the_same_data_is_refused_and_told_whose_it_is() {
    let server = Server::up(&FAKE);
    let refused = output(&mut server.up_command());
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains(&format!("pid {}", server.pid())), "{}", refused.err);
    assert_eq!(server.said(&["run", "--", "echo", "unharmed"]), "unharmed\n");
}

#[test]
fn signals_leave_tasks_running_and_the_next_server_finds_them() {
    let mut server = Server::up(&FAKE);
    let gate = server.path("gate");
    let script = format!("echo $$; echo started; {}; echo done; exit 6", wait_at(&gate));
    let job = server.script(&["--gpus", "1"], &script);
    server.printed(&job, "started");
    let task: u32 = server.said(&["logs", &job]).lines().next().unwrap().parse().unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (status, said) = server.end_by(signal);
        assert!(status.success(), "{signal}: {status}: {said}");
        assert!(is_alive(task), "{signal}");
        assert_eq!(server.ask(&["ps"]).code, Some(3));
        let banner = server.start();
        assert!(banner.contains("resumed  1 running task"), "{banner}");
        assert_eq!(server.state(&job), "running");
    }
    let (_, _) = server.end_by(Signal::SIGTERM);
    server.open("gate");
    eventually("the task ends while nobody watches", || !is_alive(task));
    server.start();
    assert_eq!(server.outcome(&job), "failed");
    let shown = server.json(&["show", &job]);
    assert_eq!(
        (&shown["tasks"][0]["exit_code"], shown["tasks"][0]["attempts"].as_array().map(Vec::len)),
        (&6.into(), Some(1))
    );
    assert_eq!(server.said(&["logs", &job]), format!("{task}\nstarted\ndone\n"));
}

#[test]
fn down_can_end_the_tasks_too() {
    let mut server = Server::up(&FAKE);
    let job = server.script(&["--gpus", "1"], "exec 2>/dev/null; echo $$; trap 'echo saved; exit 0' TERM; echo started; while :; do sleep 0.02; done");
    server.printed(&job, "started");
    let task: u32 = server.said(&["logs", &job]).lines().next().unwrap().parse().unwrap();
    server.said(&["down", "--kill-tasks"]);
    // What `down` says is so when it says it: the tasks have ended, and the next server can have the directory.
    assert!(!is_alive(task));
    let lock = fs::File::open(server.data().join("lock")).unwrap();
    assert!(lock.try_lock().is_ok(), "the data directory is still held");
    drop(lock);
    let (status, _) = server.ended();
    assert!(status.success());
    server.start();
    assert_eq!(server.outcome(&job), "cancelled");
    assert_eq!(server.said(&["logs", &job]), format!("{task}\nstarted\nsaved\n"));
}
