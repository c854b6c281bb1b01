//! People of a worker's machine, who reach the server through the worker and are themselves there.

use super::*;
use crate::caller::Sharing;
use crate::router::router;
use crate::serve::serve;
use crate::testing::{Server, server_with};
use crate::tls::ServerTls;
use crate::tokens::{NewKind, NewToken};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use tokio::net::TcpListener;
use warpyard_api::token::Secret;

/// Sends a request through a socket as the user with this id, and prints the response.
const CALL: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode())
out = b''
while chunk := s.recv(65536): out += chunk
sys.stdout.write(out.decode())
";

/// A shared server with TLS, and the socket of a worker that joined it.
struct Cluster {
    server: Server,
    socket: PathBuf,
    _forwarder: Forwarder,
    _dir: tempfile::TempDir,
}

impl Cluster {
    /// Nothing where the test cannot be other users.
    async fn new(vouch: bool) -> Option<Cluster> {
        if !warpyard_worker::accounts::is_root() {
            eprintln!("SKIPPED: only root can call as other users");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("its mode can be set");
        let sharing = Sharing { admins: "bin".into(), private: false };
        let server = server_with(|app| app.sharing = Some(sharing));
        let tls = ServerTls::with_own_ca(dir.path(), vec!["localhost".into()]).expect("TLS");
        let port = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", port.local_addr().expect("an address"));
        tokio::spawn(serve(port, Some(tls.acceptor()), router(server.app.clone()), Limits::default()));
        let kind = NewKind::Join { uses: 1, vouch };
        let (join, _) = server.app.tokens.create(NewToken { label: None, lasts: 60, kind }).expect("a token");
        let key = Secret::generate().expect("random bytes");
        server.app.tokens.redeem_join(join.as_str(), "gpu1", key.as_str()).expect("a worker");
        let socket = dir.path().join("run/socket");
        let target = Target::with_secret(&url, Some(tls.ca().expect("a CA").0), key.as_str());
        let forwarder = start(socket.clone(), target, &Handle::current()).expect("a socket");
        Some(Cluster { server, socket, _forwarder: forwarder, _dir: dir })
    }

    /// What the user with this id is answered.
    async fn call(&self, uid: u32, request: &str) -> String {
        let mut python = Command::new("python3");
        python.args(["-c", CALL]).arg(&self.socket).arg(request).uid(uid).gid(uid);
        let Output { status, stdout, stderr } =
            tokio::task::spawn_blocking(move || python.output()).await.expect("it runs").expect("python3");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).expect("text")
    }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
}

/// The account that every machine has for nothing in particular, and one that is in the admins' group.
const NOBODY: u32 = 65534;
const BIN: u32 = 2;

#[tokio::test]
async fn users_of_a_worker_are_themselves_at_the_server_and_admins_are_not_vouched_for() {
    let Some(cluster) = Cluster::new(true).await else { return };
    let body = r#"{"doc": {"name": "mine", "command": "true"}}"#;
    let submit = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Warpyard-User: bin\r\nAuthorization: Bearer stolen\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let submitted = cluster.call(NOBODY, &submit).await;
    assert!(submitted.starts_with("HTTP/1.1 201"), "{submitted}");
    let job = cluster.call(NOBODY, &get("/v1/jobs/1", "")).await;
    assert!(job.contains(r#""user":"nobody""#), "what the caller says of itself does not count: {job}");
    let drain = cluster.call(NOBODY, &get("/v1/workers/self", "")).await;
    assert!(drain.starts_with("HTTP/1.1 403") && drain.contains("workers-only"), "{drain}");
    for uid in [0, BIN] {
        let refused = cluster.call(uid, &get("/v1/jobs", "")).await;
        assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("may-not-vouch"), "{uid}: {refused}");
    }
    cluster.server.app.tokens.revoke_worker("gpu1").expect("stored");
    let after = cluster.call(NOBODY, &get("/v1/jobs", "")).await;
    assert!(after.starts_with("HTTP/1.1 401"), "{after}");
}

#[tokio::test]
async fn a_worker_that_may_not_vouch_is_refused_with_what_to_do() {
    let Some(cluster) = Cluster::new(false).await else { return };
    let refused = cluster.call(NOBODY, &get("/v1/jobs", "")).await;
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("may-not-vouch"), "{refused}");
    assert!(refused.contains("--vouch"), "{refused}");
}
