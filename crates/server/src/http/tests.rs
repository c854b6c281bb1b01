//! The interface over HTTP: what scripts rely on.

use crate::testing::{Server, TOKEN, server, task, text};
use axum::body::Body;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, COOKIE, ETAG,
    IF_NONE_MATCH, RANGE,
};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use warpyard_core::event::{EndReason, Usage};
use warpyard_core::pool::DeviceState;
use warpyard_core::spec::{Array, TaskSpec};
use warpyard_core::{AttemptId, Command, JobId, TaskId};

fn get(path: &str) -> axum::http::request::Builder {
    Request::get(path).header(AUTHORIZATION, format!("Bearer {TOKEN}"))
}

fn empty(request: axum::http::request::Builder) -> Request<Body> {
    request.body(Body::empty()).expect("a request")
}

#[tokio::test]
async fn what_did_not_change_is_not_sent_again() {
    let server = server();
    server.join(1).await;
    let changes = [
        ("/v1/policies", "PUT", "/v1/policy", Some(json!({"name": "fifo"}))),
        ("/v1/info", "PUT", "/v1/policy", Some(json!({"name": "backfill"}))),
        ("/v1/workers", "POST", "/v1/workers/w/drain", None),
        ("/v1/gpus", "POST", "/v1/workers/w/resume", None),
        ("/v1/jobs", "POST", "/v1/jobs", Some(json!({"doc": {"name": "new", "command": "true"}}))),
    ];
    for (polled, method, changed, body) in changes {
        let first = server.send(empty(get(polled))).await;
        let tag = first.headers()[ETAG].clone();
        let again = || server.send(empty(get(polled).header(IF_NONE_MATCH, &tag)));
        let same = again().await;
        assert_eq!(same.status(), StatusCode::NOT_MODIFIED, "{polled}");
        assert_eq!(text(same).await, "");
        server.json(method, changed, body).await;
        assert_eq!(again().await.status(), StatusCode::OK, "{polled} after {changed}");
    }
}

/// What a page of a login shows, and the secret with which it changes something.
async fn page_and_secret(server: &Server, cookie: &str) -> (StatusCode, String) {
    let answer = server.get("/", Some(cookie)).await;
    let (status, page) = (answer.status(), text(answer).await);
    let secret = page.split_once("<meta name=\"csrf\" content=\"").and_then(|(_, rest)| rest.split_once('"'));
    (status, secret.map(|(secret, _)| secret.to_owned()).unwrap_or_default())
}

async fn changed_from_a_page(server: &Server, path: &str, cookie: &str, secret: &str) -> StatusCode {
    let request = Request::post(path).header(COOKIE, cookie).header("x-warpyard-csrf", secret);
    server.send(empty(request)).await.status()
}

#[tokio::test]
async fn a_login_outlives_a_restart_until_its_end_or_its_logout() {
    let server = server();
    server.join(1).await;
    let (stays, leaves) = (server.cookie(), server.cookie());
    let (_, secret) = page_and_secret(&server, &stays).await;
    let (_, leaving) = page_and_secret(&server, &leaves).await;
    assert_ne!(secret, leaving);
    assert_eq!(changed_from_a_page(&server, "/logout", &leaves, &leaving).await, StatusCode::OK);
    let server = server.restarted_after(|data| {
        let file = data.join("logins.json");
        let kept = std::fs::read_to_string(&file).expect("logins");
        let (_, id) = stays.split_once('=').expect("a pair");
        assert!(kept.contains("owner") && !kept.contains(id) && !kept.contains(&secret), "{kept}");
        assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    });
    assert_eq!(page_and_secret(&server, &leaves).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(page_and_secret(&server, &stays).await, (StatusCode::OK, secret.clone()));
    let drained = changed_from_a_page(&server, "/v1/workers/w/drain", &stays, &secret).await;
    assert_eq!(drained, StatusCode::OK, "a page that was open before goes on changing things");
    let server = server.restarted_after(|data| {
        let file = data.join("logins.json");
        let text = std::fs::read_to_string(&file).expect("logins");
        let mut kept: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        kept.as_object_mut().expect("a map").values_mut().for_each(|session| session["until"] = json!(1));
        std::fs::write(&file, kept.to_string()).expect("a file");
    });
    assert_eq!(page_and_secret(&server, &stays).await.0, StatusCode::UNAUTHORIZED, "it has ended");
}

#[tokio::test]
async fn logins_that_cannot_be_read_keep_no_server_from_starting() {
    let server = server();
    let before = server.cookie();
    let server =
        server.restarted_after(|data| std::fs::write(data.join("logins.json"), "{\"half").expect("a file"));
    assert_eq!(page_and_secret(&server, &before).await.0, StatusCode::UNAUTHORIZED);
    let after = server.cookie();
    assert_eq!(page_and_secret(&server.restarted(), &after).await.0, StatusCode::OK);
}

#[tokio::test]
async fn every_endpoint_is_closed_and_every_change_of_a_login_needs_its_secret() {
    let server = server();
    let (description, cookie) = (super::openapi::openapi(), server.cookie());
    let paths = description["paths"].as_object().expect("a map");
    let described =
        paths.iter().flat_map(|(path, of)| of.as_object().expect("a map").keys().map(move |m| (path, m)));
    let mut asked = 0;
    // A proof is asked for by those who keep their token back until they have it, and joining has a secret of its own.
    let open = [super::login_link::PROOF, super::tokens::JOIN];
    let closed = described.filter(|(path, method)| *method != "parameters" && !open.contains(&path.as_str()));
    for (path, method) in closed {
        let (method, path) = (method.to_uppercase(), path.replace("{id}", "1").replace(['{', '}'], ""));
        let send = |cookie: &str, secret: &str| {
            let request = Request::builder().method(&*method).uri(&path).header(COOKIE, cookie);
            let request = request.header(CONTENT_TYPE, "application/json").header("x-warpyard-csrf", secret);
            server.send(request.body("{}".into()).expect("a request"))
        };
        assert_eq!(send("", "").await.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
        if method != "GET" {
            assert_eq!(send(&cookie, "made-up").await.status(), StatusCode::FORBIDDEN, "{method} {path}");
        }
        asked += 1;
    }
    assert!(asked + open.len() >= super::described_paths().len(), "{asked}");
}

#[tokio::test]
async fn a_browser_does_no_more_with_an_answer_than_show_it() {
    let server = server();
    server.join(1).await;
    server.submit("ann", "prints", vec![task("t", 1)]).await;
    for path in ["/v1/jobs", "/v1/jobs/1/logs", "/v1/events", "/v1/nowhere", "/metrics", "/assets/live.js"] {
        for request in [get(path), Request::get(path)] {
            let answer = server.send(empty(request)).await;
            let says =
                |name: &str| answer.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default();
            assert!(says("content-security-policy").starts_with("default-src 'none';"), "{path}");
            assert_eq!(says("x-content-type-options"), "nosniff", "{path}");
            assert!(says("cache-control").contains("no-"), "{path}: {}", says("cache-control"));
        }
    }
}

#[tokio::test]
async fn long_answers_are_compressed_for_whoever_can_read_that() {
    let server = server();
    let plain = server.send(empty(get("/v1/openapi.json"))).await;
    assert!(!plain.headers().contains_key(CONTENT_ENCODING));
    let plain = text(plain).await.len();
    let small = server.send(empty(get("/v1/openapi.json").header(ACCEPT_ENCODING, "gzip"))).await;
    assert_eq!(small.headers()[CONTENT_ENCODING], "gzip");
    let small = axum::body::to_bytes(small.into_body(), usize::MAX).await.expect("a body").len();
    assert!(small * 3 < plain, "{small} of {plain}");
    let stream = server.send(empty(get("/v1/events").header(ACCEPT_ENCODING, "gzip"))).await;
    assert!(!stream.headers().contains_key(CONTENT_ENCODING), "a stream would wait in the compressor");
}

#[tokio::test]
async fn a_dry_run_tells_the_place_and_changes_nothing() {
    let server = server();
    server.join(2).await;
    let doc = |gpus: u32, timeout: &str| json!({"doc": {"name": "try", "command": "true", "gpus": gpus, "timeout": timeout}});
    let before = server.json("GET", "/v1/info", None).await;
    let now = server.json("POST", "/v1/jobs?dry_run=true", Some(doc(2, "1h"))).await;
    assert_eq!((&now["starts_now"], &now["position"]), (&json!(true), &json!(null)), "{now}");
    server.submit("ann", "holds", vec![task("t", 1)]).await;
    server.submit("ann", "first", vec![task("t", 2)]).await;
    let waits = server.json("POST", "/v1/jobs?dry_run=true", Some(doc(2, "1h"))).await;
    assert_eq!((&waits["starts_now"], &waits["position"]), (&json!(false), &json!(2)), "{waits}");
    assert_eq!(waits["why"], json!(["1 GPU is free, 2 are needed at once"]));
    let changes: Vec<_> =
        waits["alternatives"].as_array().expect("a list").iter().map(|a| a["change"].clone()).collect();
    assert_eq!(changes, ["--timeout 30m", "--timeout 15m", "--gpu-memory 8GiB", "--gpus 1"]);
    let wrong = server.ask("POST", "/v1/jobs?dry_run=true", Some(doc(3, "1h"))).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY, "refused as it would be");
    let after = server.json("GET", "/v1/info", None).await;
    assert_eq!(before["waiting"], json!(0));
    assert_eq!((&after["running"], &after["waiting"]), (&json!(1), &json!(1)), "only what was submitted");
}

#[tokio::test]
async fn what_is_lacking_is_said() {
    let server = server();
    server.join(2).await;
    let asks = [
        (json!({"gpus": 1}), "both GPUs are taken"),
        (json!({"gpus": 1, "gpu_type": "V100"}), "both V100s are taken"),
        (json!({"gpus": 1, "gpu_type": ["V100", "A100"]}), "both GPUs are taken"),
        (json!({"gpus": 1, "gpu_memory": "6GiB"}), "both GPUs are taken"),
        (json!({"gpus": 1, "gpu_scope": [1]}), "the GPU is taken"),
        (json!({"gpus": 1, "gpu_scope": [1], "gpu_memory": "6GiB"}), "the GPU is taken"),
        (json!({"cpus": 8}), "7 of 8 CPUs are free"),
        (json!({"memory": "1TiB"}), "1023 GiB of 1 TiB of memory are free"),
    ];
    let holds = json!({"doc": {"command": "true", "gpus": 2, "cpus": 1, "memory": "1GiB", "timeout": "1h"}});
    server.json("POST", "/v1/jobs", Some(holds)).await;
    all_lack(&server, &asks).await;
}

#[tokio::test]
async fn a_limit_of_tasks_and_a_foreign_process_are_named_where_they_bind() {
    let server = server();
    let mut info = crate::testing::machine(2);
    (info.devices[0].limit, info.devices[1].state) = (Some(1), DeviceState::Foreign);
    server.engine.command(Command::Join(info)).await.expect("a worker");
    let shares = json!({"doc": {"command": "true", "gpus": 1, "gpu_memory": "2GiB", "timeout": "1h"}});
    server.json("POST", "/v1/jobs", Some(shares)).await;
    let foreign = "the GPU is used by a process outside warpyard (`warpyard gpus` shows it)";
    let share = "4GiB";
    let asks = [
        (json!({"gpus": 1, "gpu_scope": [0], "gpu_memory": share}), "the GPU runs 1 task, its limit"),
        (json!({"gpus": 1, "gpu_scope": [1], "gpu_memory": share}), foreign),
        (
            json!({"gpus": 1, "gpu_memory": share}),
            "of 2 GPUs, 1 runs 1 task, the limit and 1 is used by a process outside warpyard",
        ),
        (json!({"gpus": 1, "gpu_scope": [0], "gpu_memory": "15GiB"}), "the GPU has less than 15 GiB left"),
    ];
    all_lack(&server, &asks).await;
}

/// Has each of these wait for what it lacks.
async fn all_lack(server: &Server, asks: &[(Value, &str)]) {
    for (needs, lacking) in asks {
        let mut doc = json!({"doc": {"command": "true", "timeout": "1h"}});
        doc["doc"].as_object_mut().expect("a document").extend(needs.as_object().expect("needs").clone());
        let waits = server.json("POST", "/v1/jobs?dry_run=true", Some(doc)).await;
        assert_eq!(waits["why"], json!([lacking]), "{needs}");
    }
}

#[tokio::test]
async fn scripts_ask_whether_gpus_are_free() {
    let server = server();
    server.join(2).await;
    server.submit("ann", "holds", vec![task("t", 1)]).await;
    let free =
        async |ids: &str| server.json("GET", &format!("/v1/gpus/{ids}/free"), None).await["free"].clone();
    assert_eq!(
        [free("0").await, free("1").await, free("0,1").await, free("w%2F1").await],
        [false, true, false, true]
    );
    let none = server.ask("GET", "/v1/gpus/7/free", None).await;
    assert_eq!(none.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let table = text(server.send(empty(get("/v1/gpus").header(ACCEPT, "text/plain"))).await).await;
    assert_eq!(table, "w/0\tV100\t16.0/16.0 GiB\t1(ann)\nw/1\tV100\t0.0/16.0 GiB\tfree\n");
}

#[tokio::test]
async fn a_part_of_a_log_can_be_asked_for() {
    let server = server();
    server.join(1).await;
    server.submit("ann", "prints", vec![task("t", 1)]).await;
    let attempt = AttemptId { task: TaskId { job: JobId(1), node: 0, index: 0 }, number: 1 };
    let dir = server.app.layout.log_dir(attempt);
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("log"), "0123456789").expect("a log");
    let part = |range: &'static str| server.send(empty(get("/v1/jobs/1/logs").header(RANGE, range)));
    for (range, says, text_of) in [
        ("bytes=2-4", "bytes 2-4/10", "234"),
        ("bytes=8-", "bytes 8-9/10", "89"),
        ("bytes=-3", "bytes 7-9/10", "789"),
    ] {
        let answer = part(range).await;
        assert_eq!(answer.status(), StatusCode::PARTIAL_CONTENT, "{range}");
        assert_eq!(answer.headers()[CONTENT_RANGE], says);
        assert_eq!(text(answer).await, text_of);
    }
    for beyond in ["bytes=10-", "bytes=5-2", "lines=1-2"] {
        let answer = part(beyond).await;
        assert_eq!(answer.status(), StatusCode::RANGE_NOT_SATISFIABLE, "{beyond}");
        assert_eq!(answer.headers()[CONTENT_RANGE], "bytes */10", "how much there is");
    }
}

#[tokio::test]
async fn every_refusal_is_a_problem_with_a_code() {
    let server = server();
    let json = |request: axum::http::request::Builder| request.header(CONTENT_TYPE, "application/json");
    let asked = [
        (empty(get("/v1/policy")), 405, "wrong-method", "GET is not supported at this address"),
        (
            empty(get("/v1/jobs?limit=x")),
            400,
            "bad-request",
            "the query cannot be parsed: limit: invalid digit",
        ),
        (empty(get("/v1/nowhere")), 404, "not-found", "there is nothing at this address"),
        (empty(Request::get("/metrics")), 401, "unauthorised", "the token is missing or wrong; send"),
        (
            json(Request::post("/v1/jobs").header(AUTHORIZATION, format!("Bearer {TOKEN}")))
                .body("{".into())
                .expect("a request"),
            400,
            "bad-request",
            "the body is not JSON: EOF",
        ),
    ];
    for (request, status, code, begins) in asked {
        let what = request.uri().to_string();
        let answer = server.send(request).await;
        assert_eq!(answer.status(), status, "{what}");
        assert_eq!(answer.headers()[CONTENT_TYPE], "application/problem+json", "{what}");
        assert_eq!(answer.headers().contains_key("allow"), status == 405, "{what}");
        let body: serde_json::Value = serde_json::from_str(&text(answer).await).expect("JSON");
        assert_eq!(body["code"], code, "{what}");
        let said = body["detail"].as_str().unwrap_or_default();
        assert!(said.starts_with(begins), "{what}: {said}");
    }
}

#[tokio::test]
async fn every_figure_is_in_the_documentation_and_the_dashboard_uses_no_other() {
    let server = server();
    server.join(1).await;
    server.submit("ann", "one", vec![task("t", 1)]).await;
    let figures = text(server.ask("GET", "/metrics", None).await).await;
    let names: Vec<_> =
        figures.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let table = include_str!("../../../../docs/metrics.md");
    for name in &names {
        assert!(table.contains(&format!("| `{name}` |")), "{name} is not in docs/metrics.md");
    }
    assert_eq!(table.matches("| `warpyard_").count(), names.len(), "and no other is");
    let dashboard = include_str!("../../../../docs/grafana.json");
    for (at, _) in dashboard.match_indices("warpyard_") {
        let name: String =
            dashboard[at..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
        assert!(names.contains(&name.trim_end_matches("_bucket")), "{name}");
    }
    assert!(figures.contains("warpyard_tasks{state=\"placed\"} 1"), "{figures}");
    assert!(figures.contains("warpyard_wait_seconds_count 1"), "{figures}");
}

#[tokio::test]
async fn tasks_and_attempts_come_in_pages() {
    let server = server();
    let array = Some(warpyard_core::spec::Array { ranges: vec![(1, 1500, 1)], at_once: None });
    server.join(1).await;
    server.submit("ann", "many", vec![warpyard_core::spec::TaskSpec { array, ..task("t", 1) }]).await;
    let first = server.json("GET", "/v1/jobs/1/tasks", None).await;
    assert_eq!((first["items"].as_array().map(Vec::len), &first["next"]), (Some(1000), &json!("1000")));
    let rest = server.json("GET", "/v1/jobs/1/tasks?cursor=1000", None).await;
    assert_eq!((rest["items"].as_array().map(Vec::len), &rest["next"]), (Some(500), &json!(null)));
    assert_eq!(rest["items"][0]["index"], 1001);
    let attempts = server.json("GET", "/v1/jobs/1/attempts", None).await;
    assert_eq!(attempts["items"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn tables_made_again_lose_nothing_of_what_memory_no_longer_holds() {
    let server = server();
    server.join(1).await;
    server.submit("ann", "gone", vec![task("t", 1)]).await;
    server.end(&[(0, EndReason::Exited(3), Usage::default())]).await;
    server.submit("ann", "stays", vec![task("t", 1)]).await;
    server.json("POST", "/v1/jobs/1/retry", Some(json!({}))).await;
    server.json("POST", "/v1/jobs/1/cancel", None).await;
    let told = async || {
        let get = |path| server.json("GET", path, None);
        (get("/v1/jobs/1").await, get("/v1/jobs/2").await, get("/v1/history").await)
    };
    let in_memory = told().await;
    server.engine.command(Command::Forget(JobId(1))).await.expect("it is over");
    let before = told().await;
    assert_eq!(before.2, in_memory.2);
    assert_eq!(
        (&before.0["outcome"], &before.1["state"]),
        (&json!("cancelled"), &json!("placed")),
        "{before:?}"
    );
    server.json("POST", "/v1/admin/rebuild", None).await;
    assert_eq!(told().await, before);
}

fn keyed(key: &str, command: &str) -> serde_json::Value {
    json!({"idempotency_key": key, "doc": {"name": "once", "command": command}})
}

#[tokio::test]
async fn a_submission_sent_twice_is_one_job_also_after_a_restart() {
    let server = server();
    server.join(1).await;
    let first = server.json("POST", "/v1/jobs", Some(keyed("k", "true"))).await["job"].clone();
    let server = server.restarted();
    let again = server.json("POST", "/v1/jobs", Some(keyed("k", "true"))).await["job"].clone();
    assert_eq!(again, first);
    let other = server.ask("POST", "/v1/jobs", Some(keyed("k", "false"))).await;
    assert_eq!(other.status(), StatusCode::CONFLICT);
    assert!(text(other).await.contains("idempotency-mismatch"));
    let new = server.json("POST", "/v1/jobs", Some(keyed("l", "true"))).await["job"].clone();
    assert_ne!(new, first, "another key is another job");
    let long = server.ask("POST", "/v1/jobs", Some(keyed(&"k".repeat(256), "true"))).await;
    assert_eq!(long.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn the_key_of_a_submission_may_stand_in_its_header() {
    let server = server();
    server.join(1).await;
    let send = async |key: &[u8], body: serde_json::Value| {
        let post = Request::post("/v1/jobs").header(AUTHORIZATION, format!("Bearer {TOKEN}"));
        let request = post.header("Idempotency-Key", key).header(CONTENT_TYPE, "application/json");
        server.send(request.body(Body::from(body.to_string())).expect("a request")).await
    };
    let plain = json!({"doc": {"name": "once", "command": "true"}});
    let first = text(send(b"k", plain.clone()).await).await;
    assert_eq!(text(send(b"k", plain.clone()).await).await, first);
    assert_eq!(
        text(send(b"k", keyed("k", "true")).await).await,
        first,
        "the same key inside is the same key"
    );
    assert_eq!(send(b"k", keyed("l", "true")).await.status(), StatusCode::UNPROCESSABLE_ENTITY, "two keys");
    assert_eq!(send(b"\xff", plain).await.status(), StatusCode::UNPROCESSABLE_ENTITY, "no text");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_submission_sent_by_many_at_once_is_one_job() {
    let server = std::sync::Arc::new(server());
    server.join(1).await;
    for round in 0..20 {
        let send = |_| {
            let server = server.clone();
            tokio::spawn(async move {
                server.json("POST", "/v1/jobs", Some(keyed(&format!("k{round}"), "true"))).await["job"]
                    .clone()
            })
        };
        let sent: Vec<_> = (0..8).map(send).collect();
        let mut jobs = Vec::new();
        for one in sent {
            jobs.push(one.await.expect("an answer"));
        }
        assert!(jobs.iter().all(|job| *job == jobs[0]), "{jobs:?}");
    }
}

#[tokio::test]
async fn a_live_server_has_no_clock_to_stop() {
    let server = server();
    for (method, body) in [("GET", None), ("PUT", Some(json!({"paused": true})))] {
        let answer = server.ask(method, "/v1/simulation", body).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{method}");
        assert!(text(answer).await.contains("shows no simulation"));
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let server = server();
    let large = Request::post("/v1/jobs").header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    let large = large.header("content-type", "application/json");
    let answer = server.send(large.body(Body::from(vec![b' '; (16 << 20) + 1])).expect("a request")).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

/// A body that never comes.
struct Never;

impl futures_core::Stream for Never {
    type Item = Result<axum::body::Bytes, std::io::Error>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Pending
    }
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let server = server();
    let slow = Request::post("/v1/jobs").header(AUTHORIZATION, format!("Bearer {TOKEN}"));
    let slow = slow.header("content-type", "application/json");
    let answer = server.send(slow.body(Body::from_stream(Never)).expect("a request")).await;
    assert!(answer.status().is_client_error(), "{}", answer.status());
}

#[tokio::test]
async fn who_waits_for_one_task_of_an_array_is_told_when_it_ends() {
    let server = server();
    server.join(1).await;
    let array = Array { ranges: vec![(1, 3, 1)], at_once: None };
    server.submit("ann", "many", vec![TaskSpec { array: Some(array), ..task("t", 1) }]).await;
    let waits = server.json("GET", "/v1/jobs/1[1]?wait=done&timeout=60s", None);
    let over = [(0, EndReason::Exited(0), Usage::default())];
    let (view, ()) = tokio::join!(waits, server.end(&over));
    assert_eq!(view["state"], "done", "{view}");
}
