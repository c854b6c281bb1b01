//! Work that warpyard did not start, and the GPUs it asks for.

use crate::devices::{FOREIGN, FREE, FakeNvml, gpu, up, world};
use crate::support::{BINARY, FAKE, Server, eventually, output, signal, wait_at};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A command that lives until the test lets it go, and what it says.
struct Holder {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Holder {
    fn start(mut command: Command) -> Holder {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Holder { child, out }
    }

    /// Claims devices for a shell that says which it sees and waits for a line.
    fn claim(server: &Server, options: &[&str]) -> Holder {
        let script = "echo pid $$ sees $CUDA_VISIBLE_DEVICES; read go; exit 7";
        Holder::start(server.command(&[&["claim"], options, &["--", "sh", "-c", script]].concat()))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    /// Lets it go on to its end; gives its exit code.
    fn go(mut self) -> Option<i32> {
        writeln!(self.child.stdin.take().expect("piped"), "go").expect("it reads");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

fn claims(server: &Server) -> Vec<Value> {
    server.json(&["claims"]).as_array().expect("a list").clone()
}

#[test]
fn a_claim_waits_its_turn_runs_here_and_ends_with_its_process() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let busy = server.script(&["--gpus", "2"], &wait_at(&gate));
    eventually("both are taken", || server.state(&busy) == "running");
    let mut holder = Holder::claim(&server, &["--gpus", "1", "--name", "notebook"]);
    eventually("it stands in line", || claims(&server).iter().any(|c| c["state"] == "waiting"));
    let waiting = claims(&server)[0].clone();
    assert_eq!((&waiting["position"], &waiting["gpus"]), (&json!(1), &json!(1)), "{waiting}");
    assert!(waiting["why"].is_string() && waiting["last_heard_at"].is_string(), "{waiting}");
    assert_eq!(waiting["user"], server.json(&["show", &busy])["user"], "whose it is, as of a job");
    let id = waiting["claim"].as_str().expect("an id").to_owned();
    assert!(server.said(&["why", &id]).contains("notebook") || server.said(&["ps"]).contains("notebook"));
    server.open("gate");

    let said = holder.line();
    assert_eq!(said, format!("pid {} sees fake-0-V100", holder.child.id()), "it runs in our own place");
    let held = claims(&server)[0].clone();
    assert_eq!((&held["state"], &held["pid"]), (&json!("held"), &json!(holder.child.id())), "{held}");
    assert!(server.said(&["claims"]).contains("notebook"));
    // Its device is not given to others, and it is let go the moment the process ends.
    let next = server.script(&["--gpus", "2"], "true");
    assert_eq!(server.state(&next), "ready");
    assert_eq!(holder.go(), Some(7), "its exit code is the command's");
    assert_eq!(server.outcome(&next), "succeeded");
    assert_eq!(server.outcome(&id), "succeeded");
    assert!(claims(&server).is_empty());
}

#[test]
fn a_claim_outlives_the_server_and_not_its_process() {
    let mut server = Server::up(&FAKE);
    let mut holder = Holder::claim(&server, &["--gpus", "1"]);
    assert!(holder.line().contains("fake-0-V100"));
    let id = claims(&server)[0]["claim"].as_str().expect("an id").to_owned();
    server.end_by(Signal::SIGKILL);
    server.start();
    eventually("it is found again", || claims(&server).iter().any(|c| c["state"] == "held"));
    server.end_by(Signal::SIGKILL);
    // Killed while nobody looks: the next server finds it over.
    signal(holder.child.id(), Signal::SIGKILL);
    holder.child.wait().expect("it ends");
    server.start();
    assert_eq!(server.outcome(&id), "succeeded");
}

#[test]
fn a_shell_holds_what_it_exports_for_as_long_as_it_lives() {
    let server = Server::up(&FAKE);
    let mut shell = Command::new("bash");
    let script = r#"eval "$("$0" claim --gpus 0,1 --wait-mode queue --export)"; echo $CUDA_VISIBLE_DEVICES $WARPYARD_CLAIM; read go"#;
    shell.args(["-c", script, BINARY]).env("WARPYARD_DATA", server.data());
    let mut shell = Holder::start(shell);
    assert_eq!(shell.line(), "fake-0-V100,fake-1-V100 1");
    assert_eq!(
        claims(&server)[0]["pid"],
        json!(shell.child.id()),
        "the shell itself, not the one in between"
    );
    shell.go();
    assert_eq!(server.outcome("1"), "succeeded");
}

#[test]
fn a_claim_is_released_by_hand_and_lasts_longer_when_extended() {
    let server = Server::up(&FAKE);
    let mut holder = Holder::claim(&server, &["--for", "1h"]);
    holder.line();
    let until = |server: &Server| claims(server)[0]["until"].as_str().expect("a time").to_owned();
    let before = until(&server);
    let id = claims(&server)[0]["claim"].as_str().expect("an id").to_owned();
    server.said(&["extend", &id, "1h"]);
    assert!(until(&server) > before, "{before}");
    server.said(&["release", &id]);
    assert_eq!(server.outcome(&id), "succeeded");
    let again = server.ask(&["extend", &id, "1h"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    // The process is not ours: it goes on, without the claim.
    assert_eq!(holder.go(), Some(7));
    let brief = Holder::claim(&server, &["--for", "200ms"]);
    eventually("its time is over", || server.said(&["history"]).contains("sh") && claims(&server).is_empty());
    drop(brief);
}

#[test]
fn programs_of_other_languages_claim_over_http() {
    let server = Server::up(&FAKE);
    let token = std::fs::read_to_string(server.data().join("token")).expect("a token");
    let url = std::fs::read_to_string(server.data().join("address")).expect("an address");
    let call = |method: &str, path: &str, body: &str| {
        let mut curl = Command::new("python3");
        let program = "import json,sys,urllib.request as u\n\
            url,token,method,body=sys.argv[1:]\n\
            r=u.Request(url,method=method,data=body.encode() or None,headers={'Authorization':'Bearer '+token,'Content-Type':'application/json'})\n\
            print(u.urlopen(r).read().decode())";
        curl.args(["-c", program, &format!("{}{path}", url.trim()), token.trim(), method, body]);
        serde_json::from_str::<Value>(&output(&mut curl).fine()).expect("JSON")
    };
    let made = call("POST", "/v1/claims", r#"{"needs": {"gpus": 1}, "lease": "2s"}"#);
    let id = made["claim"].as_str().expect("an id").to_owned();
    let granted = call("GET", &format!("/v1/claims/{id}?wait=granted"), "");
    assert_eq!(
        (&granted["state"], &granted["env"]["CUDA_VISIBLE_DEVICES"]),
        (&json!("held"), &json!("fake-0-V100"))
    );
    let heard = call("POST", &format!("/v1/claims/{id}/heartbeat"), "");
    assert!(heard["last_heard_at"].is_string(), "{heard}");
    // Nobody is heard of any more, so it lapses.
    assert_eq!(server.outcome(&id), "succeeded");
    let other = call("POST", "/v1/claims", r#"{"needs": {"gpus": 2}}"#);
    let id = other["claim"].as_str().expect("an id").to_owned();
    call("POST", &format!("/v1/claims/{id}/release"), "");
    eventually("it is over", || claims(&server).is_empty());
}

#[test]
fn a_process_that_took_a_gpu_without_asking_is_adopted() {
    let fake = FakeNvml::new(&world(&[FREE]));
    let server = up(&fake);
    let mut taker = Command::new("sleep").arg("600").spawn().expect("it runs");
    fake.set(&world(&[&format!("used 3000000000\ncompute {} 3000000000", taker.id())]));
    eventually("it is seen", || gpu(&server, 0)["unavailable"] == "in use by someone else");
    // It is said which process it is and whose, and what it has is counted once.
    let table = server.said(&["gpus"]);
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).expect("accounts").expect("ours").name;
    let whose = format!("2.8 / 16.0 GiB | not ours: pid {} ({user}) 2.8G", taker.id());
    assert!(table.contains(&whose), "{table}");
    let doctor = server.ask(&["doctor"]).out;
    assert!(doctor.contains(&format!("`warpyard adopt {}`", taker.id())), "{doctor}");
    let adopted = server.json(&["adopt", &taker.id().to_string()]);
    assert_eq!(adopted["gpus"], 1, "{adopted}");
    eventually("it is no longer someone else's", || gpu(&server, 0)["unavailable"] == Value::Null);
    eventually("it holds it", || claims(&server)[0]["state"] == "held");
    assert_eq!(gpu(&server, 0)["tasks"][0]["name"], "adopted");
    // Gone, and the device is free again.
    fake.set(&world(&[FREE]));
    taker.kill().expect("it can be ended");
    taker.wait().expect("it ends");
    assert_eq!(server.outcome(adopted["claim"].as_str().expect("an id")), "succeeded");
    fake.set(&world(&[FOREIGN]));
    eventually("another is not", || gpu(&server, 0)["unavailable"] == "in use by someone else");
}

#[test]
fn what_cannot_be_claimed_is_said_at_once() {
    let server = Server::up(&FAKE);
    for (args, said) in [
        (&["claim"][..], "a claim needs a process"),
        (&["claim", "--gpus", "9", "--", "true"], "error: --gpus: 9 GPUs"),
        (&["claim", "--gpus", "x", "--", "true"], "gpus"),
        (&["claim", "--pid", "4194304"], "no process 4194304"),
        (&["adopt", "4194304"], "no process 4194304"),
        (&["extend", "7", "1h"], "no claim 7"),
    ] {
        let answer = server.ask(args);
        assert_eq!(answer.code, Some(2), "{args:?}: {answer:?}");
        assert!(answer.err.contains(said), "{args:?}: {answer:?}");
    }
    let answer = server.ask(&["claim", "--", "no-such-program-here"]);
    assert!(answer.code != Some(0) && answer.err.contains("no-such-program-here"), "{answer:?}");
    eventually("nothing is held for it", || claims(&server).is_empty());
}

#[test]
fn a_claim_for_what_cannot_be_run_exits_as_a_shell_does_and_holds_nothing() {
    let server = Server::up(&FAKE);
    for (program, code) in [("no-such-program", 127), ("/etc", 126)] {
        let failed = server.ask(&["claim", "--gpus", "1", "--", program]);
        assert_eq!(failed.code, Some(code), "{failed:?}");
        eventually("its device is free again", || claims(&server).is_empty());
    }
}

#[test]
fn a_waiting_claim_ends_with_its_process() {
    let server = Server::up(&FAKE);
    let gate = server.path("gate");
    let busy = server.script(&["--gpus", "2"], &wait_at(&gate));
    eventually("both are taken", || server.state(&busy) == "running");
    let mut holder = Holder::claim(&server, &["--gpus", "1"]);
    eventually("it stands in line", || claims(&server).len() == 1);
    let id = claims(&server)[0]["claim"].as_str().expect("an id").to_owned();
    signal(holder.child.id(), Signal::SIGINT);
    holder.child.wait().expect("it ends");
    // Its lease is ten minutes: it is the end of the process that ends it.
    assert_eq!(server.outcome(&id), "cancelled");
    // A shell lives on, and the command in it that waited does not.
    let mut shell = Command::new("bash");
    shell
        .args(["-c", r#""$0" claim --gpus 1 --export & echo $!; read go"#, BINARY])
        .env("WARPYARD_DATA", server.data());
    let mut shell = Holder::start(shell);
    let waiting: u32 = shell.line().parse().expect("a number");
    eventually("it stands in line", || claims(&server).len() == 1);
    signal(waiting, Signal::SIGKILL);
    eventually("nobody came back for it", || claims(&server).is_empty());
    server.open("gate");
    assert_eq!(server.outcome(&busy), "succeeded");
}

#[test]
fn a_waiting_claim_keeps_its_place_over_a_restart_of_the_server() {
    let mut server = Server::up(&FAKE);
    let gate = server.path("gate");
    let busy = server.script(&["--gpus", "2"], &wait_at(&gate));
    eventually("both are taken", || server.state(&busy) == "running");
    let mut first = Holder::claim(&server, &["--gpus", "2", "--name", "first"]);
    eventually("it stands in line", || claims(&server).len() == 1);
    let mut second = Holder::claim(&server, &["--gpus", "2", "--name", "second"]);
    eventually("both stand in line", || claims(&server).len() == 2);
    server.end_by(Signal::SIGKILL);
    server.start();
    let waiting: Vec<_> =
        claims(&server).iter().map(|c| (c["name"].clone(), c["position"].clone())).collect();
    assert_eq!(waiting, [(json!("first"), json!(1)), (json!("second"), json!(2))]);
    // The second ends while the new server watches; the first is granted its turn.
    let gone = claims(&server)[1]["claim"].as_str().expect("an id").to_owned();
    signal(second.child.id(), Signal::SIGKILL);
    second.child.wait().expect("it ends");
    assert_eq!(server.outcome(&gone), "cancelled");
    server.open("gate");
    assert!(first.line().contains("sees fake-0-V100,fake-1-V100"));
    assert_eq!(first.go(), Some(7));
}
