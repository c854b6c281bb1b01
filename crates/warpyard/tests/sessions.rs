//! Sessions: a person at a real terminal, a task in another, and everything between them. Keys arrive as they were pressed,
//! what is printed arrives as it was printed, and neither leaving nor losing the server ends what runs.

#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use nix::sys::signal::Signal;
use std::fs;
use support::seat::Seat;
use support::{FAKE, Server, eventually, warpyard};

/// A shell that says nothing of its own accord but its prompt.
const SHELL: [&str; 5] = ["--", "bash", "--norc", "--noprofile", "-i"];

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const DETACH: &str = "\x1dd";

impl Server {
    fn seat(&self, args: &[&str]) -> Seat {
        let mut command = self.command(args);
        command.env("TERM", "dumb").env("PS1", "ready> ");
        Seat::take(&command, (33, 101))
    }

    /// Someone in a shell on a GPU.
    fn shell(&self, options: &[&str]) -> Seat {
        let mut seat = self.seat(&[&["run", "--pty"], options, &SHELL].concat());
        seat.sees("ready> ");
        seat
    }
}

#[test]
fn a_shell_on_a_gpu_is_as_if_one_sat_there() {
    let server = Server::up(&FAKE);
    let mut seat = server.shell(&["--gpus", "1", "--name", "inside"]);
    assert!(seat.all().contains("; Ctrl-] then d detaches]"), "{:?}", seat.all());
    assert!(seat.is_raw());

    seat.enter("stty size; echo $TERM $(tty | cut -c1-9) ${CUDA_VISIBLE_DEVICES:0:3}");
    seat.sees("33 101\r\ndumb /dev/pts/ fak");

    // A job in the foreground is interrupted, and the shell is not.
    seat.enter("sh -c 'echo begin$((1 + 1)); exec sleep 1000'");
    seat.sees("begin2");
    seat.press(CTRL_C);
    seat.sees("ready> ");
    seat.enter("echo still $((6 * 7))");
    seat.sees("still 42");

    // Job control: stopped, in the background, and back.
    seat.enter("sh -c 'echo in$((1 + 1)); read line; echo got $line'");
    seat.sees("in2");
    seat.press(CTRL_Z);
    seat.sees("Stopped");
    seat.enter("jobs; fg");
    seat.sees("Stopped");
    seat.sees("sh -c");
    seat.enter("word");
    seat.sees("got word");

    // Another size arrives, and whoever wants to know is told.
    seat.enter("trap 'echo size: $(stty size)' WINCH; echo set$((1 + 1))");
    seat.sees("set2");
    seat.resize(44, 120);
    seat.enter("");
    seat.sees("size: 44 120");

    seat.enter("exit 7");
    assert_eq!(seat.left(), Some(7), "{}", seat.all());
    assert!(!seat.is_raw());
    let job = server.json(&["show", "last"]);
    assert_eq!((job["outcome"].as_str(), job["tasks"][0]["exit_code"].as_i64()), (Some("failed"), Some(7)));
    assert!(server.said(&["logs", "last"]).contains("still 42\r\n"), "the log has it too");
}

#[test]
fn the_size_is_right_from_the_first_moment_and_signals_are_passed_on() {
    let server = Server::up(&["--gpus", "none"]);
    // Over before anyone can be attached, more often than not; what it printed is seen all the same.
    let mut seat = server.seat(&["run", "--pty", "--", "stty", "size"]);
    seat.sees("33 101\r\n");
    assert_eq!(seat.left(), Some(0));
    let mut seat = server.seat(&["run", "--pty", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(seat.left(), Some(128 + 9));
}

#[test]
fn one_leaves_and_comes_back_and_it_went_on_meanwhile() {
    let server = Server::up(&FAKE);
    let mut seat = server.shell(&[]);
    let before = seat.modes();
    seat.enter("echo first$((1 + 1)); export KEPT=word");
    seat.sees("first2");
    seat.press(DETACH);
    assert_eq!(seat.left(), Some(0));
    seat.sees("detached; `warpyard attach 1` comes back");
    assert!(!seat.is_raw());
    assert_ne!(seat.modes(), before, "it was handed over before");
    assert_eq!(server.state("1"), "running");
    assert!(server.said(&["show", "1"]).contains("`warpyard attach 1`"));

    // Two at once, in the same session.
    let mut back = server.seat(&["attach", "1"]);
    back.sees("first2");
    let mut other = server.seat(&["attach", "--detach-keys", "ctrl-a"]);
    other.sees("first2");
    back.enter("echo $KEPT and $((3 * 7))");
    back.sees("word and 21");
    other.sees("word and 21");
    other.press("\x01");
    assert_eq!(other.left(), Some(0));

    // Being asked to end, however that is done, gives the terminal back and leaves the session alone.
    assert!(back.is_raw());
    back.signal(Signal::SIGTERM);
    assert_eq!(back.left(), Some(128 + 15));
    assert!(!back.is_raw());
    for by in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        let mut guest = server.seat(&["attach", "1"]);
        guest.sees("word and 21");
        assert!(guest.is_raw());
        guest.signal(by);
        assert_eq!(guest.left(), Some(128 + by as i32), "{by}");
        assert!(!guest.is_raw(), "{by}");
    }

    let mut last = server.seat(&["attach"]);
    last.sees("word and 21");
    last.enter("exit 3");
    assert_eq!(last.left(), Some(3));
    let late = server.ask(&["attach", "1"]);
    assert_eq!(late.code, Some(3), "{late:?}");
    assert!(late.err.contains("1 bash  failed after "), "{late:?}");
}

#[test]
fn a_server_that_is_killed_loses_the_way_and_not_the_session() {
    let mut server = Server::up(&FAKE);
    let mut seat = server.shell(&[]);
    seat.enter("n=20; echo before$((n + 1))");
    seat.sees("before21");
    seat.sees("ready> ");
    server.end_by(Signal::SIGKILL);
    seat.sees("the connection is lost");
    server.start();
    // The shell is the same, and what was seen is not printed again.
    eventually("back at the terminal", || seat.is_raw());
    seat.enter("echo after$((n + 2)); exit 5");
    let between = seat.sees("after22");
    assert!(!between.contains("before21"), "{between:?}");
    assert_eq!(seat.left(), Some(5), "{}", seat.all());

    // What is printed while there is no way is seen afterwards, and so is the end.
    let gate = server.path("gate");
    let script = format!("echo one$((1 + 1)); {}; echo two$((1 + 1)); exit 6", support::wait_at(&gate));
    let mut seat = server.seat(&["run", "--pty", "--", "sh", "-c", &script]);
    seat.sees("one2");
    server.end_by(Signal::SIGKILL);
    seat.sees("the connection is lost");
    fs::write(&gate, "").expect("it can be opened");
    eventually("it has ended", || server.supervisors().is_empty());
    server.start();
    let between = seat.sees("two2");
    assert!(!between.contains("one2"), "{between:?}");
    assert_eq!(seat.left(), Some(6), "{}", seat.all());
}

#[test]
fn whoever_has_the_token_comes_in_over_the_network_and_nobody_else() {
    let server = Server::up(&["--gpus", "none"]);
    let read = |name: &str| fs::read_to_string(server.data().join(name)).expect("a server leaves word");
    let (url, token) = (read("address"), read("token"));
    let elsewhere = server.path("elsewhere");
    let command = |token: &str, args: &[&str]| {
        let mut command = warpyard(&elsewhere, args);
        command.env("WARPYARD_SERVER", url.trim()).env("WARPYARD_TOKEN", token).env("PS1", "ready> ");
        command.current_dir(server.dir.path());
        command
    };
    let mut seat = Seat::take(&command(token.trim(), &[&["run", "--pty"], &SHELL[..]].concat()), (24, 80));
    seat.sees("ready> ");
    seat.enter("echo here$((1 + 1))");
    seat.sees("here2");
    let mut stranger = Seat::take(&command("wrong", &["attach", "1"]), (24, 80));
    assert_eq!(stranger.left(), Some(2));
    stranger.sees("does not know the token");
    seat.enter("exit");
    assert_eq!(seat.left(), Some(0));
}

#[test]
fn a_session_in_which_nothing_happens_is_warned_and_ended() {
    let server = Server::up(&["--gpus", "none"]);
    let mut seat = server.shell(&["--idle", "3s", "--grace", "10m"]);
    seat.sees("this session ends in ");
    seat.sees("nothing typed or printed for 3s: this session ends]");
    assert_eq!(seat.left(), Some(124));
    seat.sees("idle for 3s");
    let job = server.json(&["show", "1"]);
    assert_eq!(
        (job["outcome"].as_str(), job["tasks"][0]["why"].as_str()),
        (Some("timed-out"), Some("was ended after its terminal was idle for 3s"))
    );
}

#[test]
fn how_long_nothing_may_happen_has_a_default_and_a_bound() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("c.toml"), "session_idle = \"2h\"\nsession_idle_most = \"8h\"\n")
        .expect("written");
    let data = dir.path().join("data");
    let mut server = Server::at(dir, data, &["--gpus", "none", "--config", "c.toml"]);
    server.start();
    let idle = |args: &[&str]| {
        let job = server.submit(&[args, &["--", "cat"]].concat());
        server.json(&["show", &job])["tasks"][0]["terminal"].clone()
    };
    assert_eq!(idle(&["--pty"]), serde_json::json!({"idle": "2h"}));
    assert_eq!(idle(&["--pty", "--idle", "30m"]), serde_json::json!({"idle": "30m"}));
    assert_eq!(idle(&[]), serde_json::Value::Null);
    let refused = server.ask(&["submit", "--pty", "--idle", "9h", "--", "cat"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("--idle: 9h is longer than anyone may be idle here"), "{refused:?}");
}

#[test]
fn a_cancelled_shell_ends_at_once_with_what_it_stopped() {
    let server = Server::up(&["--gpus", "none"]);
    let mut seat = server.shell(&["--grace", "10m"]);
    seat.enter("sh -c 'echo in$((1 + 1)); exec sleep 1000'");
    seat.sees("in2");
    seat.press(CTRL_Z);
    seat.sees("Stopped");
    server.said(&["cancel", "1"]);
    assert_eq!(seat.left(), Some(130), "as a run that was cancelled here");
    seat.sees("1 bash  cancelled after ");
    seat.sees(
        "not from here, but from another terminal, a page, by an admin, or by the server for idle GPUs",
    );
    assert_eq!(server.outcome("1"), "cancelled");
}

#[test]
fn a_run_that_is_asked_to_end_gives_the_terminal_back_and_the_session_goes_on() {
    let server = Server::up(&["--gpus", "none", "--cpus", "4"]);
    for by in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let mut seat = server.shell(&[]);
        assert!(seat.is_raw());
        seat.signal(by);
        assert_eq!(seat.left(), Some(128 + by as i32), "{by}");
        assert!(!seat.is_raw(), "{by}");
        assert_eq!(server.state("last"), "running");
    }
}

#[test]
fn one_too_many_is_told_so_and_comes_in_when_another_leaves() {
    let server = Server::up(&["--gpus", "none"]);
    let first = server.shell(&[]);
    let mut guests: Vec<_> = (1..8).map(|_| server.seat(&["attach", "1"])).collect();
    for guest in &mut guests {
        guest.sees("ready> ");
    }
    let mut late = server.seat(&["attach", "1"]);
    assert_eq!(late.left(), Some(2));
    late.sees("8 terminals are attached to job 1 already, as many as may be");
    late.sees("leave it at one of them first");
    assert!(!late.is_raw());

    // Nobody lost their place to them, and one that is left is free again.
    guests[0].enter("echo still $((6 * 7))");
    for guest in &mut guests {
        guest.sees("still 42");
    }
    guests[3].press(DETACH);
    assert_eq!(guests[3].left(), Some(0));
    eventually("there is room", || {
        let mut late = server.seat(&["attach", "1"]);
        let is_in = late.sees_either("still 42", "as many as may be");
        late.press(DETACH);
        is_in
    });
    assert!(first.is_raw(), "who came first is still there");
}

#[test]
fn who_comes_too_early_waits_and_ctrl_c_while_waiting_cancels() {
    let server = Server::up(&["--gpus", "none", "--cpus", "1"]);
    let first = server.script(&[], &support::wait_at(&server.path("gate")));
    eventually("it has the only processor", || server.state(&first) == "running");
    let mut impatient = server.seat(&[&["run", "--pty"], &SHELL[..]].concat());
    impatient.sees("job 2 waits: 0 of 1 CPUs are free");
    assert!(!impatient.is_raw());
    impatient.press(CTRL_C);
    impatient.sees("2 bash  cancelled");
    assert_eq!(impatient.left(), Some(130));

    let early = server.submit(&["--pty", "--", "sh", "-c", "read line; echo got $line; exit 4"]);
    let mut seat = server.seat(&["attach", &early]);
    seat.sees("job 3 waits: 0 of 1 CPUs are free");
    server.open("gate");
    seat.sees("detaches]");
    seat.enter("word");
    seat.sees("got word");
    assert_eq!(seat.left(), Some(4));
}

#[test]
fn what_cannot_be_attached_to_says_so() {
    let server = Server::up(&["--gpus", "none"]);
    let nobody = server.ask(&["run", "--pty", "--", "true"]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
    assert!(nobody.err.contains("standard input is not a terminal"), "{nobody:?}");
    assert_eq!(server.json(&["ps", "--all"]), serde_json::json!([]), "nothing was submitted for it");

    let plain = server.script(&[], &support::wait_at(&server.path("gate")));
    let mut seat = server.seat(&["attach", &plain]);
    assert_eq!(seat.left(), Some(2));
    seat.sees("job 1 does not run in a terminal");
    seat.sees("`warpyard logs -f 1`");
    server.open("gate");

    let refused = server.ask(&["submit", "--idle", "5m", "--", "true"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("--idle: the task has no terminal to be idle in"), "{refused:?}");
    assert!(refused.err.contains("add --pty"), "{refused:?}");
}

#[test]
fn a_run_says_how_to_detach_and_the_job_goes_on() {
    let server = Server::up(&FAKE);
    let gate = server.dir.path().join("gate");
    let script = format!("echo begun; until test -e {}; do sleep 0.05; done; echo over", gate.display());
    let mut seat = server.seat(&["run", "--name", "long", "--", "sh", "-c", &script]);
    seat.sees("job 1 (long): Ctrl-C cancels it, Ctrl-\\ detaches and lets it go on\r\n");
    seat.sees("begun");
    seat.press("\x1c");
    seat.sees("detached; job 1 goes on: `warpyard logs -f 1` follows it");
    assert_eq!(seat.left(), Some(0), "{}", seat.all());
    assert_eq!(server.json(&["show", "1"])["state"], "running");
    fs::write(&gate, "").unwrap();
    assert_eq!(server.said(&["logs", "-f", "1"]), "begun\nover\n");
}

#[test]
fn a_list_is_watched_as_it_changes_and_the_screen_given_back() {
    let server = Server::up(&FAKE);
    // Long enough that what is drawn is drawn for what changed.
    let mut seat = server.seat(&["ps", "--watch=1h"]);
    seat.sees("\x1b[?1049h");
    seat.sees("WAIT/RUN");
    server.said(&["submit", "--name", "first", "--", "sleep", "600"]);
    seat.sees("first");
    server.said(&["submit", "--name", "second", "--", "sleep", "600"]);
    seat.sees("second");
    seat.press(CTRL_C);
    seat.sees("\x1b[?25h\x1b[?1049l");
    assert_eq!(seat.left(), Some(130), "{}", seat.all());
}
