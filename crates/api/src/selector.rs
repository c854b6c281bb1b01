//! Selectors, by which requests name jobs and tasks: `412`, `412.train`, `412.train[3]`, `412.train.3`, `last.train[4]`,
//! `3-7`, `3,5`, `last`, `all`. The server resolves them; it also decides whether `train.3` is a task's name or an index.

use crate::quantity::{ArraySpec, QuantityError};
use std::fmt;
use std::str::FromStr;

/// The most index ranges in one part of a selector.
const MAX_RANGES: usize = 1_000;

/// A selection of jobs and tasks.
///
/// ```
/// use warpyard_api::selector::{Selector, SelectorPart};
/// let selector: Selector = "3-7,412.train[3],last".parse()?;
/// assert_eq!(selector.parts()[0], SelectorPart::Range { first: 3, last: 7 });
/// assert_eq!(selector.to_string(), "3-7,412.train[3],last");
/// # Ok::<(), warpyard_api::selector::SelectorError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    parts: Vec<SelectorPart>,
}

/// One part of a selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectorPart {
    /// The job submitted last.
    Last,
    /// Every job.
    All,
    /// The jobs between two ids, both included.
    Range {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// A job, one of its tasks, or some tasks of an array.
    One(TaskRef),
}

/// A job, one of its tasks, or some tasks of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRef {
    /// Id of the job; the caller's last job if absent.
    pub job: Option<u64>,
    /// Name of the task; all tasks if absent.
    pub task: Option<String>,
    /// Array indices; all if absent.
    pub indices: Option<ArraySpec>,
}

/// Why a text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text, or a part of it, is empty.
    #[error("nothing is selected; write a job's id, such as 412")]
    Empty,
    /// A part is neither an id nor a keyword.
    #[error("'{0}' selects nothing; write 412, 412.train, 412.train[3], 412.train.3, 3-7, last or all")]
    Unknown(String),
    /// A range that ends before it starts.
    #[error("the range '{0}' ends before it starts")]
    Reversed(String),
    /// Array indices cannot be parsed.
    #[error("the indices of '{text}' are wrong")]
    BadIndices {
        /// What was written.
        text: String,
        /// What is wrong with it.
        source: QuantityError,
    },
    /// More ranges of indices than one request may name.
    #[error("more than {MAX_RANGES} ranges of indices of '{0}' are too many for one request")]
    TooMany(String),
    /// Several jobs, where one is required.
    #[error("'{0}' selects more than one job; name one")]
    NotOne(String),
}

impl Selector {
    /// The parts, in the order written; there is at least one.
    pub fn parts(&self) -> &[SelectorPart] {
        &self.parts
    }

    /// The one part there is, for requests about one job or task.
    pub fn one(&self) -> Result<&SelectorPart, SelectorError> {
        match self.parts.as_slice() {
            [only @ (SelectorPart::Last | SelectorPart::One(_))] => Ok(only),
            _ => Err(SelectorError::NotOne(self.to_string())),
        }
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        split_outside_brackets(text)
            .into_iter()
            .map(part)
            .collect::<Result<_, _>>()
            .map(|parts| Self { parts })
    }
}

/// Splits at commas, but not at those between indices.
fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn part(text: &str) -> Result<SelectorPart, SelectorError> {
    let text = text.trim();
    match text {
        "" => return Err(SelectorError::Empty),
        "last" => return Ok(SelectorPart::Last),
        "all" => return Ok(SelectorPart::All),
        _ => {}
    }
    if let Some((first, last)) = text.split_once('-')
        && let (Some(first), Some(last)) = (id(first), id(last))
    {
        let in_order = first <= last;
        return in_order
            .then_some(SelectorPart::Range { first, last })
            .ok_or_else(|| SelectorError::Reversed(text.to_owned()));
    }
    task(text).map(SelectorPart::One)
}

fn task(text: &str) -> Result<TaskRef, SelectorError> {
    let unknown = || SelectorError::Unknown(text.to_owned());
    let (name, indices) = match text.strip_suffix(']') {
        None => (text, None),
        Some(open) => {
            let (name, indices) = open.split_once('[').ok_or_else(unknown)?;
            let wrong = |source| SelectorError::BadIndices { text: text.to_owned(), source };
            let indices: ArraySpec = indices.parse().map_err(wrong)?;
            if indices.at_once().is_some() {
                return Err(unknown());
            }
            (name, Some(indices))
        }
    };
    let (job, task) = name.split_once('.').map_or((name, None), |(job, task)| (job, Some(task)));
    if task.is_some_and(|task| crate::text::name_fault(task).is_some() || task.contains(['[', ']', ','])) {
        return Err(unknown());
    }
    let job = if job == "last" { None } else { Some(id(job).ok_or_else(unknown)?) };
    if indices.as_ref().is_some_and(|indices| indices.ranges().len() > MAX_RANGES) {
        return Err(SelectorError::TooMany(name.to_owned()));
    }
    Ok(TaskRef { job, task: task.map(str::to_owned), indices })
}

fn id(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.parts.iter().enumerate() {
            write!(f, "{}{part}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for SelectorPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last => f.write_str("last"),
            Self::All => f.write_str("all"),
            Self::Range { first, last } => write!(f, "{first}-{last}"),
            Self::One(task) => task.fmt(f),
        }
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            Some(job) => write!(f, "{job}")?,
            None => f.write_str("last")?,
        }
        self.task.as_ref().map_or(Ok(()), |task| write!(f, ".{task}"))?;
        self.indices.as_ref().map_or(Ok(()), |indices| write!(f, "[{indices}]"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn selectors_people_write() {
        let one = |text: &str| match text.parse::<Selector>().unwrap().one().unwrap().clone() {
            SelectorPart::One(task) => {
                (task.job, task.task, task.indices.map(|i| i.iter().collect::<Vec<_>>()))
            }
            other => panic!("{other}"),
        };
        assert_eq!(one("412"), (Some(412), None, None));
        assert_eq!(one("412.train"), (Some(412), Some("train".into()), None));
        assert_eq!(one("412.train[3]"), (Some(412), Some("train".into()), Some(vec![3])));
        assert_eq!(one("412.train.3"), (Some(412), Some("train.3".into()), None));
        assert_eq!(one("last.train[4]"), (None, Some("train".into()), Some(vec![4])));
        assert_eq!(one("last[4]"), (None, None, Some(vec![4])));
        assert_eq!(one("412[1,3-4]"), (Some(412), None, Some(vec![1, 3, 4])));
        assert_eq!(one("412.a.b-c d"), (Some(412), Some("a.b-c d".into()), None));
    }

    #[test]
    fn selectors_refused() {
        let refusal = |text: &str| text.parse::<Selector>().unwrap_err().to_string();
        assert_eq!(refusal(""), "nothing is selected; write a job's id, such as 412");
        assert_eq!(refusal("3,,4"), "nothing is selected; write a job's id, such as 412");
        assert_eq!(refusal("7-3"), "the range '7-3' ends before it starts");
        let grammar = "selects nothing; write 412, 412.train, 412.train[3], 412.train.3, 3-7, last or all";
        for wrong in
            ["train", "-3", "412.", ".train", "412.train[3", "412]", "+3", "412[1%2]", "99999999999999999999"]
        {
            assert_eq!(refusal(wrong), format!("'{wrong}' {grammar}"));
        }
        assert_eq!(refusal("412[x]"), "the indices of '412[x]' are wrong");
        let several: Selector = "3-7".parse().unwrap();
        assert_eq!(several.one().unwrap_err().to_string(), "'3-7' selects more than one job; name one");
    }

    fn parts() -> impl Strategy<Value = SelectorPart> {
        let indices =
            (0u32..9, 0u32..9).prop_map(|(first, more)| ArraySpec::new([(first, first + more, 1)], None));
        prop_oneof![
            Just(SelectorPart::Last),
            Just(SelectorPart::All),
            (0u64..100, 0u64..100)
                .prop_map(|(first, more)| SelectorPart::Range { first, last: first + more }),
            (any::<Option<u64>>(), prop::option::of("[a-z][a-z.% /é-]{0,5}[a-z]"), prop::option::of(indices))
                .prop_filter("plain `last` is a part of its own", |(job, task, indices)| {
                    job.is_some() || task.is_some() || indices.is_some()
                })
                .prop_map(|(job, task, indices)| {
                    SelectorPart::One(TaskRef {
                        job,
                        task,
                        indices: indices.map(|array| array.expect("a range")),
                    })
                }),
        ]
    }

    proptest! {
        #[test]
        fn printed_selectors_parse_to_themselves(parts in prop::collection::vec(parts(), 1..4)) {
            let selector = Selector { parts };
            prop_assert_eq!(selector.to_string().parse(), Ok(selector));
        }

        #[test]
        fn no_text_panics(text in "[-0-9.,\\[\\]a%l ]{0,16}|\\PC{0,12}") {
            let _ = text.parse::<Selector>();
        }
    }
}
