//! The client against a server that says what it is told to and remembers what it was asked.

use serde_json::json;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;
use warpyard_api::client::{Client, ClientError, Target};
use warpyard_api::problem::{Problem, code};
use warpyard_api::proof::server_proof;
use warpyard_api::wire::*;

struct Asked {
    line: String,
    authorization: Option<String>,
    body: String,
}

/// Answers one request after another, each on a connection of its own, and then hands back what was asked.
fn serve(answers: Vec<(u16, String)>) -> (Client, JoinHandle<Vec<Asked>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let server = std::thread::spawn(move || {
        let answer = |(status, body): (u16, String)| {
            let (stream, _) = listener.accept().expect("a caller");
            let mut reader = BufReader::new(stream);
            prove(&mut reader, TOKEN);
            let asked = receive(&mut reader);
            let head =
                format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            reader.get_mut().write_all((head + &body).as_bytes()).expect("a listening caller");
            asked
        };
        answers.into_iter().map(answer).collect()
    });
    (Client::new(Target::with_secret(&url, None, TOKEN)).expect("a good address"), server)
}

const TOKEN: &str = "secret";

/// Proves to a caller that this is the server it means, as far as that token shows it.
fn prove(reader: &mut BufReader<TcpStream>, token: &str) {
    let asked = receive(reader);
    assert_eq!(asked.authorization, None, "the token comes after the proof");
    let nonce = asked.line.strip_prefix("GET /v1/proof?nonce=").and_then(|rest| rest.split(' ').next());
    let host = reader.get_ref().local_addr().expect("an address").to_string();
    let proof = ProofView { proof: server_proof(token, nonce.expect("a nonce"), &host) };
    let body = serde_json::to_string(&proof).expect("JSON");
    let head = format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n", body.len());
    reader.get_mut().write_all((head + &body).as_bytes()).expect("a listening caller");
}

fn receive(reader: &mut impl BufRead) -> Asked {
    let mut next = || {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    };
    let line = next();
    let headers: Vec<String> = std::iter::from_fn(|| Some(next()).filter(|line| !line.is_empty())).collect();
    let header = |name: &str| {
        let named =
            |line: &String| line.split_once(": ").is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
        headers.iter().find(|line| named(line)).map(|line| line[name.len() + 2..].to_owned())
    };
    let mut body = Vec::new();
    if let Some(length) = header("content-length") {
        body.resize(length.parse().expect("a length"), 0);
        reader.read_exact(&mut body).expect("a body");
    } else if header("transfer-encoding").is_some() {
        body = read_chunks(reader);
    }
    Asked { line, authorization: header("authorization"), body: String::from_utf8(body).expect("text") }
}

fn read_chunks(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size).expect("a chunk's size");
        let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).expect("a size") + 2];
        reader.read_exact(&mut chunk).expect("a chunk");
        chunk.truncate(chunk.len() - 2);
        if chunk.is_empty() {
            return body;
        }
        body.extend(chunk);
    }
}

fn job(state: State) -> String {
    json!({"job": "412", "name": "x", "state": state, "outcome": null, "user": "ann", "priority": 0, "project": null,
           "held": false, "submitted_at": "2026-11-15T20:45:20.000Z", "started_at": null, "ended_at": null, "gpus": 0,
           "counts": StateCounts::default(), "outcomes": OutcomeCounts::default(), "why": null, "tasks": [],
           "added_in_a_later_version": 1})
    .to_string()
}

fn lines(asked: JoinHandle<Vec<Asked>>) -> Vec<String> {
    let line = |asked: Asked| format!("{} {}", asked.line.trim_end_matches(" HTTP/1.1"), asked.body);
    asked.join().expect("the server").into_iter().map(line).collect()
}

#[test]
fn every_call_has_its_address_and_the_token() {
    let acted = || (200, json!({"jobs": ["412"], "tasks": 1}).to_string());
    let worker = || {
        let worker = json!({"id": "gpu 1", "state": "draining", "cpus": 8, "used_cpus": 0.5, "memory_bytes": 1,
            "used_memory_bytes": 0, "gpus": 1, "running": 0, "version": "0.1.0"});
        (200, worker.to_string())
    };
    let page = || (200, json!({"items": [], "next": "c2"}).to_string());
    let policy =
        json!({"name": "fifo", "summary": "", "source": "", "params": [], "active": true}).to_string();
    let (client, asked) = serve(vec![
        (201, json!({"job": "412"}).to_string()),
        page(),
        (200, job(State::Running)),
        acted(),
        acted(),
        acted(),
        acted(),
        acted(),
        acted(),
        acted(),
        (200, "[]".into()),
        (200, "[]".into()),
        worker(),
        worker(),
        (200, "[]".into()),
        (200, policy),
        page(),
        (202, String::new()),
        (200, json!({"rows": 7}).to_string()),
        (200, "{}".into()),
    ]);
    let submit = SubmitRequest {
        doc: json!({"command": "true"}),
        user: Some("ann".into()),
        workdir: None,
        env: [].into(),
        login_environment: false,
        snapshot: None,
        terminal: None,
        idempotency_key: Some("k1".into()),
    };
    assert_eq!(client.submit(&submit).unwrap().job, "412");
    let filter = JobFilter {
        user: Some("änn&co".into()),
        state: Some(StateFilter::Ready),
        limit: Some(5),
        ..JobFilter::default()
    };
    assert_eq!(client.jobs(&filter).unwrap().next.as_deref(), Some("c2"));
    client.job("412", true, Some("a b")).unwrap();
    assert_eq!(client.cancel("412.train [3]/x?").unwrap().tasks, 1);
    client.retry("412", true).unwrap();
    client.hold("3-7").unwrap();
    client.release("last").unwrap();
    client.pause("412").unwrap();
    client.resume("412").unwrap();
    client.priority("412", -7).unwrap();
    client.gpus().unwrap();
    client.workers().unwrap();
    client.drain("gpu 1").unwrap();
    client.resume_worker("gpu1").unwrap();
    client.policies().unwrap();
    client.policy_set(&"short-first:beta=2".parse().unwrap()).unwrap();
    client.history(&HistoryFilter { job: Some("412".into()), ..HistoryFilter::default() }).unwrap();
    client.shutdown(true).unwrap();
    assert_eq!(client.rebuild().unwrap().rows, 7);
    client.schema().unwrap();

    let asked = asked.join().unwrap();
    assert!(asked.iter().all(|asked| asked.authorization.as_deref() == Some("Bearer secret")));
    let lines: Vec<String> = asked
        .iter()
        .map(|asked| format!("{} {}\n", asked.line.trim_end_matches(" HTTP/1.1"), asked.body))
        .collect();
    insta::assert_snapshot!("calls", lines.concat());
}

#[test]
fn waiting_asks_again_until_the_job_is_done() {
    let (client, asked) =
        serve(vec![(200, job(State::Ready)), (200, job(State::Running)), (200, job(State::Done))]);
    assert_eq!(client.wait("412", None).unwrap().state, State::Done);
    assert_eq!(lines(asked), ["GET /v1/jobs/412?timeout=1m&wait=done "; 3]);
}

#[test]
fn waiting_for_a_while_ends_with_the_while() {
    let (client, asked) = serve(vec![(200, job(State::Running))]);
    assert_eq!(client.wait("412", Some(Duration::ZERO)).unwrap().state, State::Running);
    assert_eq!(lines(asked), ["GET /v1/jobs/412?timeout=0s&wait=done "]);
}

#[test]
fn a_log_is_read_as_it_comes() {
    let (client, asked) = serve(vec![(200, "one\ntwo\n".into())]);
    let filter = LogFilter {
        task: Some("train".into()),
        index: Some(3),
        stream: LogStream::Stderr,
        follow: true,
        ..LogFilter::default()
    };
    let mut text = String::new();
    client.logs("412", &filter).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "one\ntwo\n");
    assert_eq!(lines(asked), ["GET /v1/jobs/412/logs?follow=true&index=3&stream=stderr&task=train "]);
}

#[test]
fn a_refusal_is_told_with_every_problem() {
    let problems = vec![
        Problem::new(
            code::NO_DEVICE_LARGE_ENOUGH,
            "tasks[2].gpu_memory",
            "24 GiB is more than any GPU here has",
        ),
        Problem::new(code::TOO_FEW_GPUS, "tasks[3].gpus", "no worker has 9 GPUs")
            .with_help("ask for 4 or fewer"),
    ];
    let body = serde_json::to_string(&ProblemBody::of_problems(422, problems.clone())).unwrap();
    let (client, _) = serve(vec![(422, body)]);
    let error = client.why("412").unwrap_err();
    assert_eq!(error.exit_code(), 2);
    insta::assert_snapshot!(error, @r"
    tasks[2].gpu_memory: 24 GiB is more than any GPU here has
      (code: no-device-large-enough)
    error: tasks[3].gpus: no worker has 9 GPUs
      help: ask for 4 or fewer        (code: too-few-gpus)
    ");
    let ClientError::Refused(body) = error else { panic!("{error:?}") };
    assert_eq!(body.problems, problems);
}

#[test]
fn a_refusal_without_problems_is_told_in_a_line() {
    let body = ProblemBody::new(404, code::UNKNOWN_JOB, "no job 412");
    let (client, _) = serve(vec![(404, serde_json::to_string(&body).unwrap())]);
    assert_eq!(client.hold("412").unwrap_err().to_string(), "no job 412 (code: unknown-job)");
}

#[test]
fn a_server_in_trouble_is_no_fault_of_the_request() {
    let body = serde_json::to_string(&ProblemBody::new(503, code::NOT_READY, "starting")).unwrap();
    let (client, _) = serve(vec![(503, body)]);
    assert_eq!(client.info().unwrap_err().exit_code(), 3);
}

#[test]
fn a_wrong_token_says_where_the_right_one_is() {
    let (client, _) = serve(vec![(401, "{}".into())]);
    let error = client.info().unwrap_err();
    let said = format!(
        "the server at {} does not accept this token; set WARPYARD_DATA to its data directory, or WARPYARD_TOKEN to the \
         text of the file 'token' there; or make a personal token with `warpyard token create` on its machine, and log in with it",
        client.url()
    );
    assert_eq!((error.to_string(), error.exit_code()), (said, 2));
    assert!(!format!("{client:?}").contains("secret"));
}

#[test]
fn nobody_there_says_how_to_start_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(Target { url: url.clone(), ..Target::default() }).unwrap();
    let error = client.gpus().unwrap_err();
    let said = format!("no server at {url}; start one with `warpyard up`");
    assert_eq!((error.to_string(), error.exit_code()), (said, 3));
    assert!(error.source().is_some());
}

#[test]
fn something_else_listening_there_is_noticed() {
    let (client, _) = serve(vec![(200, "<html>".into()), (404, "<html>".into()), (502, "<html>".into())]);
    assert!(matches!(client.gpus().unwrap_err(), ClientError::Unreadable { status: 200, .. }));
    assert!(matches!(client.gpus().unwrap_err(), ClientError::Refused(body) if body.code == code::NOT_FOUND));
    assert!(matches!(client.gpus().unwrap_err(), ClientError::Unreadable { status: 502, .. }));
}

#[test]
fn a_server_that_dies_in_the_middle_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        prove(&mut reader, TOKEN);
        receive(&mut reader);
        reader.get_mut().write_all(b"HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n[").unwrap();
    });
    let error = Client::new(Target::with_secret(&url, None, TOKEN)).unwrap().gpus().unwrap_err();
    server.join().unwrap();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn a_program_that_does_not_know_the_token_is_sent_neither_it_nor_the_request() {
    let answers: [fn(&mut BufReader<TcpStream>); 3] = [
        |reader| prove(reader, "another"),
        |reader| {
            receive(reader);
            let refused = b"HTTP/1.1 401 X\r\ncontent-length: 2\r\n\r\n{}";
            reader.get_mut().write_all(refused).expect("a listening caller");
        },
        |reader| {
            // The one for the address as dialled, and the one for its name.
            for _ in 0..2 {
                receive(reader);
                let refused = b"HTTP/1.1 421 X\r\ncontent-length: 2\r\n\r\n{}";
                reader.get_mut().write_all(refused).expect("a listening caller");
            }
        },
    ];
    for (answer, said) in answers.into_iter().zip(["does not know the token", "older", "hosts = ["]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let other = std::thread::spawn(move || {
            let mut reader = BufReader::new(listener.accept().unwrap().0);
            answer(&mut reader);
            let mut rest = String::new();
            reader.read_to_string(&mut rest).unwrap();
            rest
        });
        let client = Client::new(Target::with_secret(&url, None, TOKEN)).unwrap();
        let error = client.shutdown(true).unwrap_err();
        drop(client);
        assert!(matches!(error, ClientError::Untrusted { .. }), "{error:?}");
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(other.join().unwrap(), "", "nothing follows");
    }
}
