//! A shared machine with real accounts: tasks run as whoever submitted them, and what is one person's no other may
//! touch. Accounts are made for each test and removed with it, which takes root; elsewhere these tests say so and stop.

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use nix::sys::signal::Signal;
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
use support::seat::Seat;
use support::{Answer, BINARY, FAKE, Server, eventually, output, wait_at};

/// Runs a tool of the system's that has to succeed.
#[track_caller]
fn tool(name: &str, args: &[&str]) {
    let done = Command::new(name).args(args).output().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(done.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A shared machine: a server of root's, a copy of the program everyone may run, and accounts made for it.
struct Machine {
    server: Server,
    socket: PathBuf,
    binary: PathBuf,
    group: String,
}

impl Machine {
    /// Starts the server with more settings; nothing where the test cannot make accounts.
    fn up(settings: &str) -> Option<Machine> {
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
        let server = Server::at(dir, data, &[&args[..], &FAKE].concat());
        let mut machine = Machine { server, socket, binary, group };
        machine.server.start();
        Some(machine)
    }

    /// Someone new.
    fn person(&self, name: &str) -> Person<'_> {
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
struct Person<'a> {
    machine: &'a Machine,
    name: String,
    home: PathBuf,
    uid: u32,
    gid: u32,
}

impl Person<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.machine.binary);
        let server = format!("unix:{}", self.machine.socket.display());
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("WARPYARD_SERVER", server);
        command.current_dir(&self.home).uid(self.uid).gid(self.gid).stdin(Stdio::null());
        command
    }

    fn ask(&self, args: &[&str]) -> Answer {
        output(&mut self.command(args))
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let text = self.ask(&[&["--json"], args].concat()).fine();
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    #[track_caller]
    fn submit(&self, args: &[&str]) -> String {
        self.json(&[&["submit"], args].concat())["job"].as_str().expect("a job").to_owned()
    }

    #[track_caller]
    fn run(&self, script: &str) -> String {
        self.ask(&["run", "--", "sh", "-c", script]).fine()
    }

    /// Posts a body of its own making through the socket.
    #[track_caller]
    fn posts(&self, path: &str, body: &str) -> String {
        self.asks("POST", path, body)
    }

    /// Asks through the socket for what no command asks for.
    #[track_caller]
    fn asks(&self, method: &str, path: &str, body: &str) -> String {
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
    fn seat(&self, args: &[&str]) -> Seat {
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

    fn processes(&self) -> Vec<PathBuf> {
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
fn request(method: &str, path: &str, body: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A page open in a browser, after a login.
struct Page {
    address: String,
    cookie: String,
    csrf: String,
}

impl Page {
    /// Follows a link that lets someone in.
    fn open(link: &str) -> Page {
        let (address, path) = link.strip_prefix("http://").and_then(|l| l.split_once('/')).expect("a link");
        let head = get(address, &format!("/{path}"), "");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        let page = get(address, "/", &format!("Cookie: {cookie}\r\n"));
        let csrf = page.split("csrf\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
        let csrf = csrf.unwrap_or_else(|| panic!("no secret in {page}")).to_owned();
        Page { address: address.to_owned(), cookie, csrf }
    }

    fn posts(&self, path: &str, body: &str) -> (u16, String) {
        let header = format!("Cookie: {}\r\nX-Warpyard-Csrf: {}\r\n", self.cookie, self.csrf);
        ask(TcpStream::connect(&self.address).expect("the server listens"), path, &header, body)
    }
}

fn get(address: &str, path: &str, header: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}Connection: close\r\n\r\n")
        .expect("it can be asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// Asks over the socket as root, with a body of its own making.
fn raw(socket: &Path, body: &str) -> (u16, String) {
    ask(UnixStream::connect(socket).expect("the server listens"), "/v1/jobs", "", body)
}

/// Posts a body by hand.
fn ask(mut stream: impl Read + Write, path: &str, header: &str, body: &str) -> (u16, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\n{header}Connection: close\r\nContent-Type: application/json\r\n"
    );
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("it can be asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    (answer.split(' ').nth(1).expect("a status").parse().expect("a number"), answer)
}

#[test]
fn a_session_is_its_owners_and_nobody_elses() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let mut seat = ann.seat(&["run", "--pty", "--gpus", "1", "--", "bash", "--norc", "--noprofile", "-i"]);
    seat.sees("ready> ");
    // The terminal is hers, and can be opened by its name as well.
    seat.enter("echo I am $(id -un), it is $(stat -c '%U %a' $(tty)); echo open$((1 + 1)) > $(tty)");
    seat.sees(&format!("I am {0}, it is {0} 600\r\nopen2", ann.name));
    seat.press("\x1dd");
    assert_eq!(seat.left(), Some(0));

    let mut stranger = bob.seat(&["attach", "1"]);
    assert_eq!(stranger.left(), Some(2));
    stranger.sees(&format!("the job is {}'s; you cannot attach to it", ann.name));
    let socket = machine.server.data().join("attempts/1.0.0.1/terminal");
    let mode = fs::metadata(&socket).expect("the terminal has a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let dir = fs::canonicalize(machine.server.data().join("attempts")).expect("it is there");
    assert_eq!(fs::metadata(dir).expect("a directory").permissions().mode() & 0o077, 0, "nobody gets there");

    // An admin may look in, as into a log.
    tool("usermod", &["--append", "--groups", &machine.group, &bob.name]);
    let mut admin = bob.seat(&["attach", "1"]);
    admin.sees("open2");
    admin.enter("exit 6");
    assert_eq!(admin.left(), Some(6));
}

#[test]
fn tasks_run_as_whoever_submitted_them() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    tool("usermod", &["--append", "--groups", &machine.group, &ann.name]);

    let said = ann.run("id -un; id -Gn; echo $HOME $USER $LOGNAME $SHELL; pwd");
    let home = ann.home.to_str().expect("text");
    let expected = format!("{0}\n{0} {1}\n{home} {0} {0} /bin/sh\n{home}\n", ann.name, machine.group);
    assert_eq!(said, expected);

    // A task finds the server by itself, through the socket.
    let server = format!("unix:{}", machine.socket.display());
    let script = format!("env | grep -E '^WARPYARD_(SERVER|DATA)'; {} progress 5", machine.binary.display());
    let mut told = ann.command(&["--server", &server, "run", "--", "sh", "-c", &script]);
    let told = output(told.env_remove("WARPYARD_SERVER"));
    assert_eq!((told.code, told.out), (Some(0), format!("WARPYARD_SERVER={server}\n")));

    // What it makes is theirs, with the umask and the limits of the shell it came from.
    let script = "umask 027; ulimit -n 321; exec \"$0\" run --name made -- \
                  sh -c 'umask; ulimit -n; echo kept > made; mkdir dir'";
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script])
        .arg(&machine.binary)
        .env("WARPYARD_SERVER", format!("unix:{}", machine.socket.display()));
    shell.current_dir(&ann.home).uid(ann.uid).gid(ann.gid);
    assert_eq!(output(&mut shell).fine(), "0027\n321\n");
    let made = fs::metadata(ann.home.join("made")).expect("it was made");
    assert_eq!((made.uid(), made.gid(), made.mode() & 0o777), (ann.uid, ann.gid, 0o640));

    // Output that goes to a file of theirs is written as them: where they may not write, it is not.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "umask 077; exec \"$0\" run --stdout out.txt -- echo said"])
        .arg(&machine.binary)
        .env("WARPYARD_SERVER", format!("unix:{}", machine.socket.display()));
    shell.current_dir(&ann.home).uid(ann.uid).gid(ann.gid);
    output(&mut shell).fine();
    let made = fs::metadata(ann.home.join("out.txt")).expect("it was written");
    assert_eq!((made.uid(), made.mode() & 0o777), (ann.uid, 0o600));
    let roots = machine.server.path("roots.txt");
    fs::write(&roots, "before").expect("written");
    let not_theirs = ann.submit(&["--stdout", roots.to_str().expect("text"), "--", "echo", "overwritten"]);
    assert_eq!(ann.ask(&["wait", &not_theirs]).code, Some(1));
    assert_eq!(fs::read_to_string(&roots).expect("read"), "before");
    // Nor is anything of the process that keeps the output.
    let kernels = ann.ask(&["run", "--stdout", "/proc/self/timerslack_ns", "--", "echo", "1"]);
    assert!(kernels.code == Some(1) && kernels.err.contains("no place for output"), "{kernels:?}");
    let why = ann.json(&["show", &not_theirs]).to_string();
    assert!(why.contains("roots.txt") && why.contains("ermission denied"), "{why}");
}

#[test]
fn nobody_can_be_someone_else_and_nothing_runs_as_root() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let document = |user: &str| format!(r#"{{"doc": {{"command": ["true"]}}, "user": "{user}"}}"#);
    // Root, through the socket, may submit for others but not for itself.
    assert_eq!(raw(&machine.socket, &document(&ann.name)).0, 201);
    let (status, answer) = raw(&machine.socket, &document("root"));
    assert_eq!(status, 403, "{answer}");
    assert!(answer.contains("no-account") && answer.contains("root"), "{answer}");
    assert_eq!(raw(&machine.socket, &document("nobody-of-that-name")).0, 403);

    // A token says nobody's name, so it has to be told whose work it is.
    let data = machine.server.data();
    let read = |file: &str| fs::read_to_string(data.join(file)).expect("it was written").trim().to_owned();
    let (token, address) = (format!("Authorization: Bearer {}\r\n", read("token")), read("address"));
    let by_token = |path: &str, body: &str| {
        let port = address.strip_prefix("http://").expect("an address");
        ask(TcpStream::connect(port).expect("the server listens"), path, &token, body)
    };
    for (path, body) in [("/v1/jobs", r#"{"doc": {"command": ["true"]}}"#), ("/v1/claims", "{}")] {
        let (status, answer) = by_token(path, body);
        assert_eq!(status, 403, "{answer}");
        assert!(answer.contains("no-account") && answer.contains("name one as"), "{answer}");
    }
    assert_eq!(by_token("/v1/jobs", &document(&ann.name)).0, 201);

    // Someone else's command line may say what it likes: the kernel says who calls.
    let answer = bob.posts("/v1/jobs", &document(&ann.name));
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("not-yours"), "{answer}");
}

#[test]
fn nothing_a_claim_says_is_done_with_the_rights_of_the_server() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    let roots = machine.server.path("roots.txt");
    fs::write(&roots, "before").expect("written");
    // Devices are held by root, so a claim is what it needs, and neither files nor an environment.
    for (field, value) in [
        ("stdout", format!("{roots:?}")),
        ("stderr", format!("{roots:?}")),
        ("env", r#"{"LD_PRELOAD": "/tmp/lib.so"}"#.to_owned()),
        ("workdir", r#""/root""#.to_owned()),
        ("pty", "true".to_owned()),
        ("array", r#""1-3""#.to_owned()),
        ("command", r#"["id"]"#.to_owned()),
    ] {
        let body = format!(r#"{{"needs": {{"gpus": 1, "{field}": {value}}}}}"#);
        let answer = ann.posts("/v1/claims", &body);
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains("unknown-field"), "{field}: {answer}");
        assert!(answer.contains(&format!("needs.{field}")), "{field}: {answer}");
    }
    let answer = ann.posts("/v1/claims", r#"{"needs": {"gpus": 1, "gpu_memory": "1GiB", "priority": 2}}"#);
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(fs::read_to_string(&roots).expect("read"), "before");
}

#[test]
fn limits_are_those_of_the_caller_and_never_those_of_the_server() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    // Whoever connects, leaves and lets another speak has no limits to be told; so nothing is run for them.
    let program = "import os, socket, sys, time
caller = os.fork()
if caller: os.waitpid(caller, 0); os._exit(0)
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); caller = os.getpid()
if os.fork(): os._exit(0)
while os.path.exists(f'/proc/{caller}'): time.sleep(0.01)
s.sendall(sys.argv[2].encode()); print(s.makefile(newline='').read())";
    let mut python = Command::new("python3");
    python.args(["-c", program]).arg(&machine.socket).arg(request(
        "POST",
        "/v1/jobs",
        r#"{"doc": {"command": ["true"]}}"#,
    ));
    python.uid(ann.uid).gid(ann.gid);
    let answer = output(&mut python).out;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("which called, is gone"), "{answer}");

    // Who logged in to the pages submits from there with the limits and the umask of the shell they logged in from.
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 027; ulimit -n 321; exec \"$0\" login"]).arg(&machine.binary);
    shell.env("WARPYARD_SERVER", format!("unix:{}", machine.socket.display())).uid(ann.uid).gid(ann.gid);
    let link = output(&mut shell).fine();
    let link = link.split_whitespace().find(|word| word.contains("once=")).expect("a link").to_owned();
    let page = Page::open(&link);
    let (status, answer) =
        page.posts("/v1/jobs", r#"{"doc": {"command": ["sh", "-c", "umask; ulimit -n; id -un"]}}"#);
    assert_eq!(status, 201, "{answer}");
    ann.ask(&["wait", "last"]).fine();
    assert_eq!(ann.ask(&["logs", "last"]).fine(), format!("0027\n321\n{}\n", ann.name));
}

#[test]
fn a_login_is_worth_what_its_owner_is_now() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, eve) = (machine.person("ann"), machine.person("eve"));
    tool("usermod", &["--append", "--groups", &machine.group, &eve.name]);
    let link = eve.ask(&["login"]).fine();
    let link = link.split_whitespace().find(|word| word.contains("once=")).expect("a link").to_owned();
    let page = Page::open(&link);
    let job = ann.submit(&["--", "sleep", "600"]);
    let cancel = |job: &str| page.posts(&format!("/v1/jobs/{job}/cancel"), "{}").0;
    assert_eq!(cancel(&job), 200);
    let job = ann.submit(&["--", "sleep", "600"]);
    tool("gpasswd", &["--delete", &eve.name, &machine.group]);
    assert_eq!(cancel(&job), 403, "an admin no longer");
    let name = eve.name.clone();
    drop(eve);
    assert!(nix::unistd::User::from_name(&name).expect("accounts").is_none());
    assert_eq!(cancel(&job), 401, "nobody any more");
}

#[test]
fn a_shared_server_keeps_what_is_told_to_it_to_itself() {
    let Some(mut machine) = Machine::up("") else { return };
    machine.server.end_by(Signal::SIGTERM);
    // Its output is for more eyes than those of admins.
    let banner = machine.server.start();
    assert!(banner.contains("`warpyard login`") && !banner.contains("once="), "{banner}");
    machine.server.end_by(Signal::SIGTERM);
    fs::set_permissions(machine.server.data(), fs::Permissions::from_mode(0o755)).expect("rights can be set");
    let answer = output(&mut machine.server.up_command());
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("chmod 700"), "{answer:?}");
    fs::set_permissions(machine.server.data(), fs::Permissions::from_mode(0o700)).expect("rights can be set");
    machine.server.start();
}

#[test]
fn what_is_one_persons_no_other_touches() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob, eve) = (machine.person("ann"), machine.person("bob"), machine.person("eve"));
    tool("usermod", &["--append", "--groups", &machine.group, &eve.name]);
    let gate = machine.server.path("gate");
    let job =
        ann.submit(&["--name", "secret-plan", "--", "sh", "-c", &format!("echo mine; {}", wait_at(&gate))]);
    eventually("it runs", || ann.json(&["show", &job])["state"] == "running");

    // Bob sees that it is there, and no more.
    assert!(bob.ask(&["ps"]).fine().contains("secret-plan"));
    let runs = |person: &Person<'_>| person.json(&["show", &job]).to_string().contains("echo mine");
    assert_eq!([runs(&ann), runs(&bob), runs(&eve)], [true, false, true]);
    for args in [["logs", &job], ["cancel", &job], ["hold", &job], ["pause", &job], ["retry", &job]] {
        let answer = bob.ask(&args);
        assert_eq!(answer.code, Some(2), "{args:?}: {answer:?}");
        assert!(answer.err.contains(&ann.name), "{args:?}: {answer:?}");
    }
    assert_ne!(bob.ask(&["priority", &job, "5"]).code, Some(0));
    for args in [&["policy", "set", "fifo"][..], &["down"]] {
        let answer = bob.ask(args);
        assert!(answer.code != Some(0) && answer.err.contains("admins"), "{args:?}: {answer:?}");
    }
    // Nor does `all` reach further than what is his.
    assert_eq!(bob.ask(&["cancel", "all"]).fine(), "no job to cancel\n");
    let own = bob.submit(&["--", "sleep", "600"]);
    assert_eq!(bob.json(&["cancel", "all"])["jobs"], serde_json::json!([own]));
    eventually("it is over", || bob.json(&["show", &own])["state"] == "done");
    assert_eq!(bob.ask(&["cancel", "all"]).fine(), "no job to cancel\n");
    assert_eq!(ann.json(&["show", &job])["state"], "running");
    // Nor does a job that could not be begun tell what it was to run, or a snapshot where it was taken.
    let failed = ann.submit(&["--name", "failed", "--snapshot", "--", "./no-such-program"]);
    assert_eq!(ann.ask(&["wait", &failed]).code, Some(1));
    let tells = |person: &Person<'_>| {
        let all = [person.json(&["show", &failed]), person.json(&["ps", "--all"])].map(|v| v.to_string());
        [
            all.iter().any(|text| text.contains("no-such-program")),
            all.iter().any(|text| text.contains("\"from\"")),
        ]
    };
    assert_eq!([tells(&ann), tells(&bob), tells(&eve)], [[true, true], [false, false], [true, true]]);
    // The kernel keeps him from her processes, and the server's records from both.
    let pid =
        ann.processes().first().and_then(|p| p.file_name()?.to_str().map(str::to_owned)).expect("it runs");
    let mut kill = Command::new("kill");
    kill.arg(&pid).uid(bob.uid).gid(bob.gid);
    assert_ne!(output(&mut kill).code, Some(0));
    let mut look = Command::new("ls");
    look.arg(machine.server.data()).uid(ann.uid).gid(ann.gid);
    assert_ne!(output(&mut look).code, Some(0));

    // Ann reads what she wrote, and an admin may do everything.
    assert_eq!(ann.ask(&["logs", &job]).fine(), "mine\n");
    assert_eq!(eve.ask(&["logs", &job]).fine(), "mine\n");
    eve.ask(&["policy", "set", "fifo"]).fine();
    eve.ask(&["cancel", &job]).fine();
    eventually("nothing of hers is left", || ann.processes().is_empty());
}

#[test]
fn a_task_that_tries_to_escape_ends_with_its_session() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    let escape = "setsid sh -c 'trap \"\" TERM HUP; sleep 600 & sleep 600' & (setsid sleep 601 &) ; echo out; sleep 602";
    let job = ann.submit(&["--grace", "100ms", "--", "sh", "-c", escape]);
    eventually("it is out", || ann.ask(&["logs", &job]).out == "out\n" && ann.processes().len() >= 4);
    ann.ask(&["cancel", &job]).fine();
    eventually("nothing of hers is left", || ann.processes().is_empty());
}

/// Tries to have a thousand processes in sessions of their own; says how many it was refused.
const BOMB: &str = "import os, time
refused = 0
for _ in range(1000):
    try:
        if os.fork() == 0:
            os.setsid(); time.sleep(600); os._exit(0)
    except OSError:
        refused += 1
print('refused', refused > 500, flush=True)
time.sleep(600)";

#[test]
fn a_fork_bomb_is_kept_from_the_machine_and_others_go_on() {
    let Some(machine) = Machine::up("max_processes = 100") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let job = ann.submit(&["--grace", "0s", "--", "python3", "-c", BOMB]);
    let said = |person: &Person<'_>| person.json(&["info"])["processes"]["contained"] == true;
    if said(&ann) {
        eventually("it was refused", || ann.ask(&["logs", &job]).out.contains("refused True"));
        assert!(ann.processes().len() <= 100);
        assert!(ann.ask(&["doctor"]).out.contains("contained: a task has at most 100"));
    } else {
        // What a user may have in all keeps it from the machine until it is found.
        eventually("it was found", || ann.json(&["show", &job])["outcome"] == "failed");
        assert!(ann.ask(&["doctor"]).out.contains("not contained by cgroups"));
    }
    // Of the disk that matters, too: the server's, which is not hers to write.
    let data = machine.server.data().display().to_string();
    let doctor = bob.ask(&["doctor"]).out;
    assert!(doctor.contains(&format!("free for {data}")) && doctor.contains(", 2 GPUs, "), "{doctor}");
    assert_eq!(bob.run("echo fine"), "fine\n");
    let _over_already = ann.ask(&["cancel", &job]);
    eventually("nothing of hers is left", || ann.processes().is_empty());
}

#[test]
fn where_jobs_are_private_others_see_nothing_of_them() {
    let Some(machine) = Machine::up("private = true") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let job = ann.submit(&["--name", "secret-plan", "--", "sleep", "600"]);
    assert!(!bob.ask(&["ps", "--all"]).fine().contains("secret-plan"));
    let all = ann.submit(&["--name", "secret-plan", "--gpus", "2", "--", "sleep", "600"]);
    eventually("it runs", || ann.json(&["show", &all])["state"] == "running");
    for args in [["show", &job], ["why", &job], ["logs", &job], ["cancel", &job], ["attach", &job]] {
        let answer = bob.ask(&args);
        assert_ne!(answer.code, Some(0), "{args:?}");
        assert!(answer.err.contains("no such job of yours"), "{args:?}: {answer:?}");
    }
    let after = bob.ask(&["submit", "--after", &job, "--", "true"]);
    assert!(after.code == Some(2) && after.err.contains(&format!("no job {job}")), "{after:?}");
    // Nor by what else tells of jobs: who is on a GPU, who is ahead, what another order would be.
    ann.submit(&["--name", "secret-plan", "--gpus", "2", "--", "sleep", "600"]);
    let waits = bob.submit(&["--gpus", "1", "--", "true"]);
    let preview = bob.posts("/v1/policy/preview", r#"{"name": "fifo"}"#);
    assert!(preview.contains("someone"), "{preview}");
    let why = bob.ask(&["--json", "why", &waits]).fine();
    assert!(why.contains("someone"), "{why}");
    let free = bob.asks("GET", "/v1/gpus/0,1/free", "");
    assert!(free.contains("someone"), "{free}");
    for said in [preview, why, free, bob.ask(&["gpus"]).fine(), bob.ask(&["history"]).fine()] {
        assert!(!said.contains("secret-plan") && !said.contains(&ann.name), "{said}");
    }
    assert!(ann.ask(&["ps"]).fine().contains("secret-plan"));
}

#[test]
fn nobody_has_more_than_they_may_and_they_are_told() {
    let settings = "[limits.everyone]\ngpus = 1\nqueued = 3\ntimeout = \"1h\"\npriority = 5\nlog_size = \"2KiB\"\n\
                    [limits.groups.GROUP.each]\ngpus = 2\npriority = 100\n";
    let Some(machine) = Machine::up(settings) else { return };
    let (ann, bob, eve) = (machine.person("ann"), machine.person("bob"), machine.person("eve"));
    tool("usermod", &["--append", "--groups", &machine.group, &eve.name]);

    // What could never start is refused with the limit, what was asked, and what to do.
    let refused = |person: &Person<'_>, args: &[&str]| {
        let answer = person.ask(&[&["submit"], args, &["--", "true"]].concat());
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.contains("over-limit") && answer.err.contains("help:"), "{answer:?}");
        answer.err
    };
    assert!(refused(&ann, &["--gpus", "2"]).contains("may have 1 GPU at once; this takes 2"));
    assert!(refused(&ann, &["--timeout", "2h"]).contains("1h at the longest; this asks for 2h"));
    assert!(refused(&ann, &["--array", "1-4"]).contains("3 tasks waiting and has 0; this adds 4"));
    assert!(refused(&ann, &["--priority", "6"]).contains("up to 5"));

    // What is too much for now waits, says why, and holds up nobody else.
    let first = ann.submit(&["--gpus", "1", "--", "sleep", "600"]);
    let second = ann.submit(&["--gpus", "1", "--", "sleep", "600"]);
    let others = bob.submit(&["--gpus", "1", "--", "true"]);
    bob.ask(&["wait", &others]).fine();
    let why = ann.ask(&["why", &second]).fine();
    assert!(why.contains("may have 1 GPU at once and has 1"), "{why}");
    assert_ne!(ann.ask(&["priority", &second, "6"]).code, Some(0));
    let limits = ann.ask(&["limits"]).fine();
    assert!(limits.contains("GPUs at once") && !limits.contains(&bob.name), "{limits}");
    ann.ask(&["cancel", &first]).fine();
    eventually("it starts", || ann.json(&["show", &second])["state"] == "running");
    ann.ask(&["cancel", &second]).fine();

    // Members of a group may have more, and no more output is kept than may be.
    let urgent = eve.submit(&["--gpus", "2", "--priority", "100", "--", "seq", "20000"]);
    eve.ask(&["wait", &urgent]).fine();
    let kept = eve.ask(&["logs", &urgent]).fine().len();
    assert!(kept < 8 << 10, "{kept} bytes were kept");
    assert!(refused(&eve, &["--priority", "101"]).contains("up to 100"));
}

#[test]
fn the_last_job_is_ones_own() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let none = bob.ask(&["show", "last"]);
    assert!(none.code != Some(0) && none.err.contains("no job of yours"), "{none:?}");
    let anns = ann.submit(&["--", "echo", "of ann"]);
    let bobs = bob.submit(&["--", "echo", "of bob"]);
    for (person, job, said) in [(&ann, &anns, "of ann\n"), (&bob, &bobs, "of bob\n")] {
        person.ask(&["wait", "last"]).fine();
        assert_eq!(person.json(&["show", "last"])["job"].as_str(), Some(job.as_str()));
        assert_eq!(person.ask(&["logs", "last"]).fine(), said);
    }
}

#[test]
fn a_job_runs_in_the_directory_as_it_was_when_it_was_submitted() {
    let Some(machine) = Machine::up("") else { return };
    let (ann, bob) = (machine.person("ann"), machine.person("bob"));
    let script = |text: &str| {
        let path = ann.home.join("run.sh");
        fs::write(&path, text).expect("it can be written");
        chown(&path, Some(ann.uid), Some(ann.gid)).expect("it can be given");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("its rights can be set");
    };
    script("echo first; stat -c '%U %a' run.sh .; echo $WARPYARD_SUBMIT_DIR; echo made > made");
    fs::write(ann.home.join(".gitignore"), "*.pt\n").expect("written");
    fs::write(ann.home.join("weights.pt"), "large").expect("written");
    let all = ann.submit(&["--gpus", "2", "--", "sleep", "600"]);
    let job = ann.submit(&["--gpus", "1", "--snapshot", "--", "sh", "run.sh"]);
    script("echo second");
    ann.ask(&["cancel", &all]).fine();
    ann.ask(&["wait", &job]).fine();
    let (name, home) = (&ann.name, ann.home.to_str().expect("text"));
    assert_eq!(ann.ask(&["logs", &job]).fine(), format!("first\n{name} 750\n{name} 700\n{home}\n"));
    assert!(!ann.home.join("made").exists(), "it ran in a copy");

    let shown = ann.ask(&["show", &job]).fine();
    assert!(shown.contains("snapshot") && shown.contains("(2 files"), "{shown}");
    assert_eq!(ann.ask(&["snapshot", "diff", &job]).fine(), "changed  run.sh\n");
    ann.ask(&["retry", &job]).fine();
    ann.ask(&["wait", &job]).fine();
    assert!(ann.ask(&["logs", &job]).fine().contains("first\n"));

    // What is in it is its owner's to know, and nobody keeps what they cannot read.
    assert_ne!(bob.ask(&["snapshot", "diff", &job]).code, Some(0));
    let closed = ann.home.join("closed");
    fs::write(&closed, "root's").expect("written");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).expect("its rights can be set");
    let answer = ann.ask(&["submit", "--snapshot", "--", "cat", "closed"]);
    assert!(answer.code != Some(0) && answer.err.contains("closed"), "{answer:?}");
}

#[test]
fn without_root_a_server_serves_its_own_user_and_says_so() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    let answer = ann.ask(&["up", "--shared", "--data", "own"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("only root") && answer.err.contains("serves you alone"), "{answer:?}");
}
