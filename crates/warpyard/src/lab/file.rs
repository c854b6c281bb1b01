//! Files in and out; `-` is standard input or output.

use crate::wrong::Wrong;
use std::error::Error;
use std::io::{self, Read, Write};

/// The text of a file.
pub(crate) fn text_of(file: &str) -> Result<String, Wrong> {
    let text = match file {
        "-" => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(file),
    };
    text.map_err(|source| Wrong::UnreadableFile { file: file.to_owned(), source })
}

/// Keeps what `write` writes in a file.
pub(crate) fn keep(
    file: &str,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), anyhow::Error> {
    if file == "-" {
        let mut out = io::BufWriter::new(io::stdout().lock());
        write(&mut out)?;
        return Ok(out.flush()?);
    }
    let unwritable = |source| Wrong::UnwritableFile { file: file.to_owned(), source };
    let mut out = io::BufWriter::new(std::fs::File::create(file).map_err(unwritable)?);
    write(&mut out).and_then(|()| out.flush()).map_err(unwritable)?;
    Ok(())
}

/// A file that could be read and still is of no use.
pub(crate) fn bad_file(file: &str, source: impl Error + Send + Sync + 'static) -> Wrong {
    let file = if file == "-" { "standard input" } else { file }.to_owned();
    Wrong::BadFile { file, source: Box::new(source) }
}
