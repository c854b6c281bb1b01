//! Readers of single values: strings, names, numbers, quantities, keywords, devices and dependencies.

use super::Reader;
use crate::job::source::{FieldPath, Node, Value};
use crate::job::{
    Command, DependencyCondition, DeviceRef, EstimateDoc, JobDependency, Preempt, TaskDependency, WEIGHTS,
};
use crate::problem::code;
use crate::quantity::{ByteSize, QuantityError};
use crate::text::name_fault;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The most GPU types an estimate may give seconds for.
const MAX_GPU_TYPES: usize = 64;

impl Reader<'_> {
    pub(super) fn text<'n>(&mut self, at: &FieldPath<'_>, node: &'n Node, expected: &str) -> Option<&'n str> {
        if let Value::String(text) = &node.value {
            return Some(text);
        }
        self.wrong_type(at, node, expected);
        None
    }

    pub(super) fn name(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<String> {
        let name = self.text(at, node, "a name")?;
        self.accept_name(at, node, name, name_fault(name))
    }

    pub(super) fn task_name(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<String> {
        let name = self.text(at, node, "a name")?;
        self.accept_name(at, node, name, task_name_fault(name))
    }

    pub(super) fn accept_name(
        &mut self,
        at: &FieldPath<'_>,
        node: &Node,
        name: &str,
        fault: Option<String>,
    ) -> Option<String> {
        let Some(fault) = fault else { return Some(name.to_owned()) };
        self.wrong(at, node.start, (code::BAD_NAME, format!("the name {fault}")), None);
        None
    }

    /// A string for the system, such as a path or an argument.
    pub(super) fn system_text(&mut self, at: &FieldPath<'_>, node: &Node, expected: &str) -> Option<String> {
        let text = self.text(at, node, expected)?;
        if text.contains('\0') {
            self.wrong(at, node.start, (code::BAD_TEXT, "has a zero byte".to_owned()), None);
            return None;
        }
        Some(text.to_owned())
    }

    pub(super) fn path(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<String> {
        let path = self.system_text(at, node, "a path")?;
        if path.is_empty() {
            self.wrong(at, node.start, (code::BAD_TEXT, "the path is empty".to_owned()), None);
            return None;
        }
        Some(path)
    }

    pub(super) fn command(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<Command> {
        const EXPECTED: &str = "a list of words, or one text for `sh -c`";
        let command = match &node.value {
            Value::Array(items) => {
                let words = items.iter().enumerate();
                let words: Vec<_> = words
                    .map(|(i, item)| self.system_text(&FieldPath::Item(at, i), item, "a text"))
                    .collect();
                Command::List(words.into_iter().collect::<Option<_>>()?)
            }
            _ => Command::Shell(self.system_text(at, node, EXPECTED)?),
        };
        let nothing = match &command {
            Command::List(words) => words.first().is_none_or(|program| program.trim().is_empty()),
            Command::Shell(line) => line.trim().is_empty(),
        };
        if nothing {
            let help = "write the program and its arguments: [\"python\", \"train.py\"]".to_owned();
            self.wrong(
                at,
                node.start,
                (code::EMPTY_COMMAND, "there is nothing to run".to_owned()),
                Some(help),
            );
            return None;
        }
        Some(command)
    }

    pub(super) fn env(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<BTreeMap<String, String>> {
        let mut env = BTreeMap::new();
        for entry in self.table(at, node, "a table of variables")? {
            let at = FieldPath::Field(at, &entry.key);
            if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
                let message = (code::BAD_ENV, "a variable's name is not empty and has no '='".to_owned());
                self.wrong(&at, entry.key_start, message, None);
                continue;
            }
            match &entry.node.value {
                Value::String(text) if text.contains('\0') => {
                    self.wrong(&at, entry.node.start, (code::BAD_ENV, "has a zero byte".to_owned()), None);
                }
                Value::String(text) => drop(env.insert(entry.key.clone(), text.clone())),
                other => {
                    let message = format!("expected a text, found {}", other.kind());
                    let help = Some("put the value in quotes".to_owned());
                    self.wrong(&at, entry.node.start, (code::WRONG_TYPE, message), help);
                }
            }
        }
        Some(env)
    }

    pub(super) fn whole<T: TryFrom<i128>>(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<T> {
        let Value::Integer(number) = node.value else {
            self.wrong_type(at, node, "a whole number");
            return None;
        };
        let fitting = T::try_from(number).ok();
        if fitting.is_none() {
            let problem = match number {
                ..0 => (code::NEGATIVE, format!("{number} is negative")),
                _ => (code::TOO_LARGE, format!("{number} is too large")),
            };
            self.wrong(at, node.start, problem, None);
        }
        fitting
    }

    pub(super) fn positive(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<u64> {
        let number = self.whole(at, node)?;
        if number == 0 {
            self.wrong(at, node.start, (code::ZERO, "must be more than zero".to_owned()), None);
            return None;
        }
        Some(number)
    }

    pub(super) fn estimate(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<EstimateDoc> {
        const FIELDS: [&str; 4] = ["peak", "context", "graph", "seconds"];
        let (mut estimate, mut peak) = (EstimateDoc::default(), None);
        let entries = self.table(at, node, "a table of an estimate's fields")?;
        for entry in &entries {
            let (at, node) = (FieldPath::Field(at, &entry.key), &entry.node);
            match entry.key.as_str() {
                "peak" => peak = self.more_than_zero(&at, node, SIZE, |size: &ByteSize| size.0),
                "context" => estimate.context = self.quantity(&at, node, SIZE),
                "graph" => estimate.graph = self.name(&at, node),
                "seconds" => estimate.seconds = self.seconds(&at, node).unwrap_or_default(),
                _ => self.unknown(&at, entry, "an estimate", &FIELDS),
            }
        }
        if !entries.iter().any(|entry| entry.key == "peak") {
            let message = (code::MISSING_FIELD, "an estimate needs a peak".to_owned());
            let help =
                "`warpyard estimate MODEL --json` has it, as inference_peak_bytes and training_peak_bytes";
            self.wrong(&FieldPath::Field(at, "peak"), node.start, message, Some(help.to_owned()));
        }
        Some(EstimateDoc { peak: peak?, ..estimate })
    }

    /// Seconds by GPU type.
    fn seconds(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<BTreeMap<String, f64>> {
        let entries = self.table(at, node, "a table of seconds by GPU type")?;
        if entries.len() > MAX_GPU_TYPES {
            let message =
                format!("{} GPU types are more than may be listed ({MAX_GPU_TYPES})", entries.len());
            self.wrong(at, node.start, (code::TOO_LARGE, message), None);
            return None;
        }
        let mut seconds = BTreeMap::new();
        for entry in entries {
            let at = FieldPath::Field(at, &entry.key);
            let number = match entry.node.value {
                Value::Integer(number) => number as f64,
                Value::Float(number) => number,
                _ => {
                    self.wrong_type(&at, &entry.node, "a number of seconds");
                    continue;
                }
            };
            if let Some(fault) = name_fault(&entry.key) {
                self.wrong(&at, entry.key_start, (code::BAD_NAME, format!("the name {fault}")), None);
            } else if number.is_finite() && number > 0.0 {
                seconds.insert(entry.key.clone(), number);
            } else {
                let message = format!("{number} is not a number of seconds above zero");
                self.wrong(&at, entry.node.start, (code::OUT_OF_RANGE, message), None);
            }
        }
        Some(seconds)
    }

    pub(super) fn weight(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<f64> {
        let weight = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => {
                self.wrong_type(at, node, "a number");
                return None;
            }
        };
        let problem = match weight {
            _ if WEIGHTS.contains(&weight) => return Some(weight),
            0.0 => (code::ZERO, "must be more than zero".to_owned()),
            _ if weight > 0.0 => {
                let (least, most) = (WEIGHTS.start(), WEIGHTS.end());
                (code::OUT_OF_RANGE, format!("{weight:e} is not between {least} and {most}"))
            }
            _ => (code::NEGATIVE, format!("{weight} is not a number above zero")),
        };
        self.wrong(
            at,
            node.start,
            problem,
            Some("a job of weight 2 gets twice the share of one of weight 1".to_owned()),
        );
        None
    }

    pub(super) fn truth(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<bool> {
        let Value::Bool(truth) = node.value else {
            self.wrong_type(at, node, "true or false");
            return None;
        };
        Some(truth)
    }

    pub(super) fn quantity<T: FromStr<Err = QuantityError>>(
        &mut self,
        at: &FieldPath<'_>,
        node: &Node,
        syntax: QuantitySyntax,
    ) -> Option<T> {
        let parsed = match &node.value {
            Value::String(text) => text.parse(),
            // In JSON, which programs write, a whole number is one of bytes.
            Value::Integer(number) if syntax.is_size() && self.json => format!("{number}B").parse(),
            Value::Integer(number) if syntax.takes_whole => number.to_string().parse(),
            Value::Float(number) if syntax.takes_decimals => number.to_string().parse(),
            _ => {
                self.wrong_type(at, node, syntax.expected);
                return None;
            }
        };
        let error = match parsed {
            Ok(quantity) => return Some(quantity),
            Err(error) => error,
        };
        let code = match &error {
            QuantityError::Negative(_) => code::NEGATIVE,
            QuantityError::TooLarge(_) => code::TOO_LARGE,
            QuantityError::NoneAtOnce => code::NONE_AT_ONCE,
            QuantityError::DuplicateIndex(_) => code::DUPLICATE_INDEX,
            QuantityError::TooManyTasks(_) | QuantityError::TooManyRanges | QuantityError::TooInterleaved => {
                code::ARRAY_TOO_LARGE
            }
            _ => syntax.code,
        };
        let help = match &error {
            QuantityError::Negative(_)
            | QuantityError::TooLarge(_)
            | QuantityError::DuplicateIndex(_)
            | QuantityError::NoSizeUnit { .. } => None,
            QuantityError::NoneAtOnce => Some("leave it out, or let at least one run: %1".to_owned()),
            QuantityError::TooManyTasks(_) | QuantityError::TooManyRanges | QuantityError::TooInterleaved => {
                Some("submit several jobs".to_owned())
            }
            QuantityError::NoUnit(number) if number.bytes().all(|b| b.is_ascii_digit()) => {
                Some(format!("say the unit: \"{number}s\" is seconds, \"{number}m\" minutes"))
            }
            QuantityError::AmbiguousUnit(prefix) => {
                let prefix = prefix.to_uppercase();
                Some(format!("write {prefix}iB for powers of 1024, {prefix}B for powers of 1000"))
            }
            _ => Some(syntax.help.to_owned()),
        };
        self.wrong(at, node.start, (code, error.to_string()), help);
        None
    }

    pub(super) fn more_than_zero<T: FromStr<Err = QuantityError>>(
        &mut self,
        at: &FieldPath<'_>,
        node: &Node,
        syntax: QuantitySyntax,
        amount: fn(&T) -> u64,
    ) -> Option<T> {
        let quantity = self.quantity(at, node, syntax)?;
        if amount(&quantity) == 0 {
            self.wrong(at, node.start, (code::ZERO, "must be more than zero".to_owned()), None);
            return None;
        }
        Some(quantity)
    }

    pub(super) fn word<T: Copy>(
        &mut self,
        at: &FieldPath<'_>,
        node: &Node,
        words: &[(&'static str, T)],
    ) -> Option<T> {
        let known: Vec<&'static str> = words.iter().map(|(word, _)| *word).collect();
        let text = self.text(at, node, &format!("one of {}", known.join(", ")))?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        if found.is_none() {
            let help = self.closest(text, &known).map(|word| format!("did you mean {word}?"));
            let message = format!("'{text}' is not one of {}", known.join(", "));
            self.wrong(at, node.start, (code::UNKNOWN_WORD, message), help);
        }
        found
    }

    pub(super) fn preempt(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<Preempt> {
        let words = [
            ("none", Preempt::None),
            ("freeze", Preempt::Freeze),
            ("requeue", Preempt::Requeue),
            ("yield", Preempt::Yield),
        ];
        self.word(at, node, &words)
    }

    pub(super) fn device(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<DeviceRef> {
        let text = match &node.value {
            Value::Integer(number) => number.to_string(),
            _ => self.text(at, node, "a device")?.to_owned(),
        };
        let device = text.parse().ok();
        if device.is_none() {
            let help = "write its number, or its worker's name and its number: \"gpu1/0\"".to_owned();
            self.wrong(at, node.start, (code::BAD_DEVICE, format!("'{text}' is not a device")), Some(help));
        }
        device
    }

    pub(super) fn one_or_many<T>(
        &mut self,
        at: &FieldPath<'_>,
        node: &Node,
        one: impl Fn(&mut Self, &FieldPath<'_>, &Node) -> Option<T>,
    ) -> Vec<T> {
        match &node.value {
            Value::Array(items) => items
                .iter()
                .enumerate()
                .filter_map(|(i, item)| one(self, &FieldPath::Item(at, i), item))
                .collect(),
            _ => one(self, at, node).into_iter().collect(),
        }
    }

    pub(super) fn task_after(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<TaskDependency> {
        let (task, on) = self.after(at, node, "task", Self::task_name)?;
        Some(TaskDependency { task, on })
    }

    pub(super) fn job_after(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<JobDependency> {
        let (job, on) = self.after(at, node, "job", Self::job_id)?;
        Some(JobDependency { job, on })
    }

    /// A dependency: its target, or a table of target and condition.
    pub(super) fn after(
        &mut self,
        at: &FieldPath<'_>,
        node: &Node,
        key: &'static str,
        target: fn(&mut Self, &FieldPath<'_>, &Node) -> Option<String>,
    ) -> Option<(String, DependencyCondition)> {
        if !matches!(node.value, Value::Table(_)) {
            return Some((target(self, at, node)?, DependencyCondition::Ok));
        }
        let (mut found, mut on) = (None, Some(DependencyCondition::Ok));
        let entries = self.table(at, node, "a dependency")?;
        for entry in &entries {
            let at = FieldPath::Field(at, &entry.key);
            match entry.key.as_str() {
                "on" => {
                    on = self.word(
                        &at,
                        &entry.node,
                        &[
                            ("ok", DependencyCondition::Ok),
                            ("fail", DependencyCondition::Fail),
                            ("any", DependencyCondition::Any),
                        ],
                    )
                }
                other if other == key => found = target(self, &at, &entry.node),
                _ => self.unknown(&at, entry, "a dependency", &[key, "on"]),
            }
        }
        if !entries.iter().any(|entry| entry.key == key) {
            let message = (code::MISSING_FIELD, format!("a dependency needs a {key}"));
            self.wrong(&FieldPath::Field(at, key), node.start, message, None);
        }
        Some((found?, on?))
    }

    pub(super) fn job_id(&mut self, at: &FieldPath<'_>, node: &Node) -> Option<String> {
        let text = match &node.value {
            Value::Integer(number) => number.to_string(),
            _ => self.text(at, node, "the id of a job")?.to_owned(),
        };
        if text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u64>().is_ok() {
            return Some(text);
        }
        let help = "`warpyard ps` lists them".to_owned();
        self.wrong(
            at,
            node.start,
            (code::BAD_JOB_ID, format!("'{text}' is not the id of a job")),
            Some(help),
        );
        None
    }
}

/// The syntax of a quantity, for parsing and error messages.
#[derive(Clone, Copy)]
pub(super) struct QuantitySyntax {
    code: &'static str,
    expected: &'static str,
    help: &'static str,
    takes_whole: bool,
    takes_decimals: bool,
}

impl QuantitySyntax {
    fn is_size(&self) -> bool {
        self.code == code::BAD_SIZE
    }
}

pub(super) const SIZE: QuantitySyntax = QuantitySyntax {
    code: code::BAD_SIZE,
    expected: "a size such as \"6GiB\"",
    help: "write a number and a unit: 512MiB, 6GiB, 16GB",
    takes_whole: true,
    takes_decimals: false,
};
pub(super) const DURATION: QuantitySyntax = QuantitySyntax {
    code: code::BAD_DURATION,
    expected: "a length of time such as \"10m\"",
    help: "write numbers and units: 90s, 10m, 1h30m, 2d",
    takes_whole: true,
    takes_decimals: false,
};
pub(super) const CPUS: QuantitySyntax = QuantitySyntax {
    code: code::BAD_CPUS,
    expected: "a number of CPUs such as 0.5",
    help: "write a number: 2 or 0.5",
    takes_whole: true,
    takes_decimals: true,
};
pub(super) const ARRAY: QuantitySyntax = QuantitySyntax {
    code: code::BAD_ARRAY,
    expected: "array indices such as \"1-100%8\"",
    help: "write ranges and, after %, the most at once: 1-100%8, 0-9:2, 1,3,5-7",
    takes_whole: false,
    takes_decimals: false,
};

/// Why a name cannot be that of a task, which must also be valid in a selector such as `412.train[3]`.
pub(super) fn task_name_fault(name: &str) -> Option<String> {
    let reserved = name.find(['[', ']', ',']).and_then(|at| name[at..].chars().next());
    name_fault(name).or_else(|| reserved.map(|c| format!("has a '{c}', which selects array tasks")))
}
