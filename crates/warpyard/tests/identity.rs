//! Identity across machines, with the real binary: TLS by the server's own CA, join tokens and workers' keys, personal tokens
//! and logins. Every server listens on loopback and is told to speak TLS there.

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use support::seat::Seat;
use support::{Answer, FAKE, Server, eventually, output, warpyard};
use warpyard_api::client::{Client, ClientError, Target};
use warpyard_api::token::{Fingerprint, JoinToken, PersonalToken, Secret};

fn tls_server() -> Server {
    Server::up(&[&["--tls", "on"], &FAKE[..]].concat())
}

impl Server {
    fn join_token(&self, options: &[&str]) -> JoinToken {
        let made = self.json(&[&["token", "create", "--role", "worker"], options].concat());
        made["token"].as_str().expect("a token").parse().expect("a join token")
    }

    fn address(&self) -> String {
        fs::read_to_string(self.data().join("address")).expect("it leaves word").trim().to_owned()
    }

    /// A person at another machine, who has a home there and nothing else.
    fn elsewhere(&self, home: &str, args: &[&str]) -> Command {
        let home = self.path(home);
        fs::create_dir_all(&home).expect("a home");
        let mut command = warpyard(self.data(), args);
        command.env_remove("WARPYARD_DATA").env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
        command.env("HOME", &home).current_dir(&home);
        command
    }

    /// The same, with a token pasted into `login`.
    fn log_in(&self, home: &str, token: &str) -> Answer {
        let mut command = self.elsewhere(home, &["login", "--token", "-"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut input = child.stdin.take().expect("piped");
        writeln!(input, "{token}").expect("it reads");
        drop(input);
        Answer::of(child.wait_with_output().expect("it ends"))
    }

    fn personal_token(&self, options: &[&str]) -> String {
        let made = self.json(&[&["token", "create"], options].concat());
        made["token"].as_str().expect("a token").to_owned()
    }
}

fn key() -> Secret {
    Secret::generate().expect("random bytes")
}

/// The code of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, ClientError>) -> String {
    match answer {
        Err(ClientError::Refused(body)) => body.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_worker_joins_once_per_use_by_the_ca_of_its_token_and_its_key_ends_when_it_is_revoked() {
    let mut server = tls_server();
    let token = server.join_token(&["--uses", "2", "--expires", "1h"]);
    assert!(token.server.starts_with("https://127.0.0.1:") && token.ca.is_some(), "{token:?}");
    let (first, second) = (key(), key());
    let reply = Client::join(&token, "gpu1", &first).expect("the first use");
    assert!(reply.worker == "gpu1" && reply.ca.expect("a CA").contains("BEGIN CERTIFICATE"));
    Client::join(&token, "gpu1", &first).expect("a repeated request takes no use");
    assert_eq!(refusal(Client::join(&token, "gpu1", &second)), "worker-exists");
    Client::join(&token, "gpu2", &second).expect("the second use");
    assert_eq!(refusal(Client::join(&token, "gpu3", &key())), "token-used-up");

    // Another server's CA, or a server in the middle: refused before anything is sent, with both fingerprints.
    let other = Fingerprint::of_der(b"another CA");
    let forged = JoinToken { ca: Some(other), ..server.join_token(&[]) };
    let distrust = Client::join(&forged, "gpu4", &key()).expect_err("another CA");
    let said = distrust.to_string();
    let found = token.ca.expect("a CA").to_string();
    assert!(said.contains(&other.to_string()) && said.contains(&found), "{said}");
    assert_eq!(distrust.exit_code(), 2);

    let client = |key: &Secret| {
        Client::new(Target::with_secret(&token.server, token.ca, key.as_str())).expect("an address")
    };
    assert_eq!(client(&first).own_worker().expect("its key").worker, "gpu1");
    assert_eq!(refusal(client(&first).jobs(&Default::default())), "people-only");
    assert_eq!(refusal(client(&first).shutdown(true)), "people-only");

    // Keys and used-up tokens survive a restart; a revoked key counts for nothing, and never again.
    server.end_by(Signal::SIGKILL);
    server.start();
    let again = JoinToken { server: server.address(), ..token.clone() };
    assert_eq!(refusal(Client::join(&again, "gpu3", &key())), "token-used-up");
    let client = |key: &Secret| {
        Client::new(Target::with_secret(&again.server, token.ca, key.as_str())).expect("an address")
    };
    assert_eq!(client(&second).own_worker().expect("its key").worker, "gpu2");
    let data = server.data().to_owned();
    let local = warpyard_api::client::find_server(None, Some(&data), |_| None).expect("a socket");
    let owner = Client::new(local).expect("an address");
    owner.revoke_key("gpu1").expect("it had one");
    assert!(matches!(client(&first).own_worker(), Err(ClientError::Unauthorised { .. })));
    let fresh = server.join_token(&["--uses", "9"]);
    assert_eq!(refusal(Client::join(&fresh, "gpu1", &first)), "key-revoked");
    Client::join(&fresh, "gpu1", &key()).expect("the name is free");

    // An expired token is told from an unknown one.
    let brief = server.join_token(&["--expires", "1s", "--uses", "1000"]);
    eventually("it expires", || match Client::join(&brief, "late", &key()) {
        Err(ClientError::Refused(body)) => body.code == "token-expired",
        Ok(_) => {
            owner.revoke_key("late").expect("it joined");
            false
        }
        Err(other) => panic!("{other}"),
    });
    let unknown = JoinToken { secret: key(), ..fresh };
    assert_eq!(refusal(Client::join(&unknown, "gpu5", &key())), "wrong-token");
    let tokens = server.read("data/tokens.json");
    assert!(!tokens.contains("wys_"), "no secret is stored: {tokens}");
    let mode =
        |file: &str| fs::metadata(server.data().join(file)).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode("tokens.json"), mode("ca.key")), (0o600, 0o600));
}

#[test]
fn people_log_in_from_another_machine_with_a_token_of_their_own() {
    let server = tls_server();
    let token = server.personal_token(&["--user", "ann", "--expires", "30d", "--label", "laptop"]);
    assert!(token.parse::<PersonalToken>().is_ok());
    let cut = server.log_in("laptop", &token[..token.len() - 4]);
    assert!(cut.code == Some(1) && cut.err.contains("incomplete"), "{cut:?}");
    let entered = server.log_in("laptop", &token).fine();
    assert!(entered.contains(&server.address()), "{entered}");
    let file = server.path("laptop/.config/warpyard/servers.toml");
    assert_eq!(fs::metadata(&file).expect("it was written").permissions().mode() & 0o777, 0o600);

    // From now on commands find the server by themselves.
    let ask = |home: &str, args: &[&str]| output(&mut server.elsewhere(home, args));
    let submitted = ask("laptop", &["--json", "submit", "--", "echo", "hello over TLS"]).fine();
    let job: Value = serde_json::from_str(&submitted).expect("JSON");
    let job = job["job"].as_str().expect("a job").to_owned();
    let followed = ask("laptop", &["logs", "-f", &job]).fine();
    assert_eq!(followed, "hello over TLS\n");
    assert_eq!(server.json(&["show", &job])["user"], "ann");
    let not_hers = ask("laptop", &["token", "create", "--user", "bob"]);
    assert!(not_hers.code == Some(2) && not_hers.err.contains("forbidden"), "{not_hers:?}");
    let admin = ask("laptop", &["down"]);
    assert!(admin.code == Some(2) && admin.err.contains("admins-only"), "{admin:?}");

    // A viewer looks, and changes nothing.
    let viewer = server.personal_token(&["--user", "ann", "--role", "viewer"]);
    let view = |args: &[&str]| {
        let mut command = server.elsewhere("nowhere", args);
        output(command.env("WARPYARD_TOKEN", &viewer))
    };
    assert!(view(&["ps", "--all"]).fine().contains("ann"));
    assert_eq!(view(&["logs", &job]).fine(), "hello over TLS\n");
    for change in [&["submit", "--", "true"][..], &["cancel", &job], &["priority", &job, "3"]] {
        let refused = view(change);
        assert!(refused.code == Some(2) && refused.err.contains("read-only"), "{refused:?}");
    }

    // Revoked, a token ends at once; others go on.
    let listed = server.json(&["token", "list"]);
    let laptop = listed.as_array().expect("a list").iter().find(|t| t["label"] == "laptop").expect("hers");
    assert!(laptop["last_used_at"].is_string(), "{laptop}");
    server.said(&["token", "revoke", laptop["id"].as_str().expect("an id")]);
    let refused = ask("laptop", &["ps"]);
    assert!(refused.code == Some(2) && refused.err.contains("does not accept this token"), "{refused:?}");
    view(&["ps"]).fine();

    // On a machine that knows the person, no token need be pasted.
    let here = ["--data", server.data().to_str().expect("text"), "login", "--server"];
    let known = server.elsewhere("desk", &[&here[..], &["https://localhost:1"]].concat());
    let wrong = output(&mut { known });
    assert_eq!(wrong.code, Some(3), "nobody is there, and no token stays behind: {wrong:?}");
    let address = server.address().replace("127.0.0.1", "localhost");
    output(&mut server.elsewhere("desk", &[&here[..], &[&address]].concat())).fine();
    ask("desk", &["ps"]).fine();
    let labels: Vec<_> = server.json(&["token", "list"]).as_array().expect("a list").clone();
    let own = labels.iter().filter(|t| t["label"].as_str().is_some_and(|l| l.starts_with("login from")));
    assert_eq!(own.count(), 1, "{labels:?}");
}

#[test]
fn a_terminal_works_over_tls() {
    let server = tls_server();
    let token = server.personal_token(&["--user", "ann"]);
    let shell = ["run", "--pty", "--", "bash", "--norc", "--noprofile", "-i"];
    let mut command = server.elsewhere("laptop", &shell);
    command.env("TERM", "dumb").env("PS1", "ready> ").env("WARPYARD_TOKEN", &token);
    let mut seat = Seat::take(&command, (33, 101));
    seat.sees("ready> ");
    seat.enter("echo $((6 * 7)); seq 20000 | tail -1");
    seat.sees("42");
    seat.sees("20000");
    // More than any buffer holds at once.
    seat.enter("seq 1 30000; echo all-of-it$((1 + 1))");
    seat.sees("all-of-it2");
    seat.enter("exit");
}

#[test]
fn whoever_speaks_http_to_tls_or_tls_to_http_is_told() {
    let server = tls_server();
    let address = server.address();
    let mut stream = TcpStream::connect(address.trim_start_matches("https://")).expect("a port");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    let mut said = String::new();
    let _reset = stream.read_to_string(&mut said);
    assert!(said.starts_with("HTTP/1.1 426") && said.contains("https://"), "{said}");
    let plain = address.replace("https", "http");
    let token = server.personal_token(&["--user", "ann"]);
    let ask = |server: &Server, url: &str, ca: &str| {
        let mut command = server.elsewhere("laptop", &["--server", url, "ps"]);
        command.env("WARPYARD_TOKEN", token.parse::<PersonalToken>().expect("a token").secret.as_str());
        output(if ca.is_empty() { &mut command } else { command.env("WARPYARD_CA", ca) })
    };
    let refused = ask(&server, &plain, "");
    assert!(refused.code == Some(2) && refused.err.contains("write https://"), "{refused:?}");
    // Without a fingerprint a CA that the machine does not know is not trusted, and the remedy names the fingerprint.
    let unknown = ask(&server, &address, "");
    let print = server.json(&["tls"])["fingerprint"].as_str().expect("a fingerprint").to_owned();
    assert!(unknown.err.contains(&print) && unknown.err.contains("WARPYARD_CA"), "{unknown:?}");
    ask(&server, &address, &print).fine();
    assert!(server.said(&["tls", "ca"]).starts_with("-----BEGIN CERTIFICATE-----"));

    let plain = Server::up(&FAKE);
    let refused = ask(&plain, &plain.address().replace("http", "https"), &print);
    assert!(refused.code == Some(2) && refused.err.contains("does not speak TLS"), "{refused:?}");
}

#[test]
fn tokens_work_over_plain_http_on_loopback_where_the_server_proves_that_it_knows_them() {
    let server = Server::up(&FAKE);
    let token = server.join_token(&[]);
    assert!(token.server.starts_with("http://127.0.0.1:") && token.ca.is_none(), "{token:?}");
    let own = key();
    Client::join(&token, "gpu1", &own).expect("it joins");
    let client = |secret: &Secret| {
        Client::new(Target::with_secret(&token.server, None, secret.as_str())).expect("an address")
    };
    assert_eq!(client(&own).own_worker().expect("its key").worker, "gpu1");
    assert!(matches!(client(&key()).info(), Err(ClientError::Unauthorised { .. })));
    let personal = server.personal_token(&["--user", "ann"]).parse::<PersonalToken>().expect("a token");
    client(&personal.secret).info().expect("her token");
}
