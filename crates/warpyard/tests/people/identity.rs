//! Who tasks run as, and with whose limits: the caller's, never the server's.

use crate::machine::{Machine, Page, ask, raw, request, tool};
use crate::support::output;
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

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
fn a_job_from_the_pages_runs_as_who_logged_in_at_home_with_their_login_environment() {
    let Some(machine) = Machine::up("") else { return };
    let ann = machine.person("ann");
    let profile = ann.home.join(".profile");
    fs::write(&profile, "export LAB=vision-$(id -un) PATH=$HOME/bin:$PATH\n").expect("written");
    let page = Page::open(ann.json(&["login"])["login"].as_str().expect("a link"));
    let form = page.shows("/new");
    let (name, home) = (&ann.name, ann.home.to_str().expect("text"));
    for shown in [format!("value=\"{name}\""), format!("value=\"{home}\""), format!("{home}/bin:")] {
        assert!(form.contains(&shown), "{shown}: {form}");
    }
    let body = r#"{"doc": {"command": "id -un; pwd; echo $LAB $PATH $OWN", "env": {"OWN": "said"}}, "login_environment": true}"#;
    let (status, answer) = page.posts("/v1/jobs", body);
    assert_eq!(status, 201, "{answer}");
    ann.ask(&["wait", "last"]).fine();
    let printed = ann.ask(&["logs", "last"]).fine();
    assert!(printed.starts_with(&format!("{name}\n{home}\nvision-{name} {home}/bin:")), "{printed}");
    assert!(printed.ends_with(" said\n"), "what the job sets goes before it: {printed}");
    assert_eq!(ann.json(&["show", "last"])["user"], **name);
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
