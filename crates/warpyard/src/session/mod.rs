//! Being attached to a task's terminal: the loop between this terminal and that one, what comes before and after it, and
//! the way back when the connection is lost. How a task's terminal works is its supervisor's to know.

mod keys;
mod local;
mod modes;

pub(crate) use keys::DetachKeys;
pub(crate) use local::{Signals, restore, size};

use crate::context::Context;
use crate::follow::{MAX_OUTAGE, RETRY_DELAY, copy_log, latest_attempt, retry_while_away};
use anyhow::Context as _;
use local::RawMode;
use modes::TerminalModes;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::time::Instant;
use warpyard_api::client::{Client, ClientError, TerminalConnection};
use warpyard_api::problem::code;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{JobView, LogFilter};
use warpyard_session::{ClientFrame, Frame, FrameDecoder, SessionFrame};

/// With more than this typed and not sent, nothing more is read.
const MAX_PENDING_INPUT: usize = 64 << 10;
const CHUNK: usize = 64 << 10;

/// How a session ended for this client.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// The person left, and the job goes on.
    Detached,
    /// The job is over.
    Over {
        /// As it is now.
        job: Box<JobView>,
        /// Whether anyone here saw anything of it.
        seen: bool,
    },
}

/// A client that connects this terminal to a task's.
pub(crate) struct AttachedClient<'a> {
    pub(crate) context: &'a Context,
    pub(crate) client: Client,
    /// Selects the task.
    pub(crate) ask: &'a str,
    pub(crate) keys: DetachKeys,
    pub(crate) signals: Signals,
    /// Where the task's output is written.
    pub(crate) out: &'a mut dyn Write,
}

/// The position in an attempt's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    attempt: u32,
    seen: u64,
    /// Whether that is all of it.
    all: bool,
    /// Whether the connection was let in: one whose task ends first is told of the end and of nothing before it.
    joined: bool,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionEnd {
    Detached,
    Over,
    Lost,
}

impl AttachedClient<'_> {
    /// Waits for the task to run and stays with it until it has ended or one leaves. `attached` is called when one first is.
    pub(crate) fn run(mut self, mut attached: impl FnMut()) -> anyhow::Result<SessionEnd> {
        let (mut position, mut away) = (Position::default(), None::<Instant>);
        loop {
            let link = match self.client.attach(self.ask) {
                Ok(link) => link,
                Err(ClientError::Refused(body)) if body.code == code::WRONG_STATE => {
                    let job = retry_while_away(|| self.client.wait(self.ask, None))?;
                    self.catch_up(position, latest_attempt(&job))?;
                    return Ok(SessionEnd::Over { job: Box::new(job), seen: true });
                }
                // Away, or on its way out or in.
                Err(error) if error.exit_code() == 3 => {
                    if away.get_or_insert_with(Instant::now).elapsed() > MAX_OUTAGE {
                        let back = format!("the session goes on; `warpyard attach {}` comes back", self.ask);
                        return Err(error).context(back);
                    }
                    std::thread::sleep(RETRY_DELAY);
                    // It may come back elsewhere, and says where.
                    self.client = self.context.client().unwrap_or(self.client);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if position == Position::default() {
                attached();
                self.greet();
            }
            if link.attempt() != position.attempt {
                position = Position { attempt: link.attempt(), ..Position::default() };
            }
            away = None;
            match self.visit(link, &mut position)? {
                ConnectionEnd::Detached => return Ok(SessionEnd::Detached),
                // The next connection is to the next attempt, or told that there is none.
                ConnectionEnd::Over => position.all = position.joined,
                ConnectionEnd::Lost => {
                    eprintln!("\n[warpyard: the connection is lost; the session goes on; coming back]")
                }
            }
        }
    }

    /// Prints what was printed when nobody was attached: by a task that is over sooner than anyone gets there, or while the
    /// way there was lost.
    fn catch_up(&mut self, position: Position, attempt: u32) -> anyhow::Result<()> {
        let seen = match position {
            Position { attempt: at, all: true, .. } if at == attempt => return Ok(()),
            Position { attempt: at, seen, .. } if at == attempt => seen,
            _ => 0,
        };
        let filter = LogFilter { attempt: Some(attempt), ..LogFilter::default() };
        let log = match retry_while_away(|| self.client.logs(self.ask, &filter)) {
            // It was cancelled before it began.
            Err(ClientError::Refused(body)) if body.code == code::UNKNOWN_ATTEMPT => return Ok(()),
            log => log?,
        };
        // What a terminal printed has its lines ended already.
        let _as_it_is = RawMode::enter(io::stdin())?;
        Ok(copy_log(log, seen, &mut self.out)?)
    }

    fn greet(&self) {
        if !io::stderr().is_terminal() {
            return;
        }
        let devices = self.client.job(self.ask, false, None).ok().and_then(|job| {
            let attempt = job.tasks.first()?.attempts.as_ref()?.last()?;
            (!attempt.devices.is_empty()).then(|| format!(" on {}", attempt.devices.join(", ")))
        });
        let leave = self.keys.describe().map(|keys| format!("; {keys} detaches")).unwrap_or_default();
        eprintln!(
            "[warpyard: job {}{}{leave}]",
            escape_controls(self.ask),
            escape_controls(&devices.unwrap_or_default())
        );
    }

    /// Runs one connection until it ends.
    fn visit(
        &mut self,
        mut link: TerminalConnection,
        position: &mut Position,
    ) -> anyhow::Result<ConnectionEnd> {
        link.set_nonblocking(true)?;
        position.joined = false;
        let mut arriving = FrameDecoder::default();
        arriving.push(&link.take_arrived());
        let mut outgoing = Vec::new();
        ClientFrame::Join { size: size().unwrap_or_default(), seen: position.seen }.put(&mut outgoing);
        let mut modes = TerminalModes::default();
        let raw = RawMode::enter(io::stdin())?;
        let left = self.exchange(&mut link, &mut arriving, &mut outgoing, &mut modes, position);
        self.out.write_all(&modes.undo())?;
        self.out.flush()?;
        drop(raw);
        Ok(left?)
    }

    fn exchange(
        &mut self,
        link: &mut TerminalConnection,
        arriving: &mut FrameDecoder,
        outgoing: &mut Vec<u8>,
        modes: &mut TerminalModes,
        position: &mut Position,
    ) -> io::Result<ConnectionEnd> {
        let mut buffer = vec![0; CHUNK];
        loop {
            loop {
                match arriving.next_frame() {
                    Ok(None) => break,
                    Ok(Some(SessionFrame::End)) => return Ok(ConnectionEnd::Over),
                    Ok(Some(say)) => self.show(say, modes, position)?,
                    Err(_) => return Ok(ConnectionEnd::Lost),
                }
            }
            if !send(link, outgoing) {
                return Ok(ConnectionEnd::Lost);
            }
            let Readiness { typed, resized, arrived } = self.wait(link, outgoing)?;
            if resized {
                self.signals.note_resized();
                outgoing.extend(size().map(ClientFrame::Resize).iter().flat_map(framed));
            }
            if typed {
                let Some(keys) = read_typed(&mut buffer)? else { return Ok(ConnectionEnd::Detached) };
                let fed = self.keys.feed(keys);
                outgoing.extend(framed(&ClientFrame::Input(fed.send)));
                if fed.detach {
                    return Ok(ConnectionEnd::Detached);
                }
            }
            if arrived {
                match link.read(&mut buffer) {
                    Ok(0) => return Ok(ConnectionEnd::Lost),
                    Ok(length) => arriving.push(&buffer[..length]),
                    Err(e) if passes(&e) => {}
                    Err(_) => return Ok(ConnectionEnd::Lost),
                }
            }
        }
    }

    fn show(
        &mut self,
        say: SessionFrame,
        modes: &mut TerminalModes,
        position: &mut Position,
    ) -> io::Result<()> {
        match say {
            SessionFrame::Offset(offset) => (position.seen, position.joined) = (offset, true),
            SessionFrame::Output(bytes) => {
                position.seen += bytes.len() as u64;
                modes.see(&bytes);
                self.out.write_all(&bytes)?;
                self.out.flush()?;
            }
            SessionFrame::Notice(text) => {
                write!(self.out, "\r\n[warpyard: {}]\r\n", escape_controls(&text))?;
                self.out.flush()?;
            }
            SessionFrame::End => {}
        }
        Ok(())
    }

    /// Waits until there is something to do.
    fn wait(&self, link: &TerminalConnection, outgoing: &[u8]) -> io::Result<Readiness> {
        let when = |wanted: bool, flag: PollFlags| if wanted { flag } else { PollFlags::empty() };
        let stdin = io::stdin();
        let mut fds = [
            PollFd::new(stdin.as_fd(), when(outgoing.len() < MAX_PENDING_INPUT, PollFlags::POLLIN)),
            PollFd::new(self.signals.resized(), PollFlags::POLLIN),
            PollFd::new(link.as_fd(), PollFlags::POLLIN | when(!outgoing.is_empty(), PollFlags::POLLOUT)),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let some = PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR;
        let [typed, resized, arrived] = fds.map(|fd| fd.revents().is_some_and(|got| got.intersects(some)));
        Ok(Readiness { typed, resized, arrived })
    }
}

/// Descriptors that are ready.
struct Readiness {
    typed: bool,
    resized: bool,
    arrived: bool,
}

fn framed(ask: &ClientFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    ask.put(&mut bytes);
    bytes
}

/// Reads typed input; none at its end.
fn read_typed(buffer: &mut [u8]) -> io::Result<Option<&[u8]>> {
    match nix::unistd::read(io::stdin(), buffer) {
        Ok(0) | Err(Errno::EIO) => Ok(None),
        Ok(length) => Ok(Some(&buffer[..length])),
        Err(Errno::EINTR | Errno::EAGAIN) => Ok(Some(&[])),
        Err(e) => Err(e.into()),
    }
}

/// Sends what the connection takes; `false` where there is none any more.
fn send(link: &mut TerminalConnection, outgoing: &mut Vec<u8>) -> bool {
    while !outgoing.is_empty() {
        match link.write(outgoing) {
            Ok(length) => drop(outgoing.drain(..length)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}
