//! Users as pages show them: initials in their colour. The stylesheet defines the colours as `u0` to `u7`; initials stand beside them, so that a colour is never
//! the only sign.

use super::format::{escape, escape_truncated};
use crate::app::UserColours;
use askama::Template;
use askama::filters::HtmlSafe;

impl UserColours {
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

    #[test]
    fn initials_are_harmless_and_never_empty() {
        assert_eq!(
            ["ann", "max.muster", "user12", "x", "", "\u{202e}<b>"].map(initials),
            ["an", "mm", "u12", "x", "?", "b"]
        );
    }
}
