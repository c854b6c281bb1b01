//! A task's log as it is written, across a restart of the server.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use warpyard_api::client::{Client, ClientError};
use warpyard_api::wire::{JobView, LogFilter, State};

/// Longest outage of the server before following gives up.
pub(crate) const MAX_OUTAGE: Duration = Duration::from_secs(60);
/// Delay before the server is asked again.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(500);

/// Why copying a log ended.
enum CopyEnd {
    /// The end of the log.
    Log,
    /// The end of the connection.
    Connection,
}

/// Copies what comes after the first `skip` bytes of a log once, as far as it goes.
pub(crate) fn copy_log(log: impl Read, skip: u64, out: &mut impl Write) -> io::Result<()> {
    let mut copied = 0;
    match copy(log, out, skip, &mut copied)? {
        CopyEnd::Log => Ok(()),
        CopyEnd::Connection => Err(io::Error::new(io::ErrorKind::ConnectionReset, "the server went away")),
    }
}

/// Follows a task's log from the first byte of one attempt until the task is done, each attempt whole and in turn. `ask`
/// selects the task.
pub(crate) fn follow_task(
    client: &Client,
    ask: &str,
    filter: &LogFilter,
    first_attempt: u32,
    out: &mut impl Write,
) -> anyhow::Result<JobView> {
    follow_task_from(client, ask, filter, (first_attempt, 0), out)
}

/// Follows a task's log from an offset in the first attempt.
pub(crate) fn follow_task_from(
    client: &Client,
    ask: &str,
    filter: &LogFilter,
    (mut attempt, mut copied): (u32, u64),
    out: &mut impl Write,
) -> anyhow::Result<JobView> {
    loop {
        let from = (copied > 0).then_some(copied);
        let one = LogFilter { attempt: Some(attempt), follow: true, from, ..filter.clone() };
        let ended = match client.logs(ask, &one) {
            Ok(log) => {
                let mut more = 0;
                let ended = copy(log, out, 0, &mut more);
                copied += more;
                ended?
            }
            // Away, or on its way out or in.
            Err(error) if error.exit_code() == 3 => CopyEnd::Connection,
            Err(error) => return Err(error.into()),
        };
        let job = retry_while_away(|| client.job(&task_of(ask, filter), false, None))?;
        match ended {
            CopyEnd::Log if latest_attempt(&job) > attempt => (attempt, copied) = (attempt + 1, 0),
            CopyEnd::Log if job.state == State::Done => return Ok(job),
            // It is asked for again, after a moment, from where it broke off.
            CopyEnd::Log | CopyEnd::Connection => {
                retry_while_away(|| client.wait(&task_of(ask, filter), Some(RETRY_DELAY)))?;
            }
        }
    }
}

/// The task a log is of, as it is selected.
fn task_of(ask: &str, filter: &LogFilter) -> String {
    let task = filter.task.as_deref().map(|task| format!(".{task}")).unwrap_or_default();
    let index = filter.index.map(|index| format!("[{index}]")).unwrap_or_default();
    format!("{ask}{task}{index}")
}

/// Copies what comes after the first `skip` bytes; `copied` ends up as the log's length so far.
fn copy(mut log: impl Read, out: &mut impl Write, skip: u64, copied: &mut u64) -> io::Result<CopyEnd> {
    let (mut buffer, mut seen) = (vec![0; 64 << 10], 0);
    loop {
        let read = match log.read(&mut buffer) {
            Ok(0) => return Ok(CopyEnd::Log),
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Ok(CopyEnd::Connection),
        };
        let old = usize::try_from(skip.saturating_sub(seen)).unwrap_or(usize::MAX).min(read);
        seen += read as u64;
        *copied = (*copied).max(seen);
        out.write_all(&buffer[old..read])?;
        out.flush()?;
    }
}

/// Asks again while the server is away, as it is when it is restarted.
pub(crate) fn retry_while_away<T>(ask: impl Fn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let since = Instant::now();
    loop {
        match ask() {
            Err(error) if error.exit_code() == 3 && since.elapsed() < MAX_OUTAGE => {
                std::thread::sleep(RETRY_DELAY);
            }
            answer => return answer,
        }
    }
}

/// The number of the latest attempt; a task that has had none will have its first.
pub(crate) fn latest_attempt(job: &JobView) -> u32 {
    let task = job.tasks.first();
    let latest = task.and_then(|task| task.attempts.as_ref()?.last()).map(|attempt| attempt.number);
    latest.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its parts one by one and then breaks.
    struct BrokenReader(Vec<&'static [u8]>);

    impl Read for BrokenReader {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                None => Err(io::ErrorKind::ConnectionReset.into()),
                Some(part) => {
                    buffer[..part.len()].copy_from_slice(part);
                    Ok(part.len())
                }
            }
        }
    }

    #[test]
    fn a_log_goes_on_where_the_connection_broke() {
        let (mut out, mut copied) = (Vec::new(), 0);
        let broken = copy(BrokenReader(vec![b" two", b"one"]), &mut out, 0, &mut copied).unwrap();
        assert!(matches!(broken, CopyEnd::Connection));
        let skip = copied;
        let whole: &[u8] = b"one two three";
        assert!(matches!(copy(whole, &mut out, skip, &mut copied).unwrap(), CopyEnd::Log));
        assert_eq!(out, b"one two three");
        assert_eq!(copied, 13);
    }

    #[test]
    fn what_was_printed_is_not_printed_again_when_a_log_breaks_twice() {
        let (mut out, mut copied) = (Vec::new(), 0);
        for parts in [vec![b"one two".as_slice()], vec![b"one".as_slice()], vec![b" three", b"one two"]] {
            let skip = copied;
            copy(BrokenReader(parts), &mut out, skip, &mut copied).unwrap();
        }
        assert_eq!(out, b"one two three");
    }
}
