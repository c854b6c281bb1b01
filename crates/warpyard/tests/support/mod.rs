//! A server of its own for each test: the real binary on a free port, a data directory nobody else uses, and at the end
//! everything of it gone, found by process number and never by name.

pub(crate) mod seat;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_warpyard");

/// Two GPUs with nothing behind them.
pub(crate) const FAKE: [&str; 2] = ["--gpus", "fake:2xV100:16GiB"];

/// What hangs for so long will not end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, its data directory and whatever runs under it.
pub(crate) struct Server {
    /// The directory in which the test keeps files of its own; commands run there.
    pub(crate) dir: tempfile::TempDir,
    data: PathBuf,
    args: Vec<String>,
    /// Where it listens: on any free port, unless it was told to stay on the one it had.
    listen: String,
    env: Vec<(&'static str, &'static str)>,
    /// What a shell does before it becomes the server.
    before: Option<&'static str>,
    process: Option<Child>,
    /// What it says on standard error, and the thread that reads it.
    said: Option<(thread::JoinHandle<()>, Arc<Mutex<String>>)>,
}

/// What a command printed and exited with.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// What was printed, of a command that had to succeed.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }
}

/// The binary with nothing of the surroundings that could lead it to another server.
pub(crate) fn warpyard(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("WARPYARD_")) {
        command.env_remove(name);
    }
    command.args(args).env("WARPYARD_DATA", data).stdin(Stdio::null());
    command
}

/// Runs a command to its end; one that hangs is killed and fails the test.
pub(crate) fn output(command: &mut Command) -> Answer {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let guard = Watchdog::over(child.id());
    let answer = Answer::of(child.wait_with_output().expect("it can be waited for"));
    guard.called_off(command, &answer);
    answer
}

/// Kills a process that does not end in time.
struct Watchdog {
    ended: mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Watchdog {
    fn over(pid: u32) -> Self {
        let (ended, wait) = mpsc::channel();
        let thread = thread::spawn(move || {
            let late = wait.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if late {
                signal(pid, Signal::SIGKILL);
            }
            late
        });
        Self { ended, thread }
    }

    fn called_off(self, command: &Command, answer: &Answer) {
        drop(self.ended);
        let late = self.thread.join().expect("it only waits");
        assert!(!late, "{command:?} did not end in time: {answer:?}");
    }
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) fn up(args: &[&str]) -> Self {
        let mut server = Self::down(args);
        server.start();
        server
    }

    /// A server that is not started yet.
    pub(crate) fn down(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let data = dir.path().join("data");
        Self::at(dir, data, args)
    }

    /// A server whose data is somewhere particular.
    pub(crate) fn at(dir: tempfile::TempDir, data: PathBuf, args: &[&str]) -> Self {
        let args = args.iter().map(ToString::to_string).collect();
        let listen = "127.0.0.1:0".to_owned();
        Self { dir, data, args, listen, env: Vec::new(), before: None, process: None, said: None }
    }

    /// The same with a variable set when it is started.
    pub(crate) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.env.push((name, value));
        self
    }

    /// The same, started by a shell that does something first, such as `umask 000`.
    pub(crate) fn after(mut self, before: &'static str) -> Self {
        self.before = Some(before);
        self
    }

    /// `warpyard up` as this server is started.
    pub(crate) fn up_command(&self) -> Command {
        let mut command = match self.before {
            None => warpyard(&self.data, &[]),
            Some(before) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), BINARY]);
                shell.env("WARPYARD_DATA", &self.data).stdin(Stdio::null());
                shell
            }
        };
        command.args(["up", "--listen", &self.listen]);
        command.args(&self.args).envs(self.env.iter().copied()).current_dir(self.dir.path());
        command
    }

    /// Starts it, again if need be; gives what it printed when it was up.
    pub(crate) fn start(&mut self) -> String {
        assert!(self.process.is_none(), "it runs already");
        let _left_by_one_that_was_killed = fs::remove_file(self.data.join("address"));
        let mut child =
            self.up_command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let guard = Watchdog::over(child.id());
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        let mut err = BufReader::new(child.stderr.take().expect("piped"));
        let text = Arc::new(Mutex::new(String::new()));
        let into = text.clone();
        let reader = thread::spawn(move || {
            let mut line = Vec::new();
            while err.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                into.lock().expect("nobody panics").push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
        let mut banner = String::new();
        while !banner.contains("  try ") && said.read_line(&mut banner).is_ok_and(|n| n > 0) {}
        drop(guard);
        self.process = Some(child);
        self.said = Some((reader, text));
        if !banner.contains("  try ") {
            let (status, err) = self.ended();
            panic!("the server did not start ({status}): {banner}{err}");
        }
        banner
    }

    /// Has it listen at its present address when it is started again, for others who know only that.
    pub(crate) fn stay(&mut self) {
        let address = fs::read_to_string(self.data.join("address")).expect("it leaves word");
        let (_, host) = address.trim().split_once("://").expect("an address");
        self.listen = host.to_owned();
    }

    /// Waits for its end; gives how it ended and what it said on standard error.
    pub(crate) fn ended(&mut self) -> (ExitStatus, String) {
        let mut process = self.process.take().expect("it was started");
        let guard = Watchdog::over(process.id());
        let status = process.wait().expect("it can be waited for");
        drop(guard);
        let (reader, said) = self.said.take().expect("it was started");
        reader.join().expect("it only reads");
        let said = std::mem::take(&mut *said.lock().expect("nobody panics"));
        (status, said)
    }

    /// Whether it has said something on standard error.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        let (_, said) = self.said.as_ref().expect("it runs");
        said.lock().expect("nobody panics").contains(text)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// Sends the server a signal and waits until it is gone.
    pub(crate) fn end_by(&mut self, by: Signal) -> (ExitStatus, String) {
        signal(self.pid(), by);
        self.ended()
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// A path in the test's own directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file there; gives its name as commands see it.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("a file can be written");
        name.to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = warpyard(&self.data, args);
        command.current_dir(self.dir.path());
        command
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Answer {
        output(&mut self.command(args))
    }

    /// What a command prints that has to succeed.
    #[track_caller]
    pub(crate) fn said(&self, args: &[&str]) -> String {
        self.ask(args).fine()
    }

    /// What a command answers as JSON.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let text = self.said(&[&["--json"], args].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    /// Submits; gives the job's id.
    #[track_caller]
    pub(crate) fn submit(&self, args: &[&str]) -> String {
        let answer = self.json(&[&["submit"], args].concat());
        let job = answer["job"].as_str().unwrap_or_else(|| panic!("{args:?}: {answer}"));
        job.to_owned()
    }

    /// Submits a shell script; gives the job's id.
    #[track_caller]
    pub(crate) fn script(&self, options: &[&str], script: &str) -> String {
        self.submit(&[options, &["--", "sh", "-c", script]].concat())
    }

    /// Waits for a job's end; gives its outcome.
    #[track_caller]
    pub(crate) fn outcome(&self, job: &str) -> String {
        let answer = self.ask(&["wait", "--json", job]);
        let jobs: Value = serde_json::from_str(&answer.out).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
        jobs[0]["outcome"].as_str().unwrap_or_else(|| panic!("{jobs}")).to_owned()
    }

    pub(crate) fn state(&self, job: &str) -> String {
        self.json(&["show", job])["state"].as_str().expect("a state").to_owned()
    }

    /// Follows the log of a task.
    pub(crate) fn follow(&self, job: &str) -> Follow {
        let mut child =
            self.command(&["logs", "-f", job]).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        Follow { child, out }
    }

    /// Waits until a task has printed a line.
    #[track_caller]
    pub(crate) fn printed(&self, job: &str, line: &str) {
        self.follow(job).until(line);
    }

    /// Opens a gate that a script waits at with [`wait_at`].
    pub(crate) fn open(&self, gate: &str) {
        self.write(gate, "");
    }

    /// The process that starts supervisors.
    pub(crate) fn spawner(&self) -> Option<u32> {
        let server = self.pid();
        let is_spawner = |pid: &u32| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            parent(*pid) == Some(server) && arguments.windows(9).any(|word| word == b"\0spawner\0")
        };
        all_pids().into_iter().find(is_spawner)
    }

    /// The supervisors that have an attempt.
    pub(crate) fn supervisors(&self) -> Vec<u32> {
        supervisors_in(&self.data)
    }
}

/// The supervisors that have an attempt in a data directory.
fn supervisors_in(data: &Path) -> Vec<u32> {
    let entries = fs::read_dir(data.join("attempts")).into_iter().flatten().flatten();
    let open = entries.map(|e| e.path()).filter(|dir| !dir.join("exit").exists());
    open.filter_map(|dir| supervisor_in(&dir)).collect()
}

/// Every process with the environment of a task of this data directory.
fn tasks_in(data: &Path) -> Vec<u32> {
    let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
    let mark = format!("WARPYARD_ATTEMPT_DIR={}/", data.display());
    all_pids().into_iter().filter(|pid| has_variable(*pid, mark.as_bytes())).collect()
}

/// Ends a server or worker and everything that runs under it.
pub(crate) fn end_all(process: Option<Child>, data: &Path) {
    if let Some(mut process) = process {
        let server = process.id();
        let spawners: Vec<u32> = all_pids().into_iter().filter(|pid| parent(*pid) == Some(server)).collect();
        let _gone = process.kill();
        let _status = process.wait();
        spawners.into_iter().for_each(|pid| signal(pid, Signal::SIGKILL));
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let left: BTreeSet<u32> =
            supervisors_in(data).into_iter().chain(tasks_in(data)).filter(|&p| is_alive(p)).collect();
        if left.is_empty() || Instant::now() > until {
            break;
        }
        for pid in left {
            signal(pid, Signal::SIGKILL);
        }
        thread::sleep(Duration::from_millis(5));
    }
    // Records may be in memory, where nothing of the test's directory is.
    if let Ok(elsewhere) = fs::read_link(data.join("attempts")) {
        let _given_back_already = fs::remove_dir_all(elsewhere);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end_all(self.process.take(), &self.data);
    }
}

/// A shell's way to wait until the test opens a gate.
pub(crate) fn wait_at(gate: &Path) -> String {
    format!("until test -e {}; do sleep 0.02; done", gate.display())
}

/// The log of a task as it grows.
pub(crate) struct Follow {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Follow {
    /// Reads on to a line.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: &str) {
        let guard = Watchdog::over(self.child.id());
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).expect("text");
            assert!(read > 0, "the log ended without {wanted:?}: {all}");
            if line.trim_end() == wanted {
                break;
            }
            all += &line;
        }
        drop(guard);
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Waits for something that has no event to wait for.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal to one process; one that is gone is fine.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let _gone = kill(Pid::from_raw(pid.try_into().expect("a process number")), signal);
}

pub(crate) fn is_alive(pid: u32) -> bool {
    // The state follows the name, which is in parentheses and may hold anything.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn all_pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("a Linux machine").flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

fn has_variable(pid: u32, start: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&b| b == 0).any(|variable| variable.starts_with(start))
}

/// The supervisor of an attempt, if the process of that number is still the one that took it.
fn supervisor_in(dir: &Path) -> Option<u32> {
    let text = fs::read_to_string(dir.join("running")).ok()?;
    let running: Value = serde_json::from_str(text.lines().next()?).ok()?;
    let pid = u32::try_from(running["supervisor"]["pid"].as_u64()?).ok()?;
    let key = running["key"].as_str()?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    // A process is named by the first fifteen bytes.
    let ours = format!("wy:{key}");
    (name.trim_end() == &ours[..ours.len().min(15)]).then_some(pid)
}
