//! The pages over HTTP: who gets in, what they are told, and that nothing of it does harm.

use crate::testing::{Server, TOKEN, server, task, text};
use axum::body::{Body, Bytes};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, ETAG, HOST, IF_NONE_MATCH, SET_COOKIE,
};
use axum::http::{Request, StatusCode};
use futures_core::Stream;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use warpyard_core::command::AttemptStatus;
use warpyard_core::event::{EndReason, Usage};
use warpyard_core::limits::{Caps, Limits};
use warpyard_core::spec::{AfterNode, Array, DependencyCondition, TaskSpec, WaitMode};
use warpyard_core::{Command, DeviceId, JobId, Span, TaskId, WorkerId};

const PAGES: [&str; 11] = [
    "/",
    "/queue",
    "/finished",
    "/jobs/1",
    "/jobs/99",
    "/new",
    "/cluster",
    "/policies",
    "/what-if",
    "/docs",
    "/nowhere",
];

#[tokio::test]
async fn nothing_is_readable_without_login() {
    let server = server();
    server.join(1).await;
    server.submit("ann", "secret-name", vec![task("secret-name", 1)]).await;
    for path in
        PAGES.into_iter().chain(["/jobs/1/log?node=0&position=0&attempt=1&from=0", "/v1/events", "/v1/jobs"])
    {
        for cookie in [None, Some("warpyard-7700=made-up"), Some("other=1; warpyard-7700=")] {
            let answer = server.get(path, cookie).await;
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{path} with {cookie:?}");
            assert!(!text(answer).await.contains("secret-name"), "{path}");
        }
    }
    for path in ["/login", "/assets/style.css", "/assets/page.js", "/assets/live.js", "/assets/icon.svg"] {
        assert_eq!(server.get(path, None).await.status(), StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_session_changes_something_only_from_its_own_pages() {
    let server = server();
    let (cookie, other) = (server.cookie(), server.cookie());
    assert_eq!(server.get("/v1/jobs", Some(&cookie)).await.status(), StatusCode::OK);
    let page = text(server.get("/", Some(&cookie)).await).await;
    let (_, secret) = page.split_once("<meta name=\"csrf\" content=\"").expect("a secret");
    let secret = &secret[..secret.find('"').expect("its end")];
    let change = |cookie: &str, secret: &str| {
        let request = Request::put("/v1/policy").header(CONTENT_TYPE, "application/json");
        let request = request.header(COOKIE, cookie).header("x-warpyard-csrf", secret);
        server.send(request.body("{\"name\":\"fifo\"}".into()).expect("a request"))
    };
    assert_eq!(change("", secret).await.status(), StatusCode::UNAUTHORIZED, "not without the cookie");
    for wrong in ["", "made-up"] {
        assert_eq!(change(&cookie, wrong).await.status(), StatusCode::FORBIDDEN);
    }
    assert_eq!(change(&other, secret).await.status(), StatusCode::FORBIDDEN, "not with another's");
    assert_eq!(change(&cookie, secret).await.status(), StatusCode::OK);
    let more = Request::post("/v1/login").header(COOKIE, &cookie).header("x-warpyard-csrf", secret);
    let more = server.send(more.body(Body::empty()).expect("a request")).await;
    assert_eq!(more.status(), StatusCode::FORBIDDEN, "a login makes no further logins");
}

#[tokio::test]
async fn who_logs_out_is_out() {
    let server = server();
    let cookie = server.cookie();
    let page = text(server.get("/", Some(&cookie)).await).await;
    let (_, secret) = page.split_once("<meta name=\"csrf\" content=\"").expect("a secret");
    let leave = Request::post("/logout").header(COOKIE, &cookie);
    let leave = leave.header("x-warpyard-csrf", &secret[..secret.find('"').expect("its end")]);
    let left = server.send(leave.body(Body::empty()).expect("a request")).await;
    assert!(left.headers()[SET_COOKIE].to_str().expect("text").contains("Max-Age=0"));
    assert_eq!(server.get("/v1/jobs", Some(&cookie)).await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn the_link_works_once() {
    let server = server();
    let link =
        format!("/login?once={}", server.app.auth.once(crate::caller::Caller::Owner).expect("random bytes"));
    let head = Request::head(&link).body(Body::empty()).expect("a request");
    assert!(server.send(head).await.headers().get(SET_COOKIE).is_none(), "looking at it is not opening it");
    let first = server.get(&link, None).await;
    let set = first.headers()[SET_COOKIE].to_str().expect("text").to_owned();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    let cookie = set.split(';').next().expect("a pair");
    assert_eq!(server.get("/", Some(cookie)).await.status(), StatusCode::OK);
    let second = server.get(&link, None).await;
    assert_eq!((second.status(), second.headers().get(SET_COOKIE)), (StatusCode::FORBIDDEN, None));
}

#[tokio::test]
async fn the_token_logs_in_and_guessing_is_slow() {
    let server = server();
    let answer = server.log_in(TOKEN).await;
    assert_eq!(
        (answer.status(), answer.headers()["location"].to_str().ok()),
        (StatusCode::SEE_OTHER, Some("/queue"))
    );
    assert!(answer.headers().contains_key(SET_COOKIE));
    for _ in 0..10 {
        assert_eq!(server.log_in("wrong").await.status(), StatusCode::FORBIDDEN);
    }
    let answer = server.log_in("wrong").await;
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(!answer.headers().contains_key(SET_COOKIE));
    assert_eq!(server.log_in(TOKEN).await.status(), StatusCode::SEE_OTHER, "nobody is locked out by another");
}

#[tokio::test]
async fn a_login_counts_at_its_own_host_only() {
    let server = server();
    let cookie = server.cookie();
    let at = |host: &str, path: &str| {
        let request = Request::get(path).header(COOKIE, &cookie).header(HOST, host);
        server.send(request.body(Body::empty()).expect("a request"))
    };
    let own = server.host();
    let own = own.to_str().expect("text");
    assert_eq!(at(own, "/queue").await.status(), StatusCode::OK);
    assert_eq!(at(&format!("{own}:7700"), "/v1/jobs").await.status(), StatusCode::OK);
    for host in ["127.0.0.1:7700", "localhost:7700", "[::1]:7700", "gpu1:7700", "wy-made-up.localhost:7700"] {
        assert_eq!(at(host, "/queue").await.status(), StatusCode::UNAUTHORIZED, "{host}");
        assert_eq!(at(host, "/v1/jobs").await.status(), StatusCode::UNAUTHORIZED, "{host}");
    }
    for host in ["evil.example", "evil.example:7700", "localhost.evil.example", "10.0.0.1.evil.example", ""] {
        let answer = at(host, "/login").await;
        assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
        let said = text(answer).await;
        assert!(said.contains("wrong-host") && said.contains("`hosts`"), "{said}");
    }
    // Who logs in elsewhere is led there, by a link that works once.
    let form = Request::post("/login").header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let form = form.header(HOST, "localhost:9000").body(format!("token={TOKEN}&next=%2Fqueue").into());
    let answer = server.send(form.expect("a request")).await;
    assert_eq!((answer.status(), answer.headers().get(SET_COOKIE)), (StatusCode::OK, None));
    let page = text(answer).await;
    let (_, link) = page.split_once(&format!("url=http://{own}:9000")).expect("where to go on");
    let link = link[..link.find('"').expect("its end")].replace("&#38;", "&");
    assert!(link.starts_with("/login?once=") && link.ends_with("&next=/queue"), "{link}");
    let led = text(at("127.0.0.1:7700", &link).await).await;
    assert!(
        led.contains(&format!("http://{own}:7700/login?once=")),
        "opened in the wrong place it still works: {led}"
    );
    let entered = at(own, &link).await;
    assert!(entered.headers().contains_key(SET_COOKIE) && text(entered).await.contains("url=/queue"));
    assert_eq!(at(own, &link).await.status(), StatusCode::FORBIDDEN);
}

#[test]
fn a_login_leads_nowhere_else() {
    for elsewhere in
        ["//evil.example", "/\\evil.example", "https://evil.example", "", "/login?once=x", "/a\nb"]
    {
        assert_eq!(super::local_path(elsewhere), "/", "{elsewhere}");
    }
    assert_eq!(super::local_path("/jobs/3?task=fit"), "/jobs/3?task=fit");
}

#[tokio::test]
async fn every_page_forbids_all_but_our_own_style_and_script() {
    let server = server();
    server.join(1).await;
    server.submit("ann", "job", vec![task("t", 1)]).await;
    let cookie = server.cookie();
    for path in PAGES.into_iter().chain(["/login", "/login?once=used"]) {
        for cookie in [None, Some(cookie.as_str())] {
            let answer = server.get(path, cookie).await;
            let policy = answer.headers().get(CONTENT_SECURITY_POLICY).and_then(|v| v.to_str().ok());
            let policy = policy.unwrap_or_else(|| panic!("{path} has no policy")).to_owned();
            assert!(
                policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"),
                "{policy}"
            );
            assert!(!policy.contains("unsafe"), "{policy}");
            let page = text(answer).await;
            assert!(
                !page.contains(" style=") && !page.contains("<style") && !page.contains(" onclick="),
                "{path}"
            );
            let ours = page.matches("<script type=\"module\" src=\"/assets/").count();
            assert_eq!(page.matches("<script").count(), ours, "{path}");
        }
    }
}

#[tokio::test]
async fn where_there_is_nothing_the_menu_is() {
    let server = server();
    server.join(1).await;
    let cookie = server.cookie();
    for (path, status, says) in [
        ("/nowhere", StatusCode::NOT_FOUND, "There is nothing at this address."),
        ("/jobs/99", StatusCode::NOT_FOUND, "There is no job 99."),
        ("/finished?page=first", StatusCode::BAD_REQUEST, "This address cannot be read."),
        ("/jobs/%FF", StatusCode::BAD_REQUEST, "This address cannot be read."),
    ] {
        let answer = server.get(path, Some(&cookie)).await;
        assert_eq!(answer.status(), status, "{path}");
        assert!(answer.headers().contains_key(CONTENT_SECURITY_POLICY), "{path}");
        let page = text(answer).await;
        assert!(page.contains(says) && page.contains("<a href=\"/queue\">Queue</a>"), "{path}: {page}");
        assert!(page.contains("host <b>w</b>") && page.contains("log out"), "{path}: {page}");
        assert!(page.contains("data-still=\"1\""), "nobody asks for it again: {path}: {page}");
    }
    for path in ["/assets/nothing.css", "/assets/nothing/here", "/login?once=twice"] {
        let stranger = text(server.get(path, None).await).await;
        assert!(!stranger.contains("<b>w</b>"), "who has not logged in is told nothing: {stranger}");
    }
}

#[tokio::test]
async fn what_users_wrote_is_shown_and_not_obeyed() {
    let server = server();
    server.join(1).await;
    let nasty = "<script>alert(1)</script>\"'\u{202e}\u{1b}[31m";
    let mut after = task("<img src=x>", 0);
    after.after = vec![AfterNode { node: 0, on: DependencyCondition::Ok }];
    let first = server.submit(nasty, nasty, vec![task(nasty, 1), after]).await;
    server.submit(nasty, nasty, vec![task(nasty, 1)]).await;
    for path in [
        "/".into(),
        "/queue".into(),
        format!("/queue?user={}", "%3Cscript%3E%E2%80%AE"),
        format!("/jobs/{first}"),
    ] {
        let page = server.page(&path).await;
        assert!(!page.contains("<script>") && !page.contains("<img"), "{path}");
        assert!(!page.contains(['\u{202e}', '\u{1b}']), "{path}");
        assert!(page.contains("&#60;script&#62;") || page.contains("&lt;script&gt;"), "{path} shows it");
    }
}

#[tokio::test]
async fn a_thousand_in_the_queue_stay_a_small_page() {
    let server = server();
    server.join(8).await;
    let array = |n| Some(Array { ranges: vec![(1, n, 1)], at_once: None });
    for i in 0..500 {
        server.submit(&format!("user-{}", i % 7), &format!("experiment-{i}"), vec![task("train", 1)]).await;
    }
    server.submit("ann", "sweep", vec![TaskSpec { array: array(500), ..task("point", 1) }]).await;
    let many = (0..200).map(|i| TaskSpec { array: array(5), ..task(&format!("step-{i}"), 1) }).collect();
    let graph = server.submit("bob", "graph", many).await;
    let loaded =
        |name: &str| name == "style.css" || name == "log.js" || super::SHARED_MODULES.contains(&name);
    let assets = super::assets::ASSETS.iter().filter(|(name, ..)| loaded(name));
    let fixed: usize = assets.map(|(_, _, content)| content.len()).sum();
    for path in ["/".to_owned(), "/queue".into(), "/queue?page=7".into(), format!("/jobs/{graph}")] {
        let page = server.page(&path).await;
        assert!(page.len() + fixed < 170_000, "{path}: {} bytes and {fixed} of assets", page.len());
    }
    assert!(server.page("/queue?q=experiment-499").await.contains("experiment-499"));
    assert!(!server.page("/queue?user=ann").await.contains("experiment-"));
}

/// The names of jobs in a table, in the order they stand.
fn names(page: &str) -> Vec<&str> {
    page.split("<b>")
        .skip(1)
        .filter_map(|rest| rest.split("</b> <span class=\"num\">").next())
        .filter(|n| n.len() < 9)
        .collect()
}

#[tokio::test]
async fn tables_are_sorted_and_filtered() {
    let server = server();
    server.join(1).await;
    server.submit("zoe", "busy", vec![task("t", 1)]).await;
    server.submit("zoe", "alpha", vec![task("t", 1)]).await;
    server.submit("ann", "gamma", vec![task("t", 1)]).await;
    server.submit("bob", "beta", vec![task("t", 0)]).await;
    let shown = async |query: &str| {
        let page = server.page(&format!("/queue{query}")).await;
        let (_, rows) = page.split_once("<tbody>").expect("a table");
        names(rows).join(" ")
    };
    assert_eq!(shown("").await, "busy beta alpha gamma", "what runs, then the line");
    assert_eq!(shown("?sort=name").await, "alpha beta busy gamma");
    assert_eq!(shown("?sort=-user").await, "alpha busy beta gamma");
    assert_eq!(shown("?state=ready").await, "alpha gamma");
    assert_eq!(shown("?sort=nonsense").await, "busy beta alpha gamma");
    let waited = shown("?sort=-waited").await;
    assert!(waited.starts_with("alpha gamma "), "the others had no wait: {waited}");
    let beta = TaskId { job: JobId(4), node: 0, index: 0 }.attempt(1);
    let attempts = [(beta, AttemptStatus::Running)].into_iter().collect();
    let report = Command::Report { worker: WorkerId(0), attempts, devices: BTreeMap::new() };
    server.engine.command(report).await.expect("a report");
    for way in ["ran", "-ran"] {
        assert_eq!(
            shown(&format!("?sort={way}")).await.split(' ').next(),
            Some("beta"),
            "only it began: {way}"
        );
    }
    for path in ["/finished?sort=-name", "/finished?sort=x;DROP TABLE job".replace(' ', "%20").as_str()] {
        server.page(path).await;
    }
}

#[tokio::test]
async fn a_document_is_read_and_what_is_wrong_has_its_place() {
    let server = server();
    let read = |text: &str| server.ask("POST", "/v1/jobs/document", Some(serde_json::json!({"text": text})));
    let good = text(read("command = \"true\"\ngpus = 1").await).await;
    assert!(good.contains("\"tasks\":[{") && good.contains("\"gpus\":1"), "{good}");
    let bad = text(read("name = \"x\"\n[[tasks]]\ncommand = \"true\"\ngpsu = 1").await).await;
    assert!(bad.contains("\"path\":\"tasks[0].gpsu\"") && bad.contains("\"line\":4"), "{bad}");
}

#[tokio::test]
async fn a_policy_is_tried_before_it_is_put_in_force() {
    let server = server();
    server.join(1).await;
    let timed = |secs| vec![TaskSpec { timeout: Some(warpyard_core::Span::from_secs(secs)), ..task("t", 1) }];
    server.submit("ann", "holds", timed(100.0)).await;
    server.submit("ann", "long", timed(900.0)).await;
    server.submit("bob", "short", timed(60.0)).await;
    let choice = serde_json::json!({"name": "short-first", "params": {"gamma": 0}});
    let seen = server.json("POST", "/v1/policy/preview", Some(choice.clone())).await;
    let places: Vec<_> = seen["order"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|m| (m["name"].as_str(), m["before"].as_u64(), m["after"].as_u64()))
        .collect();
    assert_eq!(places, [(Some("short"), Some(2), Some(1)), (Some("long"), Some(1), Some(2))]);
    assert!(server.page("/policies").await.contains("In force: <code>backfill</code>"), "nothing changed");
    server.json("PUT", "/v1/policy", Some(choice)).await;
    let page = server.page("/policies").await;
    assert!(page.contains("P = 1e9·0 − 1·60 + 0·"), "the formula with its numbers: {page}");
    let wrong = server
        .ask(
            "POST",
            "/v1/policy/preview",
            Some(serde_json::json!({"name": "short-first", "params": {"x": 1}})),
        )
        .await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn a_part_is_drawn_once_for_all_who_heard_of_the_same() {
    let server = server();
    server.join(1).await;
    let cookie = server.cookie();
    let part = async |heard: u64| {
        let request =
            Request::get("/queue").header(COOKIE, &cookie).header("x-warpyard-part", heard.to_string());
        text(server.send(request.body(Body::empty()).expect("a request")).await).await
    };
    let first = part(0).await;
    server.submit("ann", "came-later", vec![task("t", 1)]).await;
    assert_eq!(part(0).await, first, "whoever has not heard of it is not owed it yet");
    let heard = server.engine.read(|f| f.cluster().seq()).await.expect("a state");
    assert!(part(heard).await.contains("came-later"), "whoever has is");
    assert!(part(0).await.contains("came-later"), "and then all are");
}

#[tokio::test]
async fn what_happened_is_replayed_under_other_policies() {
    let server = server();
    server.join(1).await;
    let begin = |policies: &[&str]| {
        server.ask("POST", "/v1/replays", Some(serde_json::json!({"policies": policies, "back": "1h"})))
    };
    assert_eq!(begin(&["no-such"]).await.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let ended = async |id: u64| loop {
        let view = server.json("GET", &format!("/v1/replays/{id}"), None).await;
        if view["state"] != "running" {
            return view;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(begin(&["fifo"]).await.status(), StatusCode::ACCEPTED);
    let empty = ended(1).await;
    assert!(empty["why"].as_str().is_some_and(|w| w.starts_with("nothing was submitted")), "{empty}");
    for i in 0..3 {
        let job = server.submit("ann", &format!("job-{i}"), vec![task("t", 1)]).await;
        server.json("POST", &format!("/v1/jobs/{job}/cancel"), None).await;
    }
    assert_eq!(begin(&["fifo", "short-first:beta=2"]).await.status(), StatusCode::ACCEPTED);
    let view = ended(2).await;
    let kinds: Vec<_> =
        view["results"].as_array().expect("a list").iter().map(|r| r["kind"].as_str()).collect();
    assert_eq!(kinds, [Some("recorded"), Some("as-it-ran"), Some("policy"), Some("policy")], "{view}");
    assert_eq!((&view["progress"], &view["told"]["jobs"]), (&serde_json::json!(1.0), &serde_json::json!(3)));
}

#[tokio::test]
async fn a_jobs_secrets_are_hidden_and_its_buttons_fit_its_state() {
    let server = server();
    server.join(1).await;
    let mut one = task("t", 1);
    one.program.env =
        [("API_TOKEN".to_owned(), "hunter2".to_owned()), ("EPOCHS".to_owned(), "9".to_owned())].into();
    let job = server.submit("ann", "job", vec![one]).await;
    let page = server.page(&format!("/jobs/{job}")).await;
    assert!(!page.contains("hunter2") && page.contains("EPOCHS=9"), "{page}");
    assert!(page.contains("data-act=\"cancel\"") && !page.contains("data-act=\"retry\""), "{page}");
    server.json("POST", &format!("/v1/jobs/{job}/hold"), None).await;
    let held = server.page(&format!("/jobs/{job}")).await;
    assert!(held.contains("data-act=\"release\"") && !held.contains("data-act=\"hold\""), "{held}");
}

#[tokio::test]
async fn pages_say_who_is_where_and_who_is_next() {
    let server = server();
    assert!(server.page("/").await.contains("No worker has joined"));
    server.join(1).await;
    assert!(
        server.page("/").await.contains("warpyard run --gpus 1 -- env"),
        "an empty machine says what to do"
    );
    server.submit("ann", "holds-it", vec![task("t", 1)]).await;
    let next = server.submit("bob", "is-next", vec![task("t", 1)]).await;
    let page = server.page("/").await;
    let (tile, line) = page.split_once("id=\"h-line\"").expect("both parts");
    assert!(tile.contains("holds-it") && !tile.contains("is-next"), "{tile}");
    assert!(line.contains("is-next") && !line.contains("holds-it"), "{line}");
    let page = server.page(&format!("/jobs/{next}")).await;
    assert!(page.contains("the GPU is taken"), "{page}");
}

#[tokio::test]
async fn a_start_that_is_not_known_is_told_from_one_not_forecast_yet() {
    let server = server();
    server.join(1).await;
    let mut ends = task("t", 1);
    ends.timeout = Some(Span::from_secs(60.0));
    server.submit("ann", "has-it", vec![ends]).await;
    server.submit("bob", "endless", vec![task("t", 1)]).await;
    server.submit("carl", "behind-it", vec![task("t", 1)]).await;
    let starts = async || {
        let page = server.page("/queue").await;
        let cell = |part: &str| part[..part.find("</td>").expect("its end")].to_owned();
        page.split("data-label=\"starts\">").skip(2).map(cell).collect::<Vec<_>>()
    };
    let first = starts().await;
    assert!(first.iter().all(|cell| cell.contains("being computed")), "{first:?}");
    let told = loop {
        let now = starts().await;
        if now != first {
            break now;
        }
        tokio::task::yield_now().await;
    };
    assert!(told[0].contains("<time"), "{told:?}");
    let reason = "unknown: a task ahead states no time limit and has no comparable earlier runs: 2 (waiting)";
    assert!(told[1].contains(reason), "{told:?}");
}

#[tokio::test]
async fn who_has_all_they_may_have_stands_in_the_queue_with_that_reason() {
    let server = server();
    server.join(2).await;
    let everyone = Caps { running: Some(1), ..Caps::default() };
    let limits = Limits { everyone, ..Limits::default() };
    server.engine.command(Command::SetLimits(limits.into())).await.expect("limits");
    server.submit("ann", "has-hers", vec![task("t", 1)]).await;
    server.submit("ann", "held-back", vec![task("t", 1)]).await;
    let page = server.page("/queue").await;
    let (_, row) = page.split_once("held-back").expect("a row of its own");
    assert!(row.contains("ann may have 1 task running at once and has 1"), "{row}");
}

#[tokio::test]
async fn what_its_own_array_holds_back_is_one_row_behind_the_line_and_counted() {
    let server = server();
    server.join(3).await;
    let array = Some(Array { ranges: vec![(1, 50, 1)], at_once: Some(2) });
    server.submit("ann", "two-of", vec![TaskSpec { array, ..task("t", 1) }]).await;
    server.submit("bob", "has-one", vec![task("t", 1)]).await;
    let held_back = |rows: &str| {
        assert_eq!(rows.matches("two-of").count(), 1, "one row for all: {rows}");
        let (_, row) = rows.split_once("two-of").expect("a row");
        let row = &row[..row.find("</tr>").or_else(|| row.find("</li>")).expect("its end")];
        assert!(row.contains("class=\"times\">× 48</span>"), "{row}");
        assert!(row.contains("2 of its array run at once"), "{row}");
        assert!(row.contains("unknown: it joins the queue") && !row.contains("far back"), "{row}");
        let no_place = ["data-label=\"position\"></td>", "<span class=\"place\"></span>"];
        assert!(no_place.iter().any(|cell| rows.contains(cell)), "it has no place: {rows}");
    };
    let now = server.page("/").await;
    held_back(now.split_once("id=\"h-line\"").expect("the line").1);
    held_back(server.page("/queue?state=ready").await.split_once("<tbody>").expect("a table").1);
    server.submit("carl", "in-line", vec![task("t", 1)]).await;
    let after = vec![AfterNode { node: 0, on: DependencyCondition::Ok }];
    server.submit("zoe", "chain", vec![task("a", 1), TaskSpec { after, ..task("b", 1) }]).await;
    let page = server.page("/queue").await;
    let (_, rows) = page.split_once("<tbody>").expect("a table");
    assert_eq!(names(rows).join(" "), "two-of has-one in-line chain two-of chain");
    assert!(page.contains("Rows 1–6 of 6"), "{page}");
    let (now, figures) = (server.page("/").await, text(server.ask("GET", "/metrics", None).await).await);
    assert!(figures.contains("warpyard_tasks{state=\"ready\"} 50"), "{figures}");
    assert!(now.contains("<dd>50</dd><dt>queued</dt>"), "{now}");
    let (_, line) = now.split_once("id=\"h-line\"").expect("the line");
    assert_eq!(names(line).join(" "), "in-line chain two-of");
}

/// The next event of a stream.
async fn event(body: &mut (impl Stream<Item = Result<Bytes, axum::Error>> + Unpin)) -> String {
    let mut body = pin!(body);
    let bytes = poll_fn(|cx| body.as_mut().poll_next(cx)).await.expect("an event").expect("whole");
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn id(event: &str) -> &str {
    event.lines().next().and_then(|l| l.strip_prefix("id: ")).expect("an id")
}

#[tokio::test]
async fn a_cut_stream_goes_on_where_it_was_cut() {
    let server = server();
    let cookie = server.cookie();
    let mut first = server.get("/v1/events?after=0", Some(&cookie)).await.into_body().into_data_stream();
    server.join(1).await;
    let joined = event(&mut first).await;
    assert!(joined.contains("\"devices\":[\"w/0\"]"), "{joined}");
    drop(first);
    let job = server.submit("ann", "one", vec![task("t", 1)]).await;
    let resume = |last: String| {
        let request =
            Request::get("/v1/events?after=0").header(COOKIE, &cookie).header("last-event-id", last);
        server.send(request.body(Body::empty()).expect("a request"))
    };
    let mut again = resume(id(&joined).to_owned()).await.into_body().into_data_stream();
    let submitted = event(&mut again).await;
    assert!(submitted.contains(&format!("\"jobs\":[\"{job}\"]")), "{submitted}");
    assert!(
        id(&submitted).parse::<u64>().expect("a number") > id(&joined).parse().expect("a number"),
        "no repeat"
    );
    let mut lost = resume("123456789".into()).await.into_body().into_data_stream();
    assert!(event(&mut lost).await.contains("event: reset"));
}

#[tokio::test]
async fn page_after_page_lists_everything_once() {
    let server = server();
    server.join(1).await;
    let array = Some(Array { ranges: vec![(1, 300, 1)], at_once: None });
    server.submit("ann", "sweep", vec![TaskSpec { array, ..task("point", 1) }]).await;
    for i in 0..120 {
        server.submit("bob", &format!("j{i}"), vec![task("t", 1)]).await;
    }
    server
        .submit(
            "zoe",
            "chain",
            vec![
                task("a", 1),
                TaskSpec {
                    after: vec![AfterNode { node: 0, on: DependencyCondition::default() }],
                    ..task("b", 1)
                },
            ],
        )
        .await;
    let all = async |query: &str| {
        let mut listed = String::new();
        for page in 1..=3 {
            let page = server.page(&format!("/queue?page={page}{query}")).await;
            let (_, rows) = page.split_once("<tbody>").expect("a table");
            listed += &names(rows).join(" ");
            listed += " ";
        }
        listed
    };
    let plain = all("").await;
    assert_eq!(plain, all("&sort=nonsense").await, "looking along all of the line finds the same");
    assert_eq!(
        plain.split_whitespace().count(),
        124,
        "sweep runs and waits, and so do both of chain: {plain}"
    );
}

#[tokio::test]
async fn tables_say_which_gpus_a_task_may_have_and_how_it_waits_for_them() {
    let server = server();
    server.join(4).await;
    let mut some = task("t", 2);
    some.needs.scope = [1, 2, 3].map(|index| DeviceId { worker: WorkerId(0), index }).into();
    some.needs.wait_mode = WaitMode::Schedule;
    let job = server.submit("ann", "among", vec![some]).await;
    let row = |page: String| {
        let (_, row) = page.split_once("<b>among</b>").expect("a row");
        row[..row.find("</tr>").expect("its end")].to_owned()
    };
    let columns =
        ["data-label=\"needs\">2 GPUs<", "data-label=\"mode\">schedule<", "data-label=\"scope\">1, 2, 3<"];
    let open = row(server.page("/queue").await);
    for column in columns {
        assert!(open.contains(column), "{column}: {open}");
    }
    server.json("POST", &format!("/v1/jobs/{job}/cancel"), None).await;
    server.end(&[(0, EndReason::Exited(0), Usage::default())]).await;
    let columns = columns.map(|c| c.replace("needs\"", "needed\""));
    let is_told = async |server: &Server, when: &str| {
        let page = server.page("/finished").await;
        assert!(page.contains("data-label=\"number\">1<"), "{page}");
        let over = row(page);
        for column in &columns {
            assert!(over.contains(column), "{when}, {column}: {over}");
        }
    };
    is_told(&server, "as it ended").await;
    server.engine.command(Command::Forget(JobId(1))).await.expect("it is over");
    is_told(&server, "when memory no longer holds it").await;
    let server = server.restarted_after(|data| {
        let db = rusqlite::Connection::open(data.join("history.db")).expect("tables");
        let older = "DROP INDEX job_by_wait; DROP INDEX job_by_run; PRAGMA user_version = 0;
                     ALTER TABLE job DROP COLUMN started; ALTER TABLE job DROP COLUMN needs;";
        db.execute_batch(older).expect("tables as an older program had them");
    });
    is_told(&server, "where an older program kept it").await;
}

#[tokio::test]
async fn a_job_says_how_its_tasks_ended_and_no_rate_of_what_was_over_at_once() {
    let server = server();
    server.join(0).await;
    let array = Some(Array { ranges: vec![(0, 2, 1)], at_once: None });
    let job = server.submit("ann", "three", vec![TaskSpec { array, ..task("part", 0) }]).await;
    let used = |ran, cpu| Usage { ran: Span(ran), cpu: Span(cpu), ..Usage::default() };
    let ends = [
        (0, EndReason::Exited(0), used(2_000_000, 1_000_000)),
        (1, EndReason::Exited(137), used(1_000, 20_000)),
        (2, EndReason::Exited(0), used(1_000, 30_000)),
    ];
    server.end(&ends).await;
    let page = server.page(&format!("/jobs/{job}")).await;
    assert!(page.contains("2 succeeded, 1 failed"), "{page}");
    assert!(
        page.contains("part[1] exited with code 137: its command was killed by SIGKILL (signal 9)"),
        "{page}"
    );
    assert!(page.contains("0.50 CPUs") && !page.contains("30.00 CPUs"), "{page}");
}

#[tokio::test]
async fn a_machine_without_gpus_says_so() {
    let server = server();
    server.join(0).await;
    let page = server.page("/").await;
    assert!(page.contains("No GPU was found") && page.contains("warpyard doctor"), "{page}");
}

/// The folder of a crate's files, read at the time of the test.
fn files(folder: &str) -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(&folder).expect("the folder").map(|entry| entry.expect("a file").path());
    let read = |path: std::path::PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("text"))
    };
    entries.map(read).collect()
}

#[test]
fn templates_fit_the_screen_they_are_read_on() {
    for (name, content) in files("templates") {
        for (number, line) in content.lines().enumerate() {
            assert!(line.chars().count() <= 160, "{name}:{}: {} characters", number + 1, line.len());
        }
    }
}

/// A module a script imports and nobody serves would leave a page without any script.
#[test]
fn every_asset_is_served_and_every_import_is_one() {
    let served = |name: &str| super::assets::ASSETS.iter().any(|(known, ..)| *known == name);
    for (name, content) in files("assets") {
        assert!(served(&name), "{name} is not in ASSETS");
        if name.ends_with(".js") {
            assert!(content.starts_with("// "), "{name} says at its top what it is");
            for import in content.lines().filter(|line| line.starts_with("import ")) {
                let from = import.rsplit('"').nth(1).and_then(|path| path.strip_prefix("./"));
                assert!(from.is_some_and(served), "{name}: {import}");
            }
        }
    }
    assert!(super::SHARED_MODULES.iter().all(|name| served(name)));
}

#[tokio::test]
async fn an_asset_that_is_known_is_not_sent_again() {
    let server = server();
    let answer = server.get("/assets/page.js", None).await;
    let tag = answer.headers().get(ETAG).expect("a tag").clone();
    assert!(text(answer).await.contains("import"));
    let again =
        Request::get("/assets/page.js").header(IF_NONE_MATCH, tag).body(Body::empty()).expect("a request");
    assert_eq!(server.send(again).await.status(), StatusCode::NOT_MODIFIED);
}
