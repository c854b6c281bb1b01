//! The keys that detach: typed one after another they are not sent but leave the session, which goes on.

use std::fmt;
use std::str::FromStr;

/// A few keys in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DetachKeys {
    keys: Vec<u8>,
    /// How many of them were just typed and are withheld.
    held: usize,
}

/// Typed input without the detach keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilteredInput {
    pub(super) send: Vec<u8>,
    pub(super) detach: bool,
}

impl DetachKeys {
    /// Takes what was typed. What could still become the keys is held back until it cannot; the first of them typed twice
    /// is sent once.
    pub(super) fn feed(&mut self, typed: &[u8]) -> FilteredInput {
        let mut send = Vec::with_capacity(typed.len());
        for &byte in typed {
            if self.keys.get(self.held) == Some(&byte) {
                self.held += 1;
                if self.held == self.keys.len() {
                    self.held = 0;
                    return FilteredInput { send, detach: true };
                }
                continue;
            }
            let held = std::mem::take(&mut self.held);
            send.extend(&self.keys[..held]);
            match self.keys.first() {
                Some(&first) if first == byte && held == 1 => {}
                Some(&first) if first == byte => self.held = 1,
                _ => send.push(byte),
            }
        }
        FilteredInput { send, detach: false }
    }

    /// Description of the keys for people; none where there are none.
    pub(super) fn describe(&self) -> Option<String> {
        (!self.keys.is_empty()).then(|| self.to_string())
    }
}

impl fmt::Display for DetachKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, &key) in self.keys.iter().enumerate() {
            let then = if at == 0 { "" } else { " then " };
            match key {
                0..32 => write!(f, "{then}Ctrl-{}", char::from(key + 64))?,
                _ => write!(f, "{then}{}", char::from(key))?,
            }
        }
        Ok(())
    }
}

/// The text names no keys.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not keys: '{0}'; write them such as ctrl-],d, or none")]
pub(crate) struct BadDetachKeys(String);

impl FromStr for DetachKeys {
    type Err = BadDetachKeys;

    fn from_str(text: &str) -> Result<Self, BadDetachKeys> {
        let key = |name: &str| match name.as_bytes() {
            [key @ 33..127] => Some(*key),
            _ => match name.to_ascii_lowercase().strip_prefix("ctrl-")?.as_bytes() {
                [letter @ (b'a'..=b'z' | b'@' | b'['..=b'_')] => Some(letter.to_ascii_uppercase() - 64),
                _ => None,
            },
        };
        let keys = match text {
            "none" => Some(Vec::new()),
            keys => keys.split(',').map(key).collect(),
        };
        keys.map(|keys| Self { keys, held: 0 }).ok_or_else(|| BadDetachKeys(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(keys: &str, typed: &[&[u8]]) -> (Vec<u8>, bool) {
        let mut keys: DetachKeys = keys.parse().unwrap();
        let (mut sent, mut detached) = (Vec::new(), false);
        for typed in typed {
            let fed = keys.feed(typed);
            sent.extend(fed.send);
            detached |= fed.detach;
        }
        (sent, detached)
    }

    #[test]
    fn the_keys_detach_however_they_arrive_and_are_not_sent() {
        assert_eq!(fed("ctrl-],d", &[b"ls\x1d", b"d"]), (b"ls".to_vec(), true));
        assert_eq!(fed("ctrl-p,ctrl-q", &[b"a\x10\x11"]), (b"a".to_vec(), true));
        assert_eq!(fed("ctrl-a", &[b"\x01"]), (vec![], true));
    }

    #[test]
    fn what_is_not_the_keys_is_sent_as_it_is() {
        assert_eq!(fed("ctrl-],d", &[b"\x1d", b"x"]), (b"\x1dx".to_vec(), false));
        assert_eq!(fed("ctrl-],d", &[b"\x1d\x1d", b"d"]), (b"\x1dd".to_vec(), false), "twice sends one");
        assert_eq!(fed("none", &[b"\x1dd"]), (b"\x1dd".to_vec(), false));
    }

    #[test]
    fn keys_are_named_as_people_do() {
        let described = |text: &str| text.parse::<DetachKeys>().map(|keys| keys.describe());
        assert_eq!(described("ctrl-],d"), Ok(Some("Ctrl-] then d".to_owned())));
        assert_eq!(described("Ctrl-A"), Ok(Some("Ctrl-A".to_owned())));
        assert_eq!(described("none"), Ok(None));
        for wrong in ["", "ctrl-", "ctrl-ab", "esc", "a,,b", "ctrl-1"] {
            assert!(described(wrong).is_err(), "{wrong}");
        }
    }
}
