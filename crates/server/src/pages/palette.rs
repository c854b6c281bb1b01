//! User colours: each user has one colour of a palette that people with any colour vision can tell apart, the same on
//! every page. The stylesheet defines the colours as `u0` to `u7`; initials stand beside them, so that a colour is never
//! the only sign.

use super::format::{escape, escape_truncated};
use askama::Template;
use askama::filters::HtmlSafe;
use std::collections::HashMap;
use std::sync::Mutex;

/// How many colours the palette has.
const COLOURS: usize = 8;

/// How many users are remembered; beyond them only the hash decides.
const REMEMBERED: usize = 4_096;

/// The colours given to users since the server started.
#[derive(Debug, Default)]
pub(crate) struct UserColours(Mutex<HashMap<String, usize>>);

impl UserColours {
    /// The colour of a user: the one their name hashes to, or the next of those that fewest users have. Up to as many
    /// users as there are colours never share one, and nobody's colour changes while the server runs.
    pub(super) fn of(&self, user: &str) -> usize {
        let mut given = self.0.lock().expect("nobody panics while giving colours");
        if let Some(colour) = given.get(user) {
            return *colour;
        }
        let wanted = hash(user) as usize % COLOURS;
        if given.len() >= REMEMBERED {
            return wanted;
        }
        let mut taken = [0usize; COLOURS];
        given.values().for_each(|colour| taken[*colour] += 1);
        let colours = (0..COLOURS).map(|step| (wanted + step) % COLOURS);
        let colour = colours.min_by_key(|colour| taken[*colour]).unwrap_or(wanted);
        given.insert(user.to_owned(), colour);
        colour
    }

    /// A user as pages show them.
    pub(super) fn person(&self, user: &str, most: usize) -> Person {
        Person {
            colour: self.of(user),
            initials: initials(user),
            whole: escape(user),
            cut: escape_truncated(user, most),
        }
    }
}

/// FNV-1a: the same in every build, unlike the hash of the standard library.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Two or three signs of a name: of its first two words, the first two letters of its only one, or its first letter and
/// the number it ends in.
fn initials(user: &str) -> String {
    let digits = user.len() - user.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let first = user.chars().find(|c| c.is_alphabetic());
    if let (1..=2, Some(first)) = (digits, first) {
        return format!("{first}{}", &user[user.len() - digits..]);
    }
    let mut words = user.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let (first, second) = (words.next().unwrap_or("?"), words.next());
    match second {
        Some(second) => first.chars().take(1).chain(second.chars().take(1)).collect(),
        None => first.chars().take(2).collect(),
    }
}

/// A user in their colour.
#[derive(Clone, Debug, PartialEq, Eq, Template)]
#[template(
    source = r#"<span class="person" title="{{ whole }}"><span class="chip u{{ colour }}" aria-hidden="true">{{ initials }}</span>{{ cut }}</span>"#,
    ext = "html"
)]
pub(super) struct Person {
    pub(super) colour: usize,
    pub(super) initials: String,
    pub(super) whole: String,
    cut: String,
}

impl HtmlSafe for Person {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn as_many_users_as_colours_share_none_and_keep_theirs() {
        let colours = UserColours::default();
        let users: Vec<_> = (0..COLOURS).map(|n| format!("user-{n}")).collect();
        let first: Vec<_> = users.iter().map(|user| colours.of(user)).collect();
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), COLOURS);
        colours.of("one-more");
        assert_eq!(users.iter().map(|user| colours.of(user)).collect::<Vec<_>>(), first);
    }

    #[test]
    fn initials_are_harmless_and_never_empty() {
        assert_eq!(
            ["ann", "max.muster", "user12", "x", "", "\u{202e}<b>"].map(initials),
            ["an", "mm", "u12", "x", "?", "b"]
        );
    }
}
