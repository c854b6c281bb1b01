//! The set-up of a task, stage by stage: which child is at work, what it reports and what follows.

use std::{collections::VecDeque, io, path::Path};

use super::{ANNOUNCE_DELAY, Reuse, Supervisor, directory::append_line};
use crate::supervise::{
    child::{Child, Message},
    clock::Instant,
    output::TaskStreams,
    process::ProcessRef,
    record::TaskProcess,
    setup::{self, Stage},
    task,
    terminal::Terminal,
};

/// Progress of the set-up.
#[derive(Debug)]
pub(super) enum SetupState {
    /// A child works on a stage; `rest` follows.
    At { stage: Stage, process: SetupProcess, rest: VecDeque<Stage> },
    /// The program runs, or ran.
    Done,
    /// The program will never run, for this reason.
    Failed(String),
    /// The child at work was killed and did not go away.
    Abandoned,
}

/// The child at work on a stage.
#[derive(Debug)]
pub(super) enum SetupProcess {
    /// One that exists for this stage only, or becomes the task.
    Child(Child),
    /// The process that opens, and later writes, the sink of this index.
    Writer(usize),
}

impl Supervisor<'_> {
    /// Starts the next stage; with none left the set-up is done.
    pub(super) fn start_next_stage(&mut self, mut rest: VecDeque<Stage>) {
        let Some(stage) = rest.pop_front() else { return self.setup = SetupState::Done };
        // A set-up of several stages may take long and is announced like a running task.
        if !rest.is_empty() {
            self.notify_at.get_or_insert(Instant::now() + ANNOUNCE_DELAY);
        }
        self.setup = match self.start_stage(&stage) {
            Ok(process) => SetupState::At { stage, process, rest },
            Err(e) => SetupState::Failed(e.to_string()),
        };
    }

    fn start_stage(&mut self, stage: &Stage) -> io::Result<SetupProcess> {
        let launch = self.launch;
        match stage {
            Stage::Unpack(unpack) => setup::unpack(unpack, launch.user.as_ref()).map(SetupProcess::Child),
            Stage::Output(path, sink) => {
                self.outputs.open_named(path, *sink, launch)?;
                Ok(SetupProcess::Writer(*sink))
            }
            Stage::Task => {
                let streams = self.connect()?;
                task::start(launch, &streams, &self.cgroup).map(SetupProcess::Child)
            }
        }
    }

    /// Makes the task's standard streams: two pipes, or a terminal.
    fn connect(&mut self) -> io::Result<TaskStreams> {
        let Some(session) = &self.launch.session else { return self.outputs.connect() };
        let (terminal, end) = Terminal::open(self.launch, session)?;
        self.terminal = Some(terminal);
        Ok(TaskStreams::Terminal(end))
    }

    /// The child at work on the set-up.
    pub(super) fn setup_child(&self) -> Option<&Child> {
        match &self.setup {
            SetupState::At { process: SetupProcess::Child(child), .. } => Some(child),
            SetupState::At { process: SetupProcess::Writer(sink), .. } => self.outputs.writer(*sink),
            _ => None,
        }
    }

    /// Handles what the child at work has reported.
    pub(super) fn handle_setup_messages(&mut self) {
        while let Some(child) = self.setup_child() {
            let (pid, Some(message)) = (child.pid, child.message()) else { return };
            if let Message::Note(text) = &message {
                self.outputs.log_note(text);
                continue;
            }
            let SetupState::At { stage, rest, .. } = std::mem::replace(&mut self.setup, SetupState::Done)
            else {
                return;
            };
            match (message, stage) {
                // The socket is close-on-exec: closed without a word, the child has become the program.
                (Message::Closed, Stage::Task) => self.record_start(pid),
                (Message::Failed(reason), Stage::Task) => {
                    self.setup = SetupState::Failed(task::explain(&reason, self.launch));
                }
                (Message::Ready, Stage::Output(..)) => {
                    // The writer lives as long as the task but is none of its processes.
                    self.tree.exclude(pid);
                    self.start_next_stage(rest);
                }
                (Message::Ready, _) => self.start_next_stage(rest),
                (Message::Failed(reason), _) => {
                    self.setup = SetupState::Failed(String::from_utf8_lossy(&reason).into_owned());
                }
                (_, stage) => {
                    self.setup =
                        SetupState::Failed(format!("a process of warpyard's ended {}", stage.describe()));
                }
            }
        }
    }

    /// Records that the child has become the program, or died at that very moment.
    fn record_start(&mut self, pid: i32) {
        let mut groups = self.cgroup.paths().map(Path::to_owned);
        let task = TaskProcess {
            process: ProcessRef::now(pid),
            started_at: self.began_at,
            group: groups.next(),
            more_groups: groups.collect(),
        };
        // A full disk must not end a running task. Without this line its leftovers are merely harder to find, should the
        // supervisor be killed.
        let _best_effort = append_line(&mut self.record, &task);
        self.task = Some(task);
        self.notify_at = Some(Instant::now() + ANNOUNCE_DELAY);
    }

    /// Gives up on a set-up child that was killed and does not go away: a file system it waits for does not answer.
    pub(super) fn abandon_setup(&mut self) {
        if let SetupState::At { stage, process, .. } =
            std::mem::replace(&mut self.setup, SetupState::Abandoned)
        {
            if let SetupProcess::Writer(sink) = process {
                self.outputs.abandon(sink);
            }
            let when = stage.describe();
            self.outputs.log_note(&format!("ended {when}: a file system does not answer"));
        }
        self.reuse = Reuse::Forbidden;
    }
}
