//! What a task writes: where it goes, and how much is kept.

use crate::yard::{Yard, comes_to_have, eventually, failed_to_start, size, text};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use warpyard_worker::supervise::Status;

#[test]
fn a_silent_task_leaves_only_its_records() {
    let mut yard = Yard::new();
    let launch = yard.command(["true"]);
    let exit = yard.run(&launch);
    let mut files: Vec<_> = fs::read_dir(launch.dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["exit", "running"]);
    assert_eq!(exit.output, Default::default());
    assert!(exit.usage.peak_rss_bytes > 0);
}

#[test]
fn output_is_followable_and_kept_interleaved_and_apart() {
    let mut yard = Yard::new();
    // Two, for whoever wrote to one may still be closing it when it is read from again.
    let gates = ["first", "second"].map(|name| yard.fifo(name));
    let launch = yard.script("echo one; read x <$HOME/first; echo two >&2; read x <$HOME/second; echo three");
    let dir = yard.launch(&launch);
    let log = launch.dir.join("log");
    for (gate, so_far) in gates.iter().zip(["one\n", "one\ntwo\n"]) {
        comes_to_have(&log, so_far);
        gate.go();
    }
    let exit = yard.exit(&dir);
    assert_eq!(text(log), "one\ntwo\nthree\n");
    assert_eq!(text(launch.dir.join("stdout")), "one\nthree\n");
    assert_eq!(text(launch.dir.join("stderr")), "two\n");
    assert_eq!((exit.output.out_bytes, exit.output.err_bytes), (10, 4));
}

#[test]
fn output_may_live_apart_from_the_records_and_only_if_there_is_some() {
    let mut yard = Yard::new();
    let logs = yard.path("logs/1");
    for (script, made) in [("true", false), ("echo hello", true)] {
        let mut launch = yard.script(script);
        launch.output_dir = Some(logs.clone());
        yard.run(&launch);
        assert!(!launch.dir.join("log").exists());
        assert_eq!(logs.exists(), made, "{script}");
    }
    assert_eq!((text(logs.join("log")), text(logs.join("stdout"))), ("hello\n".into(), "hello\n".into()));
    assert!(!logs.join("stderr").exists());
}

#[test]
fn a_flood_is_drained_but_only_its_head_is_kept() {
    let mut yard = Yard::new();
    let mut launch = yard.script("head -c 5000000 /dev/zero; printf 0123456789 >&2");
    launch.log_cap_bytes = 10;
    let exit = yard.run(&launch);
    assert_eq!(exit.status, Some(Status::Code(0)));
    assert_eq!((exit.output.out_bytes, exit.output.err_bytes), (5_000_000, 10));
    assert!(exit.output.out_truncated && exit.output.log_truncated && !exit.output.err_truncated);
    let notice = "\n[warpyard: only the first 10 bytes are kept]\n";
    assert_eq!(text(launch.dir.join("stdout")), "\0".repeat(10) + notice);
    assert_eq!(text(launch.dir.join("stderr")), "0123456789");
}

#[test]
fn streams_go_where_the_task_says_and_may_share_a_file() {
    let mut yard = Yard::new();
    fs::create_dir(yard.path("work")).unwrap();
    fs::write(yard.path("work/out.txt"), "from an earlier run").unwrap();
    let mut launch = yard.script("echo a; echo b >&2");
    launch.program.workdir = Some(yard.path("work").display().to_string());
    launch.program.stdout = Some("out.txt".into());
    launch.program.stderr = Some(yard.path("work/out.txt").display().to_string());
    yard.run(&launch);
    let mut lines: Vec<_> = text(yard.path("work/out.txt")).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["a", "b"]);
    assert!(!launch.dir.join("stdout").exists());

    let mut launch = yard.script("echo a");
    launch.program.stdout = Some(yard.path("nowhere/out.txt").display().to_string());
    let exit = yard.run(&launch);
    let message = failed_to_start(&exit);
    assert!(
        message.contains("nowhere/out.txt") && message.contains("No such file or directory"),
        "{message}"
    );
}

/// A reader that falls behind holds the task up, as it would without a supervisor in between; it loses nothing.
#[test]
fn a_slow_reader_of_a_fifo_gets_everything() {
    const WRITTEN: usize = 1_000_000;
    let mut yard = Yard::new();
    let fifo = yard.fifo("out");
    let mut launch = yard.script(&format!("head -c {WRITTEN} /dev/zero"));
    launch.program.stdout = Some(fifo.0.display().to_string());
    // Opened without waiting for a writer, then read like any file.
    let mut reader =
        fs::File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&fifo.0).unwrap();
    fcntl(&reader, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    let dir = yard.launch(&launch);
    // The log has what was read from the task: more than fits into the FIFO, so that its writer is behind.
    eventually("the FIFO is full", || size(&launch.dir.join("log")) > 200_000);
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    let exit = yard.exit(&dir);
    assert_eq!(read.len(), WRITTEN);
    assert!(!exit.output.out_truncated, "{:?}", exit.output);
}
