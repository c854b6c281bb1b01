//! The scrollback: the latest output of a terminal, for clients that join later.

use std::collections::VecDeque;

/// Bytes kept.
const CAPACITY: usize = 64 << 10;

/// The latest output of a terminal.
#[derive(Debug, Default)]
pub(super) struct Scrollback {
    /// Bytes printed in all.
    total: u64,
    last: VecDeque<u8>,
}

impl Scrollback {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.last.extend(bytes);
        let over = self.last.len().saturating_sub(CAPACITY);
        self.last.drain(..over);
    }

    /// The output after the first `seen` bytes, as far as it is kept, and its offset. Where some is lost it begins with a whole
    /// line, so that it does not begin with half of an escape sequence.
    pub(super) fn since(&self, seen: u64) -> (u64, Vec<u8>) {
        let kept_from = self.total - self.last.len() as u64;
        let mut begin = seen.clamp(kept_from, self.total.max(kept_from));
        if seen < kept_from
            && let Some(line) = self.last.iter().position(|&byte| byte == b'\n')
        {
            begin += line as u64 + 1;
        }
        (begin, self.last.iter().skip((begin - kept_from) as usize).copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_joins_late_gets_the_last_of_it_from_a_line_on() {
        let mut printed = Scrollback::default();
        let line = [b'x'; 99].iter().chain(b"\n").copied().collect::<Vec<u8>>();
        for _ in 0..1000 {
            printed.add(&line);
        }
        let (from, missed) = printed.since(0);
        assert_eq!(from + missed.len() as u64, 100_000);
        assert!(missed.len() <= CAPACITY && missed.len() > CAPACITY - 200);
        assert_eq!(from % 100, 0, "it begins with a line");
        assert_eq!(printed.since(99_990), (99_990, line[90..].to_vec()), "what was seen is not sent again");
        assert_eq!(printed.since(100_000), (100_000, Vec::new()));
        assert_eq!(printed.since(u64::MAX), (100_000, Vec::new()), "nor is what never was");
    }
}
