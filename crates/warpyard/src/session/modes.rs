//! What a program set in the terminal that outlives being attached to it: the other screen, a hidden cursor, reports of the
//! mouse. Whoever leaves gets their terminal back without them.

use std::collections::BTreeSet;

/// TerminalModes that are set for as long as a program runs, and what they are otherwise.
const WATCHED: [(u16, bool); 10] = [
    (1, false),
    (25, true),
    (47, false),
    (1000, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1006, false),
    (1049, false),
    (2004, false),
];

/// Longer than any command to set modes.
const LONGEST: usize = 64;

/// The watched modes that are not what they were.
#[derive(Debug, Default)]
pub(super) struct TerminalModes {
    changed: BTreeSet<u16>,
    /// A command that has not arrived whole.
    begun: Vec<u8>,
}

impl TerminalModes {
    /// Tracks mode changes in the output.
    pub(super) fn see(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match (self.begun.len(), byte) {
                (_, 0x1b) => self.begun = vec![byte],
                (0, _) => {}
                (1, b'[') | (2, b'?') => self.begun.push(byte),
                (3..LONGEST, b'0'..=b'9' | b';') => self.begun.push(byte),
                (3.., b'h' | b'l') => self.set(byte == b'h'),
                _ => self.begun.clear(),
            }
        }
    }

    fn set(&mut self, on: bool) {
        let begun = std::mem::take(&mut self.begun);
        let numbers = String::from_utf8_lossy(&begun[3..]).into_owned();
        for mode in numbers.split(';').filter_map(|number| number.parse().ok()) {
            match WATCHED.iter().find(|(watched, _)| *watched == mode) {
                Some((_, usual)) if *usual == on => self.changed.remove(&mode),
                Some(_) => self.changed.insert(mode),
                None => false,
            };
        }
    }

    /// The commands that undo what was set.
    pub(super) fn undo(&self) -> Vec<u8> {
        let usual = |mode: &u16| WATCHED.iter().any(|(watched, usual)| watched == mode && *usual);
        let commands =
            self.changed.iter().map(|mode| format!("\x1b[?{mode}{}", if usual(mode) { 'h' } else { 'l' }));
        commands.collect::<String>().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(printed: &[&[u8]]) -> String {
        let mut modes = TerminalModes::default();
        printed.iter().for_each(|bytes| modes.see(bytes));
        String::from_utf8(modes.undo()).unwrap()
    }

    #[test]
    fn what_was_set_and_not_set_back_is_undone() {
        assert_eq!(undone(&[b"\x1b[?1049h\x1b[?25l text"]), "\x1b[?25h\x1b[?1049l");
        assert_eq!(undone(&[b"\x1b[?10", b"49h"]), "\x1b[?1049l", "in two pieces");
        assert_eq!(undone(&[b"\x1b[?1000;1006h"]), "\x1b[?1000l\x1b[?1006l");
        assert_eq!(undone(&[b"\x1b[?1049h\x1b[?1049l\x1b[?25h"]), "");
    }

    #[test]
    fn other_commands_are_none_of_our_business() {
        assert_eq!(undone(&[b"\x1b[1;31mred\x1b[0m 1049h \x1b[?7h\x1b[?12l"]), "");
        let endless = [b"\x1b[?".as_slice(), &[b'1'; 10_000], b"h"].concat();
        assert_eq!(undone(&[&endless]), "");
    }
}
