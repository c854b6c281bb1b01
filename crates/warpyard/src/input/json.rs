//! JSON input with errors that name the path of the field, also for non-finite numbers.

use crate::input::bad_file;
use crate::usage_error::UsageError;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Non-finite numbers as Python writes them, which are no JSON.
const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];

#[derive(Debug, thiserror::Error)]
#[error("{path} is {word}, which is no number")]
struct NotANumber {
    path: String,
    word: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}")]
struct FieldError {
    path: String,
    error: serde_json::Error,
}

/// Parses a file's text; an error names the path of the field.
pub(crate) fn parse_json<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, UsageError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        match find_non_number(text) {
            Some(found) => bad_file(file, found),
            // Text that is no JSON breaks off somewhere inside; where that is, line and column say.
            None if path == "." || !error.is_data() => bad_file(file, error),
            None => bad_file(file, FieldError { path, error }),
        }
    })?;
    json.end().map_err(|error| bad_file(file, error))?;
    Ok(read)
}

/// The first of those words that stands for a value, and where.
fn find_non_number(text: &str) -> Option<NotANumber> {
    WORDS.into_iter().find_map(|word| {
        // Something that no text says by accident.
        let mark = format!("\u{1}{word}");
        let value: Value = serde_json::from_str(&outside_of_strings(text, word, &mark)?).ok()?;
        let path = path_to(&value, &mark)?;
        Some(NotANumber { path: path.trim_start_matches('.').to_owned(), word })
    })
}

/// The text with a word replaced by a string, where it does not stand in one; none where it does not occur.
fn outside_of_strings(text: &str, word: &str, by: &str) -> Option<String> {
    let (mut out, mut rest, mut found) = (String::new(), text, false);
    while let Some(next) = rest.chars().next() {
        let taken = if next == '"' {
            string_length(rest)
        } else if rest.starts_with(word) {
            found = true;
            out.push_str(&Value::from(by).to_string());
            rest = &rest[word.len()..];
            continue;
        } else {
            next.len_utf8()
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    found.then_some(out)
}

/// The length of the string literal at the start of a text, quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().enumerate().skip(1).find(|&(_, byte)| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The way to the value that is marked: `.jobs[1].speeds[0]`.
fn path_to(value: &Value, mark: &str) -> Option<String> {
    let inner = |step: String, value: &Value| path_to(value, mark).map(|path| step + &path);
    match value {
        Value::String(text) => (text == mark).then(String::new),
        Value::Array(values) => {
            values.iter().enumerate().find_map(|(at, value)| inner(format!("[{at}]"), value))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| inner(format!(".{name}"), value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_named_by_where_it_is() {
        let said = |text: &str| parse_json::<Value>("f.json", text).unwrap_err().to_string();
        let text = r#"{"name": "NaN \" NaN", "jobs": [{"speeds": [1, 2]}, {"speeds": [1, NaN]}]}"#;
        assert_eq!(said(text), "f.json: jobs[1].speeds[1] is NaN, which is no number");
        assert_eq!(said("[-Infinity]"), "f.json: [0] is -Infinity, which is no number");
        assert_eq!(said("[1, Infinity]"), "f.json: [1] is Infinity, which is no number");
        assert!(said("[1, oops]").contains("line 1 column 5"), "{}", said("[1, oops]"));
        assert!(said(r#"["NaN"#).contains("EOF"));
        assert!(said("[1] 2").contains("trailing characters"));
    }

    #[test]
    fn what_is_of_the_wrong_kind_is_named_by_where_it_is() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only read")]
        struct Job {
            speeds: Vec<f64>,
        }
        let said = |text: &str| {
            parse_json::<std::collections::BTreeMap<String, Vec<Job>>>("f.json", text)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            said(r#"{"jobs": [{"speeds": [1]}, {"speeds": [1, "two"]}]}"#),
            r#"f.json: jobs[1].speeds[1]: invalid type: string "two", expected f64 at line 1 column 47"#
        );
        assert!(
            said(r#"{"jobs": [{"sped": [1]}]}"#).starts_with("f.json: jobs[0].sped: unknown field `sped`")
        );
    }
}
