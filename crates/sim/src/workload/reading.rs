//! What reading a workload gives: jobs, rows that are none, what was left out on purpose, and what should be known.
//! Nothing is dropped without being counted here.

use super::TraceJob;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::fmt;

/// What was read.
#[derive(Debug, Default)]
pub struct ParsedTrace {
    /// The jobs, each with where it begins.
    pub jobs: Vec<(Location, TraceJob)>,
    /// Rows that could not be read.
    pub bad: Vec<RowError>,
    /// What was left out on purpose: why, and how many rows.
    pub left_out: BTreeMap<&'static str, u64>,
    /// How something was understood that could be understood otherwise.
    pub notes: Vec<String>,
}

/// Where something is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// On this line, counted from 1.
    Line(usize),
    /// In a list, the so-manieth, which begins on this line; both counted from 1.
    Entry {
        /// Where it begins.
        line: usize,
        /// Which it is.
        entry: usize,
    },
}

impl Location {
    /// The line it is on.
    pub fn line(self) -> usize {
        match self {
            Location::Line(line) | Location::Entry { line, .. } => line,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Line(line) => write!(f, "line {line}"),
            Location::Entry { line, entry } => write!(f, "line {line}, entry {entry}"),
        }
    }
}

/// A row that is none.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct RowError {
    /// Where.
    pub place: Location,
    /// What is wrong with it.
    #[source]
    pub why: RowProblem,
}

/// What is wrong with a row.
#[derive(Debug, thiserror::Error)]
pub enum RowProblem {
    /// The file cannot be read there.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] csv::Error),
    /// It is no JSON, or not that of a job.
    #[error("{}", without_place(.0))]
    Json(#[from] serde_json::Error),
    /// It has too few or too many columns.
    #[error("{found} column{} instead of {wanted}", if *.found == 1 { "" } else { "s" })]
    Columns {
        /// How many it has.
        found: usize,
        /// How many it should have.
        wanted: usize,
    },
    /// A column holds something else than it should.
    #[error("{column}: '{text}' is not {wanted}")]
    Value {
        /// In which column.
        column: &'static str,
        /// What stands there.
        text: String,
        /// What should.
        wanted: &'static str,
    },
    /// A column that is needed is empty.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Tasks of one job are not together.
    #[error("job '{job}' began on line {began} and ended before this one; put its tasks together")]
    Scattered {
        /// Which.
        job: String,
        /// Where it began.
        began: usize,
    },
    /// A task waits for one that is not there.
    #[error("after: no task '{0}' stands above in the same job")]
    NoSuchTask(String),
    /// Two tasks of a job have the same name.
    #[error("task: there is a '{0}' in this job already")]
    SameName(String),
    /// A job without tasks.
    #[error("a job with no tasks")]
    NoTasks,
}

/// What is wrong with JSON, without where in the entry that is: the place of the entry is told.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or_else(|| text.clone(), |(what, _)| what.to_owned())
}

/// A file that is not of the form it should have.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// There is nothing in it.
    #[error("line 1: nothing is written here")]
    Empty,
    /// A column that nothing is known of.
    #[error("line 1: no column is called '{found}' (there are {known})")]
    UnknownColumn {
        /// What was found.
        found: String,
        /// What there is.
        known: String,
    },
    /// A column that is needed.
    #[error("line 1: no column {0}; it is needed")]
    NoColumn(&'static str),
    /// The same column twice.
    #[error("line 1: the column {0} stands there twice")]
    Twice(String),
    /// It is not JSON, or not that of such a file.
    #[error("line {line}: {source}", line = source.line())]
    Json {
        /// What is wrong.
        #[from]
        source: serde_json::Error,
    },
    /// The heading cannot be read.
    #[error("line 1: {0}")]
    Heading(#[from] csv::Error),
}

impl ParsedTrace {
    /// Counts a row that is left out on purpose.
    pub(crate) fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }

    /// Enters a row: a job, or what is wrong with it.
    pub(crate) fn enter(&mut self, place: Location, row: Result<TraceJob, RowProblem>) {
        match row {
            Ok(job) => self.jobs.push((place, job)),
            Err(why) => self.bad.push(RowError { place, why }),
        }
    }

    /// Puts jobs in order of submission and counts time from the first of them; gives by how many seconds.
    pub(crate) fn count_from_the_first(&mut self) -> f64 {
        self.put_in_order();
        let first = self.jobs.first().map_or(0.0, |(_, job)| job.submitted);
        for (_, job) in &mut self.jobs {
            job.submitted -= first;
        }
        first
    }

    /// Puts jobs in order of submission; those of one moment stay as they were.
    pub fn put_in_order(&mut self) {
        self.jobs.sort_by(|(_, a), (_, b)| a.submitted.total_cmp(&b.submitted));
    }
}

/// The entries of a JSON list, each as it is written and where; an error where it is no list.
pub(crate) fn entries(text: &str) -> Result<Vec<(Location, &str)>, TraceError> {
    serde_json::from_str::<Vec<IgnoredAny>>(text)?;
    let (mut entries, mut line) = (Vec::new(), 1);
    let mut rest = text.trim_start().strip_prefix('[').unwrap_or_default();
    let mut counted = text.len() - rest.len();
    line += text[..counted].matches('\n').count();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(']') {
            return Ok(entries);
        }
        let begin = text.len() - rest.len();
        line += text[counted..begin].matches('\n').count();
        counted = begin;
        // Numbers and words go up to what follows them; everything else says where it ends.
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        let length = match values.next() {
            Some(Ok(_)) => values.byte_offset(),
            _ => rest.find([',', ']']).unwrap_or(rest.len()),
        };
        let (entry, after) = rest.split_at(length);
        entries.push((Location::Entry { line, entry: entries.len() + 1 }, entry.trim_end()));
        let after = after.trim_start();
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

/// The longest time that is taken for one, some 3,000 years: what is longer is a mistake, and far longer could not be counted.
const MOST_SECONDS: f64 = 1e11;

/// A number of seconds that is not negative.
pub(crate) fn seconds(column: &'static str, text: &str) -> Result<f64, RowProblem> {
    let text = text.trim();
    match text.parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0) {
        Some(number) if number > MOST_SECONDS => Err(bad(column, text, "a number of seconds up to 1e11")),
        number => number.ok_or_else(|| bad(column, text, "a number of seconds")),
    }
}

/// A size in bytes.
pub(crate) fn bytes(column: &'static str, text: &str) -> Result<u64, RowProblem> {
    whole(column, text).map_err(|_| bad(column, text.trim(), "a whole number of bytes"))
}

/// A whole number.
pub(crate) fn whole<T: std::str::FromStr>(column: &'static str, text: &str) -> Result<T, RowProblem> {
    text.trim().parse().map_err(|_| bad(column, text.trim(), "a whole number in its range"))
}

pub(crate) fn bad(column: &'static str, text: &str, wanted: &'static str) -> RowProblem {
    RowProblem::Value { column, text: text.to_owned(), wanted }
}

/// A name that can stand in every format: a list of them is separated by semicolons, conditions follow colons.
pub(crate) fn plain_name(text: &str) -> String {
    let plain = |c: char| if c.is_control() || matches!(c, ';' | ':' | ',' | '"') { '_' } else { c };
    text.trim().chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_with_their_lines() {
        let text = "\n[ [1, [2]],\n  7, \"a,]\" ,\n\n{\"b\": [1,\n2]},null\n]";
        let found = entries(text).unwrap();
        let found: Vec<_> = found.iter().map(|(place, text)| (place.to_string(), *text)).collect();
        let wanted = [
            ("line 2, entry 1", "[1, [2]]"),
            ("line 3, entry 2", "7"),
            ("line 3, entry 3", "\"a,]\""),
            ("line 5, entry 4", "{\"b\": [1,\n2]}"),
            ("line 6, entry 5", "null"),
        ];
        assert_eq!(found, wanted.map(|(place, text)| (place.to_owned(), text)));
        assert!(entries("[]").unwrap().is_empty());
        assert!(entries("[1,\n2").unwrap_err().to_string().starts_with("line 2: "));
    }
}
