//! Untrusted text: validation of names, escaping for terminals, pattern matching, and suggestions for misspelt words.

use std::borrow::Cow;
use std::fmt::Write;

/// The longest name in bytes.
pub const MAX_NAME_BYTES: usize = 200;

/// Why a text cannot be a name; `None` where it can.
///
/// ```
/// use warpyard_api::text::name_fault;
/// assert_eq!(name_fault("train-7b (ann)"), None);
/// assert_eq!(name_fault("bell\u{7}").as_deref(), Some("has a character that cannot be printed (U+0007)"));
/// ```
pub fn name_fault(name: &str) -> Option<String> {
    if name.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    if name.trim() != name {
        return Some("starts or ends with a space".to_owned());
    }
    if name.len() > MAX_NAME_BYTES {
        return Some(format!("has {} bytes; a name has at most {MAX_NAME_BYTES}", name.len()));
    }
    let wrong = name.chars().find(|c| !is_printable(*c))?;
    Some(format!("has a character that cannot be printed (U+{:04X})", wrong as u32))
}

/// Whether a character is displayed as itself: neither a control character, nor a bidirectional control, a line break or an
/// invisible character, by which two names would look alike. Joiners, which some scripts need, are allowed.
fn is_printable(c: char) -> bool {
    let bidirectional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    let invisible =
        matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !bidirectional && !breaks && !invisible
}

/// Escapes control characters, so that a terminal displays the text and does not obey it.
///
/// ```
/// assert_eq!(warpyard_api::text::escape_controls("red \u{1b}[31m"), "red \\u{1b}[31m");
/// ```
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if is_printable(c) => out.push(c),
            c => write!(out, "{}", c.escape_unicode()).expect("a string takes all"),
        }
    }
    Cow::Owned(out)
}

/// Escapes a name within a message, truncated to the longest valid name.
pub fn escape_name(name: &str) -> String {
    truncate(&escape_controls(&truncate(name, MAX_NAME_BYTES)), MAX_NAME_BYTES).into_owned()
}

/// Escapes a text of several lines, each truncated to `most` characters.
///
/// ```
/// assert_eq!(warpyard_api::text::escape_lines("one\n\u{1b}[2Jtwo\n", 5), "one\n\\u{1b…\n");
/// ```
pub fn escape_lines(text: &str, most: usize) -> String {
    let line = |line: &str| match line.strip_suffix('\n') {
        Some(line) => format!("{}\n", truncate(&escape_controls(&truncate(line, most)), most)),
        None => truncate(&escape_controls(&truncate(line, most)), most).into_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Whether a pattern matches the whole of a text: `*` stands for any characters, `?` for any one.
///
/// ```
/// use warpyard_api::text::glob_matches;
/// assert!(glob_matches("train-*", "train-7b") && glob_matches("t??in", "train") && glob_matches("*a*n", "train again"));
/// assert!(!glob_matches("train", "training") && !glob_matches("?", ""));
/// ```
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Backtracking: the position of the last `*` and of the text it extends to. On a mismatch it takes one character more.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => (star, p) = (Some((p, t)), p + 1),
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Truncates a text to `most` characters, with an ellipsis where it was cut.
pub fn truncate(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// The known word closest to a misspelt one, by edit distance; `None` if none is close.
///
/// ```
/// assert_eq!(warpyard_api::text::closest_match("gpu_memroy", ["gpus", "gpu_memory"]), Some("gpu_memory"));
/// assert_eq!(warpyard_api::text::closest_match("colour", ["gpus", "gpu_memory"]), None);
/// ```
pub fn closest_match<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The edit distance takes time quadratic in the length, and no misspelt word is this long.
    if wrong.len() > 64 {
        return None;
    }
    let plain = |word: &str| word.to_lowercase().replace(['-', ' '], "_");
    let wrong = plain(wrong);
    let length = wrong.chars().count();
    let near = |word: &str| {
        let other = word.chars().count();
        let most = length.max(other) / 3;
        if length.abs_diff(other) > most {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&wrong, &plain(word));
        (distance <= most).then_some(distance)
    };
    known
        .into_iter()
        .filter_map(|word| Some((near(word)?, word)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, w)| w)
}
