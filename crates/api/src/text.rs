//! Text that came from elsewhere: what may be a name, how it is shown on a terminal without being obeyed by it, and which
//! known word a wrong one was meant to be.

use std::borrow::Cow;
use std::fmt::Write;

/// The most bytes a name may have.
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
    let wrong = name.chars().find(|c| !is_plain(*c))?;
    Some(format!("has a character that cannot be printed (U+{:04X})", wrong as u32))
}

/// Whether a character shows as itself: no control, no change of writing direction, no line break, and not nothing at all,
/// by which two names would look alike. What joins letters and signs in some writing is left alone.
fn is_plain(c: char) -> bool {
    let directs =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    let unseen =
        matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !directs && !breaks && !unseen
}

/// The text with everything that a terminal might obey written out.
///
/// ```
/// assert_eq!(warpyard_api::text::escape_controls("red \u{1b}[31m"), "red \\u{1b}[31m");
/// ```
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("    "),
            c if is_plain(c) => out.push(c),
            c => write!(out, "{}", c.escape_unicode()).expect("a string takes all"),
        }
    }
    Cow::Owned(out)
}

/// A name that stands among other words: the same, and cut where it is longer than any name is.
pub fn escape_name(name: &str) -> String {
    truncate(&escape_controls(&truncate(name, MAX_NAME_BYTES)), MAX_NAME_BYTES).into_owned()
}

/// The same for a text of several lines, each cut to at most so many characters.
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

/// Whether a text is of a pattern, all of it: `*` stands for any characters, `?` for any one.
///
/// ```
/// use warpyard_api::text::glob_matches;
/// assert!(glob_matches("train-*", "train-7b") && glob_matches("t??in", "train") && glob_matches("*a*n", "train again"));
/// assert!(!glob_matches("train", "training") && !glob_matches("?", ""));
/// ```
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where the last `*` stands and how much it has taken; where the rest does not fit it takes one more.
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

/// The text cut to at most so many characters, with a mark where it was cut.
pub fn truncate(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// The known word that a wrong one was most likely meant to be.
///
/// ```
/// assert_eq!(warpyard_api::text::closest_match("gpu_memroy", ["gpus", "gpu_memory"]), Some("gpu_memory"));
/// assert_eq!(warpyard_api::text::closest_match("colour", ["gpus", "gpu_memory"]), None);
/// ```
pub fn closest_match<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes time with the product of the lengths; nobody's slip of the pen is this long.
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
