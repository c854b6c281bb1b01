//! A document as a tree of values with their positions, parsed from TOML, JSON or a JSON value. What the values mean
//! is not here.

use super::MAX_DOCUMENT_BYTES;
use crate::problem::{MAX_PROBLEMS, Problem, code};
use std::cell::OnceCell;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The deepest nesting of lists and tables.
const MAX_DEPTH: usize = 16;

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format by the file's extension, or else by how the text starts.
    pub fn of(filename: &str, text: &str) -> Self {
        match filename.rsplit_once('.').map(|(_, ending)| ending) {
            Some("json") => Self::Json,
            Some("toml") => Self::Toml,
            _ if text.trim_start().starts_with('{') => Self::Json,
            _ => Self::Toml,
        }
    }
}

/// A value and its offset.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) start: usize,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    Date,
    Array(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_start: usize,
    pub(super) node: Node,
}

impl Value {
    /// The type for messages: "expected a list, found …".
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a decimal number",
            Self::String(_) => "a text",
            Self::Date => "a date",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// The path of a value in a document, as a chain, so that nothing is formatted unless there is a problem.
#[derive(Clone, Copy)]
pub(super) enum FieldPath<'a> {
    Root,
    Field(&'a FieldPath<'a>, &'a str),
    Item(&'a FieldPath<'a>, usize),
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root => Ok(()),
            FieldPath::Field(FieldPath::Root, key) => write_key(f, key),
            FieldPath::Field(parent, key) => write!(f, "{parent}.").and_then(|()| write_key(f, key)),
            FieldPath::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

fn write_key(f: &mut impl fmt::Write, key: &str) -> fmt::Result {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !key.is_empty() && key.bytes().all(bare) { f.write_str(key) } else { write!(f, "{key:?}") }
}

/// Parses a text into a tree; syntax errors become problems with their lines.
pub(super) fn parse(text: &str, format: Format) -> Result<Node, Vec<Problem>> {
    let lines = Lines::new(text);
    let syntax = |message: &str, offset: usize| {
        let mut problem = Problem::new(code::SYNTAX, "", message);
        problem.line = Some(lines.number(offset));
        problem
    };
    match format {
        Format::Toml => {
            let (table, errors) = DeTable::parse_recoverable(text);
            if !errors.is_empty() {
                let problem = |e: &toml::de::Error| {
                    let message = e.message().trim_end_matches(", expected nothing");
                    syntax(&format!("not TOML: {message}"), e.span().map_or(text.len(), |s| s.start))
                };
                let mut problems: Vec<Problem> = errors.iter().map(problem).collect();
                // What follows on the same line is mostly said of the first mistake again.
                problems.dedup_by_key(|problem| problem.line);
                problems.truncate(MAX_PROBLEMS);
                return Err(problems);
            }
            Ok(from_toml_table(table.get_ref(), table.span().start))
        }
        Format::Json => {
            if let Err(e) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
                let message = e.to_string();
                let message =
                    message.rsplit_once(" at line").map_or(message.as_str(), |(message, _)| message);
                let mut problem = syntax(&format!("not JSON: {message}"), 0);
                problem.line = Some(u32::try_from(e.line().max(1)).unwrap_or(u32::MAX));
                return Err(vec![problem]);
            }
            let mut scanner = Scanner { text, at: 0 };
            scanner.value(0).map_err(|TooDeep(offset)| {
                let mut problem =
                    Problem::new(code::NESTED_TOO_DEEPLY, "", "nested deeper than any document needs");
                problem.line = Some(lines.number(offset));
                vec![problem]
            })
        }
    }
}

fn from_toml_table(table: &DeTable<'_>, start: usize) -> Node {
    let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key_start = key.span().start;
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        Entry { key: key.clone().into_owned(), key_start, node: from_toml(value) }
    };
    let mut entries: Vec<Entry> = table.iter().map(entry).collect();
    // The map sorts by key; problems are told in the order they were written.
    entries.sort_by_key(|entry| entry.key_start);
    Node { start, value: Value::Table(entries) }
}

fn from_toml(spanned: &Spanned<DeValue<'_>>) -> Node {
    let start = spanned.span().start;
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::String(text.clone().into_owned()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Float(f64::INFINITY),
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::Array(items.iter().map(from_toml).collect()),
        DeValue::Table(table) => return from_toml_table(table, start),
    };
    Node { start, value }
}

/// The tree of a JSON value, without positions.
pub(super) fn from_json_value(value: &serde_json::Value) -> Node {
    use serde_json::Value as Json;
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => from_json_number(number),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => Value::Array(items.iter().map(from_json_value).collect()),
        Json::Object(map) => Value::Table(
            map.iter()
                .map(|(key, value)| Entry { key: key.clone(), key_start: 0, node: from_json_value(value) })
                .collect(),
        ),
    };
    Node { start: 0, value }
}

fn from_json_number(number: &serde_json::Number) -> Value {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    whole.map_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN)), Value::Integer)
}

/// Scans well-formed JSON for positions; scalars are left to `serde_json`.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

struct TooDeep(usize);

impl Scanner<'_> {
    fn value(&mut self, depth: usize) -> Result<Node, TooDeep> {
        self.skip_space();
        let start = self.at;
        if depth > MAX_DEPTH {
            return Err(TooDeep(start));
        }
        let value = match self.peek() {
            b'[' => {
                let mut items = Vec::new();
                while self.another(b']') {
                    items.push(self.value(depth + 1)?);
                }
                Value::Array(items)
            }
            b'{' => {
                let mut entries = Vec::new();
                while self.another(b'}') {
                    self.skip_space();
                    let key_start = self.at;
                    let key = self.string();
                    self.skip_space();
                    self.at += 1; // the colon
                    entries.push(Entry { key, key_start, node: self.value(depth + 1)? });
                }
                Value::Table(entries)
            }
            b'"' => Value::String(self.string()),
            _ => {
                let end = self.text[start..].find([',', ']', '}', ' ', '\t', '\r', '\n']);
                self.at = end.map_or(self.text.len(), |length| start + length);
                let token = &self.text[start..self.at];
                if let Ok(number) = token.parse() {
                    return Ok(Node { start, value: Value::Integer(number) });
                }
                match serde_json::from_str(token) {
                    Ok(serde_json::Value::Bool(truth)) => Value::Bool(truth),
                    Ok(serde_json::Value::Number(number)) => from_json_number(&number),
                    Ok(_) => Value::Null,
                    // Well formed, but no number this large exists.
                    Err(_) => Value::Float(f64::INFINITY),
                }
            }
        };
        Ok(Node { start, value })
    }

    /// Skips the opening bracket or a comma; false after the closing bracket.
    fn another(&mut self, close: u8) -> bool {
        self.skip_space();
        let opening = matches!(self.peek(), b'[' | b'{');
        let ended = self.peek() == close;
        self.at += 1;
        self.skip_space();
        if opening && self.peek() == close {
            self.at += 1;
            return false;
        }
        !ended
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while self.peek() != b'"' {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        // A lone surrogate is the one thing the syntax check lets through.
        serde_json::from_str(&self.text[start..self.at]).unwrap_or_else(|_| "\u{0}".to_owned())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    /// The next byte; 0 past the end.
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

/// The offsets of a text's lines.
pub(super) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Self { starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// The line of an offset, counted from 1.
    pub(super) fn number(&self, offset: usize) -> u32 {
        u32::try_from(self.starts.partition_point(|start| *start <= offset)).unwrap_or(u32::MAX)
    }
}

/// The text of a document, for quoting the line of a problem.
pub(crate) struct Source<'a> {
    filename: &'a str,
    text: &'a str,
    lines: Lines,
    /// Parsed only for a problem with a path but no line, which the server reported.
    root: OnceCell<Option<Node>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(filename: &'a str, text: &'a str) -> Self {
        Self { filename, text, lines: Lines::new(text), root: OnceCell::new() }
    }

    pub(crate) fn filename(&self) -> &str {
        self.filename
    }

    /// The number and text of a problem's line: the one it names, or the one its path leads to.
    pub(crate) fn line_of(&self, problem: &Problem) -> Option<(u32, &'a str)> {
        let number = problem.line.or_else(|| {
            let fits = self.text.len() <= MAX_DOCUMENT_BYTES;
            let parsed =
                || fits.then(|| parse(self.text, Format::of(self.filename, self.text)).ok()).flatten();
            let offset = offset_of(self.root.get_or_init(parsed).as_ref()?, &problem.path)?;
            Some(self.lines.number(offset))
        })?;
        Some((number, self.text.lines().nth(number as usize - 1)?))
    }
}

/// The offset of the value at a path, or of the innermost existing one around it.
pub(super) fn offset_of(root: &Node, path: &str) -> Option<usize> {
    // A one-task job may be written without `tasks`.
    let has_tasks = matches!(&root.value, Value::Table(entries) if entries.iter().any(|e| e.key == "tasks"));
    let path = if has_tasks { path } else { path.strip_prefix("tasks[0].").unwrap_or(path) };
    let (mut node, mut rest, mut offset) = (root, path, None);
    while !rest.is_empty() {
        let step = match &node.value {
            Value::Table(entries) => entries.iter().find_map(|entry| {
                let mut key = String::new();
                write_key(&mut key, &entry.key).ok()?;
                let rest = rest.strip_prefix(key.as_str())?;
                let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                ends.then_some((entry.key_start, &entry.node, rest))
            }),
            Value::Array(items) => rest.strip_prefix('[').and_then(|rest| {
                let (index, rest) = rest.split_once(']')?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                Some((item.start, item, rest))
            }),
            _ => None,
        };
        let Some((found, inner, after)) = step else { break };
        (offset, node, rest) = (Some(found), inner, after.strip_prefix('.').unwrap_or(after));
    }
    offset
}
