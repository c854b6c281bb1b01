//! The end of an attempt's output as text that is safe to show.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use warpyard_api::text::escape_controls;
use warpyard_core::AttemptId;
use warpyard_worker::agent::Layout;

/// The most bytes of output in a tail.
const TAIL: u64 = 24 << 10;

/// The most lines of output in a tail.
const LINES: usize = 200;

/// A part of a log, and its end in the file.
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) next: u64,
    /// Whether output before it is left out.
    pub(crate) cut: bool,
}

/// The last lines of an attempt's output.
pub(crate) fn tail(layout: &Layout, attempt: AttemptId) -> io::Result<Piece> {
    let mut file = File::open(layout.log_dir(attempt).join("log"))?;
    let end = file.seek(SeekFrom::End(0))?;
    let from = end.saturating_sub(TAIL);
    let bytes = read(&mut file, from, TAIL)?;
    // A truncated excerpt begins with a whole line.
    let begin = if from == 0 { 0 } else { bytes.iter().position(|b| *b == b'\n').map_or(0, |at| at + 1) };
    let next = from + bytes.len() as u64;
    let whole = printable(&bytes[begin..]);
    let ends: Vec<_> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let skip = ends.len().saturating_sub(LINES);
    let begin = if skip == 0 { 0 } else { ends[skip - 1] };
    Ok(Piece { cut: from > 0 || skip > 0, text: whole[begin..].to_owned(), next })
}

/// The last lines of an attempt's output for an API response: few, and none long.
pub(crate) fn last_lines(layout: &Layout, attempt: AttemptId) -> Vec<String> {
    const MOST: usize = 10;
    const LONGEST: usize = 400;
    let Ok(piece) = tail(layout, attempt) else { return vec![] };
    let lines: Vec<_> = piece.text.lines().collect();
    let last = lines.iter().skip(lines.len().saturating_sub(MOST));
    last.map(|line| match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => (*line).to_owned(),
    })
    .collect()
}

/// At most so many bytes of a file from an offset on.
pub(crate) fn read(file: &mut File, from: u64, most: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Output as text with control characters escaped, line by line.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for line in String::from_utf8_lossy(bytes).split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        // A progress bar overwrites itself with carriage returns; only its last state is shown, as on a terminal.
        let line = line.strip_suffix('\r').unwrap_or(line);
        out.push_str(&escape_controls(line.rsplit('\r').next().unwrap_or(line)));
        out.push_str(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_shown_and_not_obeyed() {
        assert_eq!(printable(b"10 %\r50 %\r100 %\r\nred \x1b[31m\nhalf"), "100 %\nred \\u{1b}[31m\nhalf");
        assert_eq!(printable("right\u{202e}left\n".as_bytes()), "right\\u{202e}left\n");
        assert_eq!(printable(&[0xff, b'\n']), "\u{fffd}\n");
    }
}
