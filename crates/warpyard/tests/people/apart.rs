//! What is one person's no other sees or touches, nor the server tells.

use crate::machine::{Machine, Page, Person, tool};
use crate::support::{eventually, output, wait_at};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

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
    stranger.sees(&format!("the job belongs to {}; only they and admins can attach to it", ann.name));
    let attempts = fs::read_dir(machine.server.data().join("attempts")).expect("attempts").flatten();
    let mut records = attempts.map(|entry| entry.path());
    let record = records.find(|path| path.to_string_lossy().ends_with("1.0.0.1")).expect("its records");
    let socket = record.join("terminal");
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
fn where_jobs_are_private_an_admin_no_longer_has_no_pages() {
    let Some(machine) = Machine::up("private = true") else { return };
    let eve = machine.person("eve");
    tool("usermod", &["--append", "--groups", &machine.group, &eve.name]);
    let link = eve.ask(&["login"]).fine();
    let page = Page::open(link.split_whitespace().find(|word| word.contains("once=")).expect("a link"));
    assert!(page.shows("/queue").starts_with("HTTP/1.1 200"));
    tool("gpasswd", &["--delete", &eve.name, &machine.group]);
    for path in ["/queue", "/jobs/1", "/nowhere"] {
        let shown = page.shows(path);
        assert!(shown.starts_with("HTTP/1.1 403"), "{path}: {shown}");
    }
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
    assert_eq!(bob.ask(&["cancel", "all", "--yes"]).fine(), "no job to cancel\n");
    let own = bob.submit(&["--", "sleep", "600"]);
    assert_eq!(bob.json(&["cancel", "all", "--yes"])["jobs"], serde_json::json!([own]));
    eventually("it is over", || bob.json(&["show", &own])["state"] == "done");
    assert_eq!(bob.ask(&["cancel", "all", "--yes"]).fine(), "no job to cancel\n");
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
    // What a replay tells is of everyone's jobs.
    for path in ["/v1/replays", "/v1/replays/1"] {
        let refused = bob.asks("GET", path, "");
        assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("admins-only"), "{refused}");
    }
    for said in [preview, why, free, bob.ask(&["gpus"]).fine(), bob.ask(&["history"]).fine()] {
        assert!(!said.contains("secret-plan") && !said.contains(&ann.name), "{said}");
    }
    assert!(ann.ask(&["ps"]).fine().contains("secret-plan"));
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
