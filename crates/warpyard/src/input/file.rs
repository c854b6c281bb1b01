//! Files in and out; `-` is standard input or output.

use crate::usage_error::UsageError;
use std::error::Error;
use std::io::{self, Read, Write};

/// The text of a file.
pub(crate) fn read_file(file: &str) -> Result<String, UsageError> {
    let text = match file {
        "-" => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(file),
    };
    text.map_err(|source| UsageError::UnreadableFile { file: file.to_owned(), source })
}

/// Keeps what `write` writes in a file.
pub(crate) fn write_file(
    file: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), anyhow::Error> {
    if file == "-" {
        let mut out = io::BufWriter::new(StdoutPipe { out: io::stdout().lock(), closed: false });
        let written = write(&mut out).and_then(|()| out.flush());
        return match written {
            Err(_) if out.get_ref().closed => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            written => Ok(written?),
        };
    }
    let unwritable = |source| UsageError::UnwritableFile { file: file.to_owned(), source };
    let mut out = io::BufWriter::new(std::fs::File::create(file).map_err(unwritable)?);
    write(&mut out).and_then(|()| out.flush()).map_err(unwritable)?;
    Ok(())
}

/// Standard output that remembers whether its reader left: writers of formats wrap that error so that it can no longer be
/// told from others.
struct StdoutPipe<W> {
    out: W,
    closed: bool,
}

impl<W: Write> StdoutPipe<W> {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.closed |= done.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
        done
    }
}

impl<W: Write> Write for StdoutPipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.note(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.note(done)
    }
}

/// A file that could be read and still is of no use.
pub(crate) fn bad_file(file: &str, source: impl Error + Send + Sync + 'static) -> UsageError {
    let file = if file == "-" { "standard input" } else { file }.to_owned();
    UsageError::BadFile { file, source: Box::new(source) }
}
