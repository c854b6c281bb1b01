//! Identity: who is believed to be whom, on sockets, ports and pages.

use crate::machine::{Machine, Page, get};
use crate::support::{Answer, FAKE, Server, output, warpyard};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Someone who is neither the server's user nor root: `nobody`.
const ANOTHER: u32 = 65_534;

fn read(server: &Server, file: &str) -> String {
    fs::read_to_string(server.data().join(file)).expect("a server leaves it").trim().to_owned()
}

/// The port a server listens on.
fn port(server: &Server) -> u16 {
    read(server, "address").rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Asks through a port, with the token.
fn by_port(server: &Server, url: &str, args: &[&str]) -> Answer {
    let mut command = warpyard(&server.path("elsewhere"), args);
    command.env("WARPYARD_SERVER", url).env("WARPYARD_TOKEN", read(server, "token"));
    output(&mut command)
}

/// Listens where a server listened that is dead by now.
fn squat(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).expect("whoever is first has it")
}

#[test]
fn a_squatter_on_the_port_of_a_dead_server_gets_no_token() {
    let mut server = Server::up(&FAKE);
    let (url, port, token) = (read(&server, "address"), port(&server), read(&server, "token"));
    server.end_by(Signal::SIGKILL);
    assert_eq!(read(&server, "address"), url, "a server that is killed leaves its address behind");
    let squatter = squat(port);

    // What finds the server by its data directory does not come to the port at all.
    let answer = server.ask(&["ps"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.err.contains("start one with `warpyard up`"), "{answer:?}");
    squatter.set_nonblocking(true).expect("it can be");
    assert_eq!(squatter.accept().expect_err("nobody came").kind(), ErrorKind::WouldBlock);
    squatter.set_nonblocking(false).expect("it can be");

    // What is told the port asks for a proof, and sends nothing else without it.
    let heard = thread::spawn(move || {
        let (stream, _) = squatter.accept().expect("a caller");
        let mut reader = BufReader::new(stream);
        let mut heard = String::new();
        while !heard.ends_with("\r\n\r\n") {
            reader.read_line(&mut heard).expect("text");
        }
        let made_up = format!("{{\"proof\":\"{}\"}}", "0".repeat(64));
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", made_up.len());
        reader.get_mut().write_all((head + &made_up).as_bytes()).expect("it is read");
        let _reset = reader.read_to_string(&mut heard);
        heard
    });
    let answer = by_port(&server, &url, &["submit", "--", "echo", "a secret of the job"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("the token was not sent"), "{answer:?}");
    let heard = heard.join().expect("it only listens");
    assert!(heard.starts_with("GET /v1/proof?nonce="), "{heard}");
    assert!(!heard.contains(&token) && !heard.contains("a secret"), "{heard}");
}

#[test]
fn a_squatter_cannot_have_its_proof_from_the_server_itself() {
    let mut server = Server::up(&FAKE);
    let (old, token) = (port(&server), read(&server, "token"));
    server.end_by(Signal::SIGKILL);
    let squatter = squat(old);
    server.start();
    let real = port(&server);
    assert_ne!(old, real);
    // It passes everything on to the server, which has moved, and reads along.
    let heard = thread::spawn(move || {
        let (caller, _) = squatter.accept().expect("a caller");
        let mut to = TcpStream::connect(("127.0.0.1", real)).expect("the server listens");
        let (mut from, mut back) = (to.try_clone().expect("a stream"), caller.try_clone().expect("a stream"));
        thread::spawn(move || std::io::copy(&mut from, &mut back));
        let (mut heard, mut chunk, mut caller) = (Vec::new(), [0; 4096], caller);
        while let Ok(count @ 1..) = caller.read(&mut chunk) {
            heard.extend_from_slice(&chunk[..count]);
            to.write_all(&chunk[..count]).expect("it is passed on");
        }
        String::from_utf8(heard).expect("text")
    });
    let answer = by_port(&server, &format!("http://localhost:{old}"), &["ps"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("the token was not sent"), "{answer:?}");
    let heard = heard.join().expect("it only listens");
    assert!(heard.contains("/v1/proof") && !heard.contains(&token), "{heard}");
    let fine = by_port(&server, &format!("http://127.0.0.1:{real}"), &["ps"]);
    assert_eq!(fine.code, Some(0), "the server itself is believed: {fine:?}");
}

#[test]
fn a_squatter_on_a_socket_gets_nothing() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only root can be two users at once");
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).expect("its rights can be set");
    let socket = dir.path().join("socket");
    let program = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(); \
                   print('up', flush=True); c, _ = s.accept(); print('heard', c.recv(1000), flush=True)";
    let mut squatter = Command::new("python3");
    squatter.args(["-c", program]).arg(&socket).uid(ANOTHER).gid(ANOTHER).stdout(Stdio::piped());
    let mut squatter = squatter.spawn().expect("python runs");
    let mut said = BufReader::new(squatter.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert_eq!(line, "up\n");
    let mut command = warpyard(dir.path(), &["submit", "--", "echo", "a secret of the job"]);
    let answer = output(command.env("WARPYARD_SERVER", format!("unix:{}", socket.display())));
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(
        answer.err.contains("nobody listens on") && answer.err.contains("nothing was sent"),
        "{answer:?}"
    );
    said.read_line(&mut line).expect("text");
    assert_eq!(line, "up\nheard b''\n");
    squatter.wait().expect("it has ended");
}

#[test]
fn a_data_directory_prepared_by_another_is_neither_served_nor_believed() {
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only root can give directories away");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |data: &Path, why: &str| {
        for args in [&["up", "--listen", "127.0.0.1:0", "--gpus", "none"][..], &["ps"], &["login"]] {
            let answer = output(&mut warpyard(data, args));
            assert_eq!(answer.code, Some(2), "{args:?}: {answer:?}");
            assert!(answer.err.contains(why), "{args:?}: {answer:?}");
        }
        let left: Vec<_> =
            fs::read_dir(data).expect("it is there").flatten().map(|e| e.file_name()).collect();
        assert!(left.is_empty(), "{left:?}");
    };
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).expect("made");
    chown(&theirs, Some(ANOTHER), Some(ANOTHER)).expect("it can be given");
    refused(&theirs, "belongs to user nobody");

    let open = dir.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("its rights can be set");
    refused(&open, "chmod go-w");

    let inside = theirs.join("inside");
    fs::create_dir(&inside).expect("made");
    refused(&inside, "could put another directory in its place");

    let (own, link) = (dir.path().join("own"), dir.path().join("link"));
    fs::create_dir(&own).expect("made");
    fs::set_permissions(&own, Permissions::from_mode(0o700)).expect("its rights can be set");
    symlink(&own, &link).expect("made");
    lchown(&link, Some(ANOTHER), Some(ANOTHER)).expect("it can be given");
    refused(&link, "could put another directory in its place");
}

#[test]
fn a_login_is_worth_nothing_at_another_port_or_host() {
    let server = Server::up(&FAKE);
    let link = server.json(&["login"])["login"].as_str().expect("a link").to_owned();
    let page = Page::open(&link);
    let (name, port) = page.host.split_once(':').expect("a port");
    assert!(name.starts_with("wy-") && name.ends_with(".localhost") && name.len() > 30, "{name}");
    assert!(page.shows("/queue").starts_with("HTTP/1.1 200"));
    // A browser sends it to whoever listens on another port of a name it was set for: of this name, nobody knows.
    let cookie = format!("Cookie: {}\r\n", page.cookie);
    for known in ["127.0.0.1", "localhost", "[::1]", "wy-0123456789abcdef01234567.localhost"] {
        let answer = get(&format!("{known}:{port}"), "/v1/jobs", &cookie);
        assert!(answer.starts_with("HTTP/1.1 401"), "{known}: {answer}");
    }
    for site in ["evil.example", "wy.localhost.evil.example"] {
        let answer = get(&format!("{site}:{port}"), "/v1/jobs", &cookie);
        assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("wrong-host"), "{site}: {answer}");
        assert!(answer.contains("application/problem+json") && answer.contains("`hosts`"), "{answer}");
    }
    let elsewhere = get(&format!("127.0.0.1:{port}"), "/", "");
    assert!(elsewhere.starts_with("HTTP/1.1 401") && elsewhere.contains("warpyard login"), "{elsewhere}");
    assert!(!elsewhere.contains(name), "nobody is told the name: {elsewhere}");
}

#[test]
fn people_of_a_shared_machine_do_not_know_each_others_hosts() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let login = |person: &crate::machine::Person<'_>| {
        Page::open(person.json(&["login"])["login"].as_str().expect("a link"))
    };
    let (anns, bobs) = (login(&ann), login(&bob));
    assert_ne!(anns.host, bobs.host);
    let cookie = format!("Cookie: {}\r\n", anns.cookie);
    assert!(get(&anns.host, "/v1/jobs", &cookie).starts_with("HTTP/1.1 200"));
    assert!(get(&bobs.host, "/v1/jobs", &cookie).starts_with("HTTP/1.1 401"));
}

#[test]
fn a_job_is_not_cloned_by_someone_else() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let job = ann.submit(&["--", "echo", "words-of-ann"]);
    let form = |person: &crate::machine::Person<'_>| {
        let page = Page::open(person.json(&["login"])["login"].as_str().expect("a link"));
        page.shows(&format!("/new?clone={job}"))
    };
    let (own, theirs) = (form(&ann), form(&bob));
    assert!(own.starts_with("HTTP/1.1 200") && own.contains("words-of-ann"), "{own}");
    assert!(theirs.starts_with("HTTP/1.1 404") && !theirs.contains("words-of-ann"), "{theirs}");
}

#[test]
fn four_thousand_silent_connections_close_neither_the_port_nor_the_socket() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const MANY: usize = 4_096;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read");
    if hard < MANY as u64 + 512 {
        return eprintln!("SKIPPED: this process may not open that many connections");
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(MANY as u64 + 512).min(hard), hard)
        .expect("it can be raised");
    // As a soft limit, which the server raises, and as a hard one, with which it has to do.
    for limit in ["ulimit -S -n 1024", "ulimit -n 1024"] {
        let mut server = Server::down(&FAKE).after(limit);
        server.start();
        let (port, token) = (port(&server), read(&server, "token"));
        let connect = |_| TcpStream::connect(("127.0.0.1", port)).expect("the port is open");
        let silent: Vec<TcpStream> = (0..MANY).map(connect).collect();
        assert_eq!(
            server.said(&["run", "--", "sh", "-c", "ulimit -S -n"]),
            "1024\n",
            "tasks keep their limits"
        );
        let header = format!("Authorization: Bearer {token}\r\n");
        let answer = get(&format!("127.0.0.1:{port}"), "/v1/jobs?all=true", &header);
        assert!(answer.starts_with("HTTP/1.1 200"), "{limit}: {answer}");
        let fine = by_port(&server, &format!("http://127.0.0.1:{port}"), &["run", "--", "echo", "through"]);
        assert_eq!(fine.fine(), "through\n", "{limit}");
        drop(silent);
        let (_, said) = server.end_by(Signal::SIGTERM);
        assert!(!said.contains("Too many open files"), "{limit}: {said}");
    }
}

#[test]
fn wrong_tokens_lock_nobody_out_but_their_sender() {
    let server = Server::up(&FAKE);
    let host = format!("127.0.0.1:{}", port(&server));
    let log_in = |token: &str| {
        let mut stream = TcpStream::connect(&host).expect("the server listens");
        let body = format!("token={token}");
        write!(
            stream,
            "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .expect("it can be asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer
    };
    let answers: Vec<String> = (0..30).map(|_| log_in("wrong")).collect();
    assert!(answers[0].starts_with("HTTP/1.1 403") && answers[29].starts_with("HTTP/1.1 429"));
    let answer = log_in(&read(&server, "token"));
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(".localhost"), "{answer}");
    assert_eq!(server.ask(&["ps"]).code, Some(0));
}

#[test]
fn an_open_umask_opens_nothing() {
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    let mut server = Server::down(&FAKE).after("umask 000");
    server.start();
    assert_eq!(mode(server.data()), 0o700);
    assert_eq!(mode(&server.data().join("socket")), 0o600);
    for entry in fs::read_dir(server.data()).expect("it is there").flatten() {
        let path = entry.path();
        assert_eq!(mode(&path) & 0o022, 0, "{}: {:o}", path.display(), mode(&path));
    }
    assert_eq!(server.said(&["run", "--", "sh", "-c", "umask"]), "0000\n", "tasks keep theirs");
    if !geteuid().is_root() {
        return eprintln!("SKIPPED: only root can share a machine");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (data, socket) = (dir.path().join("data"), dir.path().join("run/below/socket"));
    let args = ["--shared", "--socket", socket.to_str().expect("text"), "--gpus", "none"];
    let mut shared = Server::at(dir, data, &args).after("umask 000");
    shared.start();
    for dir in [socket.parent(), socket.parent().and_then(Path::parent)].into_iter().flatten() {
        assert_eq!(mode(dir), 0o755, "{}", dir.display());
    }
    assert_eq!(mode(&socket), 0o666);
    assert_eq!(mode(shared.data()), 0o700);
}
