//! What a task starts with, and what it says when it cannot.

use crate::yard::{Yard, failed_to_start, text};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use warpyard_worker::supervise::{ExitCause, Status, User};

#[test]
fn codes_and_signals_are_kept() {
    let mut yard = Yard::new();
    for (script, status) in
        [("exit 0", Status::Code(0)), ("exit 7", Status::Code(7)), ("kill -SEGV $$", Status::Signal(11))]
    {
        let launch = yard.script(script);
        let exit = yard.run(&launch);
        assert_eq!(
            (exit.key, exit.cause, exit.status),
            (launch.key, ExitCause::Exited, Some(status)),
            "{script}"
        );
        assert!(exit.started_at <= exit.ended_at);
    }
}

#[test]
fn the_environment_is_the_launch_s_and_no_other() {
    let mut yard = Yard::new();
    let mut launch = yard.command(["env"]);
    launch.program.env.insert("GREETING".into(), "hello world".into());
    yard.run(&launch);
    let dir = launch.dir.to_str().unwrap();
    let home = yard.home.path().to_str().unwrap();
    let expected = [
        "GREETING=hello world".to_owned(),
        format!("HOME={home}"),
        "PATH=/usr/local/bin:/usr/bin:/bin".to_owned(),
        format!("WARPYARD_ATTEMPT_DIR={dir}"),
    ];
    let mut lines: Vec<_> = text(launch.dir.join("stdout")).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, expected);
}

#[test]
fn a_huge_environment_arrives_and_one_too_huge_is_told_of() {
    let mut yard = Yard::new();
    let mut launch = yard.script("echo ${#BIG_0} ${#BIG_9}");
    for i in 0..10 {
        launch.program.env.insert(format!("BIG_{i}"), "x".repeat(100_000));
    }
    yard.run(&launch);
    assert_eq!(text(launch.dir.join("stdout")), "100000 100000\n");

    let mut launch = yard.script("true");
    launch.program.env.insert("BIG".into(), "x".repeat(10_000_000));
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("Argument list too long"), "{exit:?}");
}

#[test]
fn nothing_of_the_supervisor_s_reaches_the_task() {
    let mut yard = Yard::new();
    let launch = yard.script(
        "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status; \
         read pid comm state ppid pgrp session rest </proc/$$/stat; echo $(($$ == pgrp)) $(($$ == session))",
    );
    yard.run(&launch);
    let text = text(launch.dir.join("stdout"));
    // The fourth descriptor is the one by which `ls` reads the directory. Signals 32 and 33 are the C library's own.
    let text = text.replace("0000000180000000", "0000000000000000");
    let zero = "0000000000000000";
    assert_eq!(text, format!("0\n1\n2\n3\nSigBlk:\t{zero}\nSigIgn:\t{zero}\n1 1\n"));
}

#[test]
fn what_cannot_start_says_why() {
    let mut yard = Yard::new();
    let launch = yard.command(["no-such-program"]);
    let exit = yard.run(&launch);
    let message = failed_to_start(&exit);
    assert_eq!(message, "command not found: no-such-program is in no directory of its PATH");
    assert_eq!(exit.status, None);

    let mut launch = yard.command(["true"]);
    launch.program.workdir = Some("/no/such/place".into());
    let exit = yard.run(&launch);
    let message = failed_to_start(&exit);
    assert_eq!(message, "its working directory /no/such/place does not exist");

    let launch = yard.command(["/etc/passwd"]);
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("/etc/passwd is not executable"), "{exit:?}");

    let launch = yard.command([]);
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("empty"), "{exit:?}");
}

#[test]
fn a_script_without_a_first_line_runs_as_in_a_shell() {
    let mut yard = Yard::new();
    let path = yard.path("script");
    fs::write(&path, "echo got $1; exit 3\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let launch = yard.command([path.to_str().unwrap(), "this"]);
    let exit = yard.run(&launch);
    assert_eq!(exit.status, Some(Status::Code(3)), "{exit:?}");
    assert_eq!(text(launch.dir.join("stdout")), "got this\n");
}

#[test]
fn usage_counts_children_too() {
    let mut yard = Yard::new();
    let launch = yard.script("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; exit 0");
    let exit = yard.run(&launch);
    assert!(exit.usage.cpu_us > 1_000, "{exit:?}");
    assert!(exit.usage.peak_rss_bytes > 100_000, "{exit:?}");
}

#[test]
fn a_task_may_run_as_another_user() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED: only root can run tasks as somebody else");
        return;
    }
    let mut yard = Yard::new();
    let nobody = User { uid: 65534, gid: 65533, groups: vec![65532] };
    fs::create_dir(yard.path("theirs")).unwrap();
    std::os::unix::fs::chown(yard.path("theirs"), Some(nobody.uid), Some(nobody.gid)).unwrap();
    let mut launch =
        yard.script("id -u; id -g; id -G; umask; touch theirs; kill -9 $PPID 2>/dev/null || echo safe");
    launch.program.workdir = Some(yard.path("theirs").display().to_string());
    launch.program.stderr = Some(yard.path("theirs/err").display().to_string());
    launch.user = Some(nobody.clone());
    launch.umask = Some(0o027);
    let exit = yard.run(&launch);
    assert_eq!(exit.status, Some(Status::Code(0)), "{exit:?}");
    assert_eq!(text(launch.dir.join("stdout")), "65534\n65533\n65533 65532\n0027\nsafe\n");
    let owner = |path: PathBuf| path.metadata().map(|metadata| (metadata.uid(), metadata.gid())).unwrap();
    assert_eq!(owner(launch.dir.join("log")), (65534, 65533));
    assert_eq!(owner(launch.dir.join("exit")), (0, 0));
    assert_eq!(owner(yard.path("theirs/err")), (65534, 65533));

    // A directory of PATH that the user may not enter is skipped, as a shell does.
    let mut launch = yard.command(["no-such-program"]);
    fs::create_dir(yard.path("closed")).unwrap();
    fs::set_permissions(yard.path("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    let path = format!("{}:/usr/bin", yard.path("closed").display());
    launch.program.env.insert("PATH".into(), path);
    launch.program.workdir = Some("/".into());
    launch.user = Some(nobody.clone());
    let exit = yard.run(&launch);
    let message = failed_to_start(&exit);
    assert_eq!(message, "command not found: no-such-program is in no directory of its PATH");

    // What the user may not write, root does not write for them.
    let mut launch = yard.script("echo mischief");
    launch.program.stdout = Some(yard.path("attempts/forged").display().to_string());
    launch.user = Some(nobody);
    let exit = yard.run(&launch);
    assert!(failed_to_start(&exit).contains("Permission denied"), "{exit:?}");
    assert!(!yard.path("attempts/forged").exists());
}

#[test]
fn a_limit_nobody_may_set_is_clamped_and_the_log_says_so() {
    let mut yard = Yard::new();
    let mut launch = yard.script("ulimit -Hn");
    // More than the kernel lets even root have.
    launch.limits = vec![(libc::RLIMIT_NOFILE, 1 << 40, 1 << 40)];
    let exit = yard.run(&launch);
    assert_eq!(exit.status, Some(Status::Code(0)), "{exit:?}");
    let (_, most) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
        .expect("limits can be read");
    assert_eq!(text(launch.dir.join("stdout")), format!("{most}\n"));
    assert!(text(launch.dir.join("log")).contains(&format!("the limit nofile is {most} here")));
}
