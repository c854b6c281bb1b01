//! What a connection may cost, on the port and on the socket alike: whoever goes beyond it is refused or cut off, and
//! nobody else notices.

use super::*;
use crate::router::router;
use crate::testing::{Server, TOKEN, server, task};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;

/// Longer than anything here takes; only a mistake waits for it.
const LONG: Duration = Duration::from_secs(30);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A way in.
enum Way {
    Port(std::net::SocketAddr),
    Socket(tempfile::TempDir),
}

impl Way {
    async fn connect(&self) -> Box<dyn Stream> {
        match self {
            Way::Port(address) => Box::new(TcpStream::connect(address).await.expect("a connection")),
            Way::Socket(dir) => {
                Box::new(UnixStream::connect(dir.path().join("s")).await.expect("a connection"))
            }
        }
    }

    /// Sends a text and gives what comes back until the other end closes.
    async fn sent(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        // The other end may have had enough before all was sent.
        let _cut_off = stream.write_all(text.as_bytes()).await;
        all_of(&mut stream).await
    }
}

async fn all_of(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let _cut_off = timeout(LONG, stream.read_to_end(&mut text)).await.expect("it is closed in the end");
    String::from_utf8_lossy(&text).into_owned()
}

/// Both ways into a server, within limits.
async fn ways(server: &Server, limits: Limits) -> [Way; 2] {
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = port.local_addr().expect("an address");
    let dir = tempfile::tempdir().expect("a directory");
    let socket = UnixListener::bind(dir.path().join("s")).expect("a socket");
    tokio::spawn(serve(port, None, router(server.app.clone()), limits));
    tokio::spawn(serve(socket, None, router(server.app.clone()), limits));
    [Way::Port(address), Way::Socket(dir)]
}

fn request(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\r\n")
}

const CLOSE: &str = "Connection: close\r\n";

#[tokio::test]
async fn a_head_that_is_too_large_or_has_too_many_headers_is_refused() {
    let server = server();
    for way in ways(&server, Limits { head: 8 << 10, ..Limits::default() }).await {
        let fine = way.sent(&request("/v1/info", CLOSE)).await;
        assert!(fine.starts_with("HTTP/1.1 200"), "{fine}");
        let many = "A: b\r\n".repeat(120) + CLOSE;
        let refused = way.sent(&request("/v1/info", &many)).await;
        assert!(refused.starts_with("HTTP/1.1 431"), "{refused}");
        let large = format!("A: {}\r\n{CLOSE}", "b".repeat(9 << 10));
        let refused = way.sent(&request("/v1/info", &large)).await;
        assert!(refused.starts_with("HTTP/1.1 431") || refused.is_empty(), "{refused}");
    }
}

#[tokio::test]
async fn a_head_that_does_not_arrive_is_not_waited_for() {
    let server = server();
    let limits = Limits { head_within: Duration::from_millis(100), ..Limits::default() };
    for way in ways(&server, limits).await {
        let answer = way.sent("GET /v1/info HTTP/1.1\r\nHost: localhost\r\nAutho").await;
        assert!(!answer.contains("200 OK"), "{answer}");
        let answer = way.sent(&request("/v1/info", "")).await;
        assert!(answer.contains("200 OK"), "who asks for nothing more is closed as well: {answer}");
    }
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_or_are_refused_until_one_ends() {
    let server = server();
    for way in ways(&server, Limits { connections: 2, ..Limits::default() }).await {
        let mut first = way.connect().await;
        let mut second = way.connect().await;
        for one in [&mut first, &mut second] {
            one.write_all(request("/v1/info", "").as_bytes()).await.expect("sent");
            one.read_u8().await.expect("an answer");
        }
        if let Way::Port(_) = way {
            let refused = way.sent(&request("/v1/info", CLOSE)).await;
            assert!(
                refused.starts_with("HTTP/1.1 503") && refused.contains("too-many-connections"),
                "{refused}"
            );
            drop(first);
            let answered = async {
                // The server has to notice that the first has left.
                while !way.sent(&request("/v1/info", CLOSE)).await.contains("200 OK") {
                    tokio::task::yield_now().await;
                }
            };
            timeout(LONG, answered).await.expect("a place is free again");
            continue;
        }
        let mut third = way.connect().await;
        third.write_all(request("/v1/info", CLOSE).as_bytes()).await.expect("sent");
        timeout(Duration::from_millis(150), third.read_u8()).await.expect_err("both places are taken");
        drop(first);
        assert!(all_of(&mut third).await.contains("200 OK"));
        drop(second);
    }
}

#[tokio::test]
async fn who_says_nothing_gives_way_and_who_has_shown_who_they_are_stays() {
    let server = server();
    let limits = Limits { unknown: 4, unknown_per_address: 3, ..Limits::default() };
    let [port, _socket] = ways(&server, limits).await;
    let mut known = port.connect().await;
    known.write_all(request("/v1/info", "").as_bytes()).await.expect("sent");
    known.read_u8().await.expect("an answer");
    let mut silent = Vec::new();
    for _ in 0..5 {
        silent.push(port.connect().await);
    }
    for early in &mut silent[..2] {
        assert_eq!(all_of(early).await, "", "it gave way to a later one");
    }
    let fine = port.sent(&request("/v1/info", CLOSE)).await;
    assert!(fine.starts_with("HTTP/1.1 200"), "{fine}");
    known.write_all(request("/v1/info", CLOSE).as_bytes()).await.expect("sent");
    assert!(all_of(&mut known).await.contains("200 OK"), "it is not a newcomer");
}

#[tokio::test]
async fn who_does_not_show_who_they_are_in_time_is_cut_off() {
    let server = server();
    let limits = Limits { unknown_within: Duration::from_millis(100), ..Limits::default() };
    let [port, _socket] = ways(&server, limits).await;
    let mut known = port.connect().await;
    known.write_all(request("/v1/info", "").as_bytes()).await.expect("sent");
    known.read_u8().await.expect("an answer");
    // What anyone may ask for does not make them known.
    let mut silent = port.connect().await;
    silent.write_all(b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    assert!(all_of(&mut silent).await.contains("200 OK"), "it was answered, and then closed");
    known.write_all(request("/v1/info", CLOSE).as_bytes()).await.expect("sent");
    assert!(all_of(&mut known).await.contains("200 OK"));
}

#[tokio::test]
async fn one_user_cannot_take_every_place_of_the_socket() {
    let server = server();
    let [_port, socket] = ways(&server, Limits { per_user: 2, ..Limits::default() }).await;
    let (first, second) = (socket.connect().await, socket.connect().await);
    assert_eq!(socket.sent(&request("/v1/info", CLOSE)).await, "", "closed at once");
    drop(first);
    let answered = async {
        // The server has to notice that the first has left.
        while !socket.sent(&request("/v1/info", CLOSE)).await.contains("200 OK") {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, answered).await.expect("a place is free again");
    drop(second);
}

/// A connection in memory, and the task that answers it.
fn connected(server: &Server, limits: Limits) -> (DuplexStream, tokio::task::JoinHandle<()>) {
    let (here, there) = duplex(1_024);
    (here, tokio::spawn(answer(there, |_| {}, router(server.app.clone()), limits, ())))
}

#[tokio::test]
async fn a_reader_of_events_that_stops_reading_is_cut_off_and_others_have_everything() {
    let server = server();
    let limits = Limits { patience: Duration::from_millis(50), ..Limits::default() };
    let ((mut slow, cut_off), (mut quick, _)) = (connected(&server, limits), connected(&server, limits));
    for stream in [&mut slow, &mut quick] {
        stream.write_all(request("/v1/events?after=0", "").as_bytes()).await.expect("sent");
    }
    let heard = tokio::spawn(async move {
        let (mut text, mut chunk) = (String::new(), [0; 4_096]);
        while !text.contains("\"seq\":400,") {
            let count = quick.read(&mut chunk).await.expect("it is not cut off");
            assert!(count > 0, "it is not cut off");
            text.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
        text.matches("\"seq\":").count()
    });
    for _ in 0..400 {
        server.submit("ann", "noise", vec![task("t", 0)]).await;
    }
    timeout(LONG, cut_off).await.expect("it is cut off").expect("without a panic");
    assert_eq!(timeout(LONG, heard).await.expect("all of it").expect("without a panic"), 400);
}

#[tokio::test]
async fn handshakes_that_do_not_go_on_give_way_and_end_in_time_while_others_are_served() {
    let (server, dir) = (server(), tempfile::tempdir().expect("a directory"));
    let tls = crate::tls::ServerTls::with_own_ca(dir.path(), Vec::new()).expect("TLS");
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = port.local_addr().expect("an address");
    let limits = Limits {
        unknown: 16,
        unknown_per_address: 8,
        unknown_within: Duration::from_secs(2),
        ..Limits::default()
    };
    tokio::spawn(serve(port, Some(tls.acceptor()), router(server.app.clone()), limits));
    let mut stalled = Vec::new();
    for beginning in [&b"\x16"[..], b"\x16\x03\x01\x02\x00\x01", b""].into_iter().cycle().take(300) {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        // It may have given way already.
        let _gave_way = stream.write_all(beginning).await;
        stalled.push(stream);
    }
    let config =
        warpyard_api::client::client_config(Some(tls.ca().expect("a CA").0)).expect("a configuration");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.expect("a connection");
    let name = tokio_rustls::rustls::pki_types::ServerName::try_from("localhost").expect("a name");
    let mut stream = connector.connect(name, stream).await.expect("a handshake");
    stream.write_all(request("/v1/info", CLOSE).as_bytes()).await.expect("sent");
    assert!(all_of(&mut stream).await.starts_with("HTTP/1.1 200"), "whoever comes with a token is served");
    for mut stream in stalled {
        assert_eq!(all_of(&mut stream).await, "", "all of them are closed in the end");
    }
}
