//! Nobody has more than they may, nor leaves anything behind.

use crate::machine::{Machine, Person, tool};
use crate::support::eventually;

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
        eventually("it was refused more", || {
            ann.ask(&["logs", &job]).out.contains("refused True") && ann.processes().len() <= 100
        });
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
    assert!(refused(&ann, &["--array", "1-4"]).contains("3 tasks waiting (queued) and has 0; this adds 4"));
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
