//! A shared machine with accounts of its own, and what people do there.

use crate::support::seat::Seat;
use crate::support::{Answer, BINARY, FAKE, Server, output};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a tool of the system's that has to succeed.
#[track_caller]
pub(crate) fn tool(name: &str, args: &[&str]) {
    let done = Command::new(name).args(args).output().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(done.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A shared machine: a server of root's, a copy of the program everyone may run, and accounts made for it.
pub(crate) struct Machine {
    pub(crate) server: Server,
    pub(crate) socket: PathBuf,
    pub(crate) binary: PathBuf,
    pub(crate) group: String,
}

impl Machine {
    /// Starts the server with more settings; nothing where the test cannot make accounts.
    pub(crate) fn up(settings: &str) -> Option<Machine> {
        Self::with_gpus(settings, &FAKE)
    }

    /// The same with other GPUs than the usual declared ones, as flags of `up`.
    pub(crate) fn with_gpus(settings: &str, gpus: &[&str]) -> Option<Machine> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: only root can make accounts to test with");
            return None;
        }
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = format!("wyt{}x{number}", std::process::id());
        tool("groupadd", &[&group]);
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("its rights can be set");
        let (socket, binary) = (dir.path().join("run/socket"), dir.path().join("warpyard"));
        fs::copy(BINARY, &binary).expect("the program can be copied");
        let settings = settings.replace("GROUP", &group);
        let config = format!("admins = \"{group}\"\nsocket = {socket:?}\n{settings}\n");
        fs::write(dir.path().join("config.toml"), config).expect("a file can be written");
        let data = dir.path().join("data");
        let args = ["--shared", "--config", "config.toml"];
        let server = Server::at(dir, data, &[&args[..], gpus].concat());
        let mut machine = Machine { server, socket, binary, group };
        machine.server.start();
        Some(machine)
    }

    /// Someone new.
    pub(crate) fn person(&self, name: &str) -> Person<'_> {
        let name = format!("{}{name}", self.group);
        let home = self.server.path(&name);
        let home_text = home.to_str().expect("text").to_owned();
        tool(
            "useradd",
            &["--user-group", "--no-create-home", "--home-dir", &home_text, "--shell", "/bin/sh", &name],
        );
        let account = nix::unistd::User::from_name(&name).expect("accounts").expect("it was made");
        fs::create_dir(&home).expect("a home");
        chown(&home, Some(account.uid.as_raw()), Some(account.gid.as_raw())).expect("it can be given");
        Person { machine: self, name, home, uid: account.uid.as_raw(), gid: account.gid.as_raw() }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _still_someones = Command::new("groupdel").arg(&self.group).output();
    }
}

/// Someone with an account.
pub(crate) struct Person<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) name: String,
    pub(crate) home: PathBuf,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Person<'_> {
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.machine.binary);
        let server = format!("unix:{}", self.machine.socket.display());
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("WARPYARD_SERVER", server);
        command.current_dir(&self.home).uid(self.uid).gid(self.gid).stdin(Stdio::null());
        command
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Answer {
        output(&mut self.command(args))
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.ask(&[&["--json"], args].concat()).fine();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    #[track_caller]
    pub(crate) fn submit(&self, args: &[&str]) -> String {
        self.json(&[&["submit"], args].concat())["job"].as_str().expect("a job").to_owned()
    }

    #[track_caller]
    pub(crate) fn run(&self, script: &str) -> String {
        self.ask(&["run", "--", "sh", "-c", script]).fine()
    }

    /// Posts a body of its own making through the socket.
    #[track_caller]
    pub(crate) fn posts(&self, path: &str, body: &str) -> String {
        self.asks("POST", path, body)
    }

    /// Asks through the socket for what no command asks for.
    #[track_caller]
    pub(crate) fn asks(&self, method: &str, path: &str, body: &str) -> String {
        let program = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                       s.sendall(sys.argv[2].encode()); print(s.makefile(newline='').read())";
        let mut command = Command::new("python3");
        command
            .args(["-c", program])
            .arg(&self.machine.socket)
            .arg(request(method, path, body))
            .uid(self.uid)
            .gid(self.gid);
        output(&mut command).fine()
    }

    /// Someone at a terminal of theirs.
    pub(crate) fn seat(&self, args: &[&str]) -> Seat {
        let mut command = Command::new("setpriv");
        let (uid, gid) = (self.uid.to_string(), self.gid.to_string());
        command.args(["--reuid", &uid, "--regid", &gid, "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"]);
        command.arg(format!("WARPYARD_SERVER=unix:{}", self.machine.socket.display()));
        command
            .args(["TERM=dumb", "PS1=ready> "])
            .arg(&self.machine.binary)
            .args(args)
            .current_dir(&self.home);
        Seat::take(&command, (24, 80))
    }

    pub(crate) fn processes(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").expect("a Linux machine").flatten().map(|e| e.path());
        let theirs = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|m| m.uid() == self.uid) && path.join("stat").exists()
        };
        all.filter(theirs).collect()
    }
}

impl Drop for Person<'_> {
    fn drop(&mut self) {
        let _gone = Command::new("userdel").args(["--force", &self.name]).output();
    }
}

/// A request as it is sent.
pub(crate) fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A page open in a browser, after a login.
pub(crate) struct Page {
    pub(crate) host: String,
    pub(crate) cookie: String,
    pub(crate) csrf: String,
}

impl Page {
    /// Follows a link that lets someone in.
    pub(crate) fn open(link: &str) -> Page {
        let (host, path) = link.strip_prefix("http://").and_then(|l| l.split_once('/')).expect("a link");
        let head = get(host, &format!("/{path}"), "");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        let page = get(host, "/", &format!("Cookie: {cookie}\r\n"));
        let csrf = page.split("csrf\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
        let csrf = csrf.unwrap_or_else(|| panic!("no secret in {page}")).to_owned();
        Page { host: host.to_owned(), cookie, csrf }
    }

    /// The answer to whoever has it open and goes elsewhere.
    pub(crate) fn shows(&self, path: &str) -> String {
        get(&self.host, path, &format!("Cookie: {}\r\n", self.cookie))
    }

    pub(crate) fn posts(&self, path: &str, body: &str) -> (u16, String) {
        let header = format!("Cookie: {}\r\nX-Warpyard-Csrf: {}\r\n", self.cookie, self.csrf);
        ask_at(&self.host, connect(&self.host), path, &header, body)
    }
}

/// Connects to the port of a host of this machine, as a browser does that knows names below `.localhost` itself.
fn connect(host: &str) -> TcpStream {
    let port = host.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port");
    TcpStream::connect(("127.0.0.1", port)).expect("the server listens")
}

pub(crate) fn get(host: &str, path: &str, header: &str) -> String {
    let mut stream = connect(host);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}Connection: close\r\n\r\n")
        .expect("it can be asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// Asks over the socket as root, with a body of its own making.
pub(crate) fn raw(socket: &Path, body: &str) -> (u16, String) {
    ask(UnixStream::connect(socket).expect("the server listens"), "/v1/jobs", "", body)
}

/// Posts a body by hand.
pub(crate) fn ask(stream: impl Read + Write, path: &str, header: &str, body: &str) -> (u16, String) {
    ask_at("localhost", stream, path, header, body)
}

/// Posts a body by hand to a host.
pub(crate) fn ask_at(
    host: &str,
    mut stream: impl Read + Write,
    path: &str,
    header: &str,
    body: &str,
) -> (u16, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\n{header}Connection: close\r\nContent-Type: application/json\r\n"
    );
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("it can be asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    (answer.split(' ').nth(1).expect("a status").parse().expect("a number"), answer)
}
