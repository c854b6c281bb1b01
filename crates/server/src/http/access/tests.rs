//! Every endpoint against every role: one table, which fails when an endpoint is missing from it.

use super::super::table::endpoints;
use super::*;
use crate::http::refusal::stream_body;
use crate::testing::{Server, TOKEN, server, task, text};
use crate::tokens::{NewKind, NewToken, Role};
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request as HttpRequest, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use warpyard_api::token::Secret;

/// The callers, in the order of the table's columns: nobody, a viewer, a user at another's job, a user at their own, an
/// admin, the owner, a worker.
const CALLERS: [&str; 7] = ["none", "viewer", "other", "own", "admin", "owner", "worker"];

/// Method, path, body, and for each of [`CALLERS`] whether the request is let through (`y`) or refused (`.`). The job, the
/// claim and the token that paths name are of `own`, and the viewer's token is of the same user.
const TABLE: &[(&str, &str, &str, &str)] = &[
    ("get", "/v1/jobs", "", ".yyyyy."),
    ("post", "/v1/jobs", r#"{"doc": {"name": "j", "command": "true"}}"#, "..yyyy."),
    ("post", "/v1/jobs/document", r#"{"text": "command = 'true'"}"#, ".yyyyy."),
    ("get", "/v1/jobs/{id}", "", ".yyyyy."),
    ("get", "/v1/jobs/{id}/tasks", "", ".yyyyy."),
    ("get", "/v1/jobs/{id}/attempts", "", ".yyyyy."),
    ("get", "/v1/jobs/{id}/why", "", ".yyyyy."),
    ("get", "/v1/jobs/{id}/logs", "", ".y.yyy."),
    ("post", "/v1/jobs/{id}/terminal", "", "..yyyy."),
    ("get", "/v1/jobs/{id}/snapshot", "", ".y.yyy."),
    ("post", "/v1/snapshots", "{}", "..yyyy."),
    ("post", "/v1/snapshots/{id}/contents", "", "..yyyy."),
    ("post", "/v1/jobs/{id}/cancel", "", "...yyy."),
    ("post", "/v1/jobs/{id}/retry", r#"{"failed_only": false}"#, "...yyy."),
    ("post", "/v1/jobs/{id}/hold", "", "...yyy."),
    ("post", "/v1/jobs/{id}/release", "", "...yyy."),
    ("post", "/v1/jobs/{id}/pause", "", "...yyy."),
    ("post", "/v1/jobs/{id}/resume", "", "...yyy."),
    ("post", "/v1/jobs/{id}/priority", r#"{"priority": 1}"#, "...yyy."),
    ("post", "/v1/jobs/{id}/progress", r#"{"task": "t", "attempt": 1, "steps": 1}"#, "...yyy."),
    ("get", "/v1/history", "", ".yyyyy."),
    ("get", "/v1/claims", "", ".yyyyy."),
    ("post", "/v1/claims", r#"{"needs": {"gpus": 1}}"#, "..yyyy."),
    ("post", "/v1/claims/adopt", r#"{"pid": 1}"#, "..yyyy."),
    ("get", "/v1/claims/{id}", "", ".y.yyy."),
    ("post", "/v1/claims/{id}/heartbeat", "", "...yyy."),
    ("post", "/v1/claims/{id}/release", "", "...yyy."),
    ("post", "/v1/claims/{id}/extend", r#"{"by": "1m"}"#, "...yyy."),
    ("get", "/v1/gpus", "", ".yyyyy."),
    ("get", "/v1/gpus/{ids}/free", "", ".yyyyy."),
    ("get", "/v1/workers", "", ".yyyyy."),
    ("post", "/v1/workers/{id}/drain", "", "....yy."),
    ("post", "/v1/workers/{id}/resume", "", "....yy."),
    ("get", "/v1/limits", "", ".yyyyy."),
    ("get", "/v1/policies", "", ".yyyyy."),
    ("get", "/v1/throughputs", "", ".yyyyy."),
    ("put", "/v1/throughputs", r#"{"throughputs": []}"#, "....yy."),
    ("put", "/v1/policy", r#"{"name": "fifo"}"#, "....yy."),
    ("post", "/v1/policy/preview", r#"{"name": "fifo"}"#, ".yyyyy."),
    ("get", "/v1/replays", "", ".yyyyy."),
    ("post", "/v1/replays", r#"{"policies": ["fifo"]}"#, "..yyyy."),
    ("get", "/v1/replays/{id}", "", ".yyyyy."),
    ("get", "/v1/simulation", "", ".yyyyy."),
    ("put", "/v1/simulation", "{}", "....yy."),
    ("get", "/v1/events", "", ".yyyyy."),
    ("get", "/v1/info", "", ".yyyyy."),
    ("get", "/v1/schema/job", "", ".yyyyy."),
    ("get", "/v1/openapi.json", "", ".yyyyy."),
    ("get", "/metrics", "", ".yyyyy."),
    ("get", "/v1/proof", "", "yyyyyyy"),
    ("post", "/v1/login", "", ".yyyyy."),
    ("post", "/v1/shutdown", r#"{"kill_tasks": false}"#, "....yy."),
    ("post", "/v1/admin/rebuild", "", "....yy."),
    ("get", "/v1/tls", "", ".yyyyy."),
    ("get", "/v1/tokens", "", ".yyyyy."),
    ("post", "/v1/tokens", r#"{"role": "viewer"}"#, "....yy."),
    ("delete", "/v1/tokens/{id}", "", "...yyy."),
    // The request has a secret of its own.
    ("post", "/v1/workers/join", r#"{"secret": "JOIN", "name": "gpu2", "key": "KEY"}"#, "yyyyyyy"),
    ("get", "/v1/workers/self", "", "......y"),
    ("put", "/v1/workers/self", "{}", "......y"),
    ("post", "/v1/workers/self/reports", "{}", "......y"),
    ("get", "/v1/workers/self/assignments", "", "......y"),
    ("post", "/v1/workers/self/logs/{attempt}/{stream}", "", "......y"),
    ("delete", "/v1/workers/{id}/key", "", "....yy."),
];

/// A server with a job and a claim of ann's.
struct Peopled {
    server: Server,
    secrets: Vec<Option<String>>,
}

impl Peopled {
    async fn new() -> Peopled {
        let server = server();
        server.join(1).await;
        server.submit("ann", "hers", vec![task("t", 1)]).await;
        let secret = |user: &str, role| Some(personal(&server, user, role).0);
        let worker = Secret::generate().expect("random bytes").as_str().to_owned();
        let join = join_secret(&server);
        server.app.tokens.redeem_join(&join, "gpu1", &worker).expect("a worker");
        let secrets = vec![
            None,
            secret("ann", Role::Viewer),
            secret("bob", Role::User),
            secret("ann", Role::User),
            secret("eve", Role::Admin),
            Some(TOKEN.to_owned()),
            Some(worker),
        ];
        let peopled = Peopled { server, secrets };
        let claimed = peopled.ask(3, "post", "/v1/claims", r#"{"needs": {"gpus": 1}}"#).await;
        assert_eq!(claimed.0, StatusCode::CREATED, "{}", claimed.1);
        peopled
    }

    async fn ask(&self, caller: usize, method: &str, path: &str, body: &str) -> (StatusCode, Value) {
        let mut request = HttpRequest::builder().method(&*method.to_uppercase()).uri(path);
        if let Some(secret) = &self.secrets[caller] {
            request = request.header(AUTHORIZATION, format!("Bearer {secret}"));
        }
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = self.server.send(request.body(Body::from(body.to_owned())).expect("a request")).await;
        let status = answer.status();
        // A stream of events has no end.
        let text = if status.is_success() { String::new() } else { text(answer).await };
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// A request of the table as it is sent.
    fn filled(&self, path: &str, body: &str) -> (String, String) {
        let path = match path {
            _ if path.starts_with("/v1/claims/{id}") => path.replace("{id}", "2"),
            _ if path.starts_with("/v1/tokens/{id}") => {
                path.replace("{id}", &personal(&self.server, "ann", Role::User).1)
            }
            "/v1/workers/{id}/key" => path.replace("{id}", "no-such"),
            _ if path.starts_with("/v1/workers/{id}") => path.replace("{id}", "w"),
            _ => path.replace("{id}", "1").replace("{ids}", "0"),
        };
        let key = Secret::generate().expect("random bytes");
        let body = match body.contains("JOIN") {
            true => {
                self.server.app.tokens.revoke_worker("gpu2").expect("stored");
                body.replace("JOIN", &join_secret(&self.server)).replace("KEY", key.as_str())
            }
            false => body.to_owned(),
        };
        (path, body)
    }
}

/// A token of a user, and its id.
fn personal(server: &Server, user: &str, role: Role) -> (String, String) {
    let kind = NewKind::Personal { user: Some(user.into()), uid: None, role, vouched_by: None };
    let made = server.app.tokens.create(NewToken { label: None, lasts: 3600, kind });
    let (secret, listed) = made.expect("a token");
    (secret.as_str().to_owned(), listed.id)
}

fn join_secret(server: &Server) -> String {
    let kind = NewKind::Join { uses: 1, vouch: false };
    let (secret, _) = server.app.tokens.create(NewToken { label: None, lasts: 60, kind }).expect("a token");
    secret.as_str().to_owned()
}

#[tokio::test]
async fn every_endpoint_lets_in_the_roles_that_the_table_says() {
    let named: BTreeSet<_> = TABLE.iter().map(|(method, path, ..)| (*method, *path)).collect();
    let there: BTreeSet<_> = endpoints().iter().map(|e| (e.method, e.path)).collect();
    assert_eq!(named, there, "every endpoint is in the table, and nothing else");
    let mut wrong = Vec::new();
    for (method, path, body, expected) in TABLE {
        // What one caller does must not decide what the next may.
        let peopled = Peopled::new().await;
        for (caller, expected) in expected.chars().enumerate() {
            let (asked, sent) = peopled.filled(path, body);
            let (status, problem) = peopled.ask(caller, method, &asked, &sent).await;
            let hidden = problem["code"] == code::UNKNOWN_TOKEN;
            let refused = matches!(status.as_u16(), 401 | 403) || hidden;
            let who = CALLERS[caller];
            if refused != (expected == '.') {
                wrong.push(format!("{method} {path} by {who}: {status} {problem}"));
            }
            let anonymous = status == StatusCode::UNAUTHORIZED;
            if refused && anonymous != (who == "none") {
                wrong.push(format!("{method} {path} by {who} is refused with {status}"));
            }
            assert!(status != StatusCode::INTERNAL_SERVER_ERROR, "{method} {path} by {who}: {problem}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_worker_that_may_not_vouch_speaks_for_nobody_and_others_never_do() {
    let peopled = Peopled::new().await;
    let as_ann = async |caller: usize| {
        let secret = peopled.secrets[caller].clone().expect("a secret");
        let request = HttpRequest::get("/v1/jobs").header(AUTHORIZATION, format!("Bearer {secret}"));
        let request = request.header(VOUCHED_USER, "ann").body(Body::empty()).expect("a request");
        let answer = peopled.server.send(request).await;
        let (status, body) = (answer.status(), text(answer).await);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        (status, body["code"].as_str().unwrap_or_default().to_owned())
    };
    for caller in 1..CALLERS.len() {
        assert_eq!(as_ann(caller).await, (StatusCode::FORBIDDEN, code::MAY_NOT_VOUCH.to_owned()));
    }
}

#[tokio::test]
async fn a_token_ends_at_once_when_it_is_revoked_and_so_do_its_sessions() {
    let peopled = Peopled::new().await;
    let (secret, id) = personal(&peopled.server, "ann", Role::User);
    let bearing = |path: &str| {
        let request = HttpRequest::get(path).header(AUTHORIZATION, format!("Bearer {secret}"));
        peopled.server.send(request.body(Body::empty()).expect("a request"))
    };
    assert_eq!(bearing("/v1/info").await.status(), StatusCode::OK);
    let revoked = peopled.ask(3, "delete", &format!("/v1/tokens/{}", &id[..8]), "").await;
    assert_eq!(revoked.0, StatusCode::OK, "{}", revoked.1);
    assert_eq!(bearing("/v1/info").await.status(), StatusCode::UNAUTHORIZED);
    let json = json!({"code": "unauthorised"});
    assert_eq!(peopled.ask(0, "get", "/v1/info", "").await.1["code"], json["code"]);
}

#[tokio::test]
async fn a_viewer_on_a_private_server_sees_nothing_of_others_and_no_pages() {
    let sharing = crate::caller::Sharing { admins: "no such group".into(), private: true };
    let server = crate::testing::server_with(|app| app.sharing = Some(sharing));
    server.submit("ann", "secret-name", vec![task("t", 0)]).await;
    let (secret, _) = personal(&server, "nobody", Role::Viewer);
    let ask = async |path: &str| {
        let request = HttpRequest::get(path).header(AUTHORIZATION, format!("Bearer {secret}"));
        let answer = server.send(request.body(Body::empty()).expect("a request")).await;
        (answer.status().as_u16(), text(answer).await)
    };
    let (status, listed) = ask("/v1/jobs").await;
    assert!(status == 200 && !listed.contains("secret-name") && !listed.contains("ann"), "{listed}");
    assert_eq!(ask("/v1/jobs/1/logs").await.0, 404);
    assert_eq!(ask("/").await.0, 403);
}

#[tokio::test]
async fn a_join_request_is_bounded_and_wrong_ones_change_nothing() {
    let peopled = Peopled::new().await;
    let large = format!(r#"{{"secret": "{}", "name": "x", "key": "y"}}"#, "s".repeat(2 << 20));
    assert_eq!(peopled.ask(0, "post", "/v1/workers/join", &large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    for (body, wrong) in [
        (r#"{"secret": "x", "name": "gpu9", "key": "y"}"#, code::WRONG_TOKEN),
        (r#"{"secret": "x", "name": "../gpu9", "key": "y"}"#, code::BAD_NAME),
        (r#"{"name": "gpu9"}"#, code::BAD_REQUEST),
    ] {
        assert_eq!(peopled.ask(0, "post", "/v1/workers/join", body).await.1["code"], wrong, "{body}");
    }
    assert!(!peopled.server.app.tokens.list().is_empty());
}

#[tokio::test]
async fn the_body_of_a_refused_request_is_read_before_it_is_answered() {
    let peopled = Peopled::new().await;
    // Nobody, a viewer and a worker: refused by authentication, by role, and by the endpoint's access.
    for caller in [0, 1, 6] {
        let (to, from) = tokio::sync::mpsc::channel(1);
        let sender = tokio::spawn(async move {
            for part in [r#"{"na"#, r#"me": ""#, r#"fifo"}"#] {
                if to.send(Ok::<_, std::io::Error>(axum::body::Bytes::from(part))).await.is_err() {
                    return false;
                }
            }
            true
        });
        let mut request = HttpRequest::builder().method("PUT").uri("/v1/policy");
        if let Some(secret) = &peopled.secrets[caller] {
            request = request.header(AUTHORIZATION, format!("Bearer {secret}"));
        }
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = peopled.server.send(request.body(stream_body(from)).expect("a request")).await;
        assert!(!answer.status().is_success(), "{caller}: {}", answer.status());
        assert!(
            sender.await.expect("it only sends"),
            "{caller}: the connection would break while it is sent"
        );
    }
}

#[tokio::test]
async fn a_worker_speaks_for_itself_only_and_registers_first() {
    // Job 1 of ann's is placed on the worker `w`, and the caller is the worker `gpu1`.
    const GPU1: usize = 6;
    let peopled = Peopled::new().await;
    let placed = || {
        peopled.server.engine.read(|f| {
            let job = f.cluster().job(warpyard_core::JobId(1)).expect("hers");
            f.cluster()
                .state(warpyard_core::TaskId { job: job.id, node: 0, index: 0 })
                .map(|s| format!("{s:?}"))
        })
    };
    let before = placed().await.expect("an engine");
    let over = r#"{"id": {"session": 1, "seq": 1}, "attempts": [{"attempt": {"task": {"job": 1, "node": 0, "index": 0},
        "number": 1}, "standing": {"over": {"how": {"exited": 0}, "usage": {}}}}]}"#;
    let refused = peopled.ask(GPU1, "post", "/v1/workers/self/reports", over).await;
    assert_eq!((refused.0, refused.1["code"].as_str()), (StatusCode::CONFLICT, Some(code::NOT_REGISTERED)));

    let log = peopled.server.app.layout.lineage().current().log.as_ref().map(ToString::to_string);
    let registration = |name: &str, labels: Value, log: Option<String>| {
        let info = json!({"name": name, "devices": [], "cpus": 1000, "memory": 1, "labels": labels});
        json!({"info": info, "version": "0.1.0", "log": log}).to_string()
    };
    let other_log = registration("gpu1", json!({}), Some("another".into()));
    let refused = peopled.ask(GPU1, "put", "/v1/workers/self", &other_log).await;
    assert_eq!(refused.1["code"], code::ANOTHER_LOG);
    let odd = registration("gpu1", json!({"ra ck": "a"}), log.clone());
    assert_eq!(peopled.ask(GPU1, "put", "/v1/workers/self", &odd).await.1["code"], code::BAD_REQUEST);
    // Whatever name it gives, it is the one its key belongs to.
    let as_another = registration("w", json!({"rack": "a"}), log);
    assert_eq!(peopled.ask(GPU1, "put", "/v1/workers/self", &as_another).await.0, StatusCode::NO_CONTENT);
    let workers = peopled.server.json("GET", "/v1/workers", None).await;
    let named: Vec<_> =
        workers.as_array().expect("a list").iter().map(|w| (&w["name"], &w["local"])).collect();
    assert_eq!(named, [(&json!("w"), &json!(true)), (&json!("gpu1"), &json!(false))]);

    // An attempt that is another worker's is none of its business: neither its end nor its output.
    assert_eq!(peopled.ask(GPU1, "post", "/v1/workers/self/reports", over).await.0, StatusCode::ACCEPTED);
    assert_eq!(placed().await.expect("an engine"), before);
    for path in ["1.0.0.1/log", "1.0.0.1/../../token", "99.0.0.1/log", "x/log"] {
        let path = format!("/v1/workers/self/logs/{path}?offset=0");
        assert_eq!(peopled.ask(GPU1, "post", &path, "forged").await.0, StatusCode::NOT_FOUND, "{path}");
    }
}
