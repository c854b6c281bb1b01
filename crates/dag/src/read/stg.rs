//! Standard Task Graphs: a count, then one task per line with its time, the number of its predecessors, and their ids.
//! The count excludes the dummy entry and exit of zero length that most files have. `#` starts a comment.

use std::collections::HashMap;

use super::machines::Machines;
use super::workflow::{Amount, Task, Workflow};
use super::{LineProblem, ReadError, at_line};
use crate::instance::Edge;

struct WordReader<'a> {
    words: Vec<(usize, &'a str)>,
    next: usize,
}

impl<'a> WordReader<'a> {
    fn of(text: &'a str) -> Self {
        let lines = text.lines().enumerate();
        let words = lines.flat_map(|(at, line)| {
            let line = line.split('#').next().unwrap_or("");
            line.split_whitespace().map(move |word| (at + 1, word))
        });
        Self { words: words.collect(), next: 0 }
    }

    fn number<T: std::str::FromStr>(&mut self, what: &'static str) -> Result<(usize, T), ReadError> {
        let Some(&(line, word)) = self.words.get(self.next) else { return Err(ReadError::TooShort(what)) };
        self.next += 1;
        match word.parse() {
            Ok(number) => Ok((line, number)),
            Err(_) => at_line(line, LineProblem::NotANumber(word.to_owned())),
        }
    }

    fn line(&self) -> Option<usize> {
        self.words.get(self.next).map(|(line, _)| *line)
    }
}

pub(super) fn parse(text: &str) -> Result<Workflow, ReadError> {
    let mut words = WordReader::of(text);
    let (first, declared): (usize, usize) = words.number("the number of tasks")?;
    // Some files give the number of processors on the same line.
    let machines = match words.line() {
        Some(line) if line == first => {
            // Each becomes a machine, so the number is bounded before any is made.
            let (_, count): (usize, u16) = words.number("the number of processors")?;
            Some(Machines::identical(count.into())).filter(|_| count > 0)
        }
        _ => None,
    };
    let mut tasks = Vec::new();
    let mut index = HashMap::new();
    let mut waits = Vec::new();
    while words.line().is_some() {
        let (line, id): (usize, u64) = words.number("a task")?;
        let (_, time): (usize, f64) = words.number("a task's time")?;
        let (_, count): (usize, usize) = words.number("the number of predecessors")?;
        if !(time >= 0.0 && time.is_finite()) {
            return at_line(line, LineProblem::BadAmount { task: id.to_string(), what: "time", value: time });
        }
        if index.insert(id, tasks.len() as u32).is_some() {
            return at_line(line, LineProblem::DuplicateTask(id.to_string()));
        }
        for _ in 0..count {
            let (line, before): (usize, u64) = words.number("a predecessor")?;
            waits.push((line, before, id));
        }
        tasks.push(Task { name: id.to_string(), work: Some(time), ..Task::default() });
    }
    if !(declared..=declared.saturating_add(2)).contains(&tasks.len()) {
        return at_line(first, LineProblem::TaskCount { found: tasks.len(), declared });
    }
    let mut edges = Vec::with_capacity(waits.len());
    for (line, before, id) in waits {
        match index.get(&before) {
            Some(from) => edges.push(Edge { from: *from, to: index[&id], data: 0.0 }),
            // Files without the dummy entry still refer to it.
            None if before == 0 => (),
            None => {
                let (task, missing) = (id.to_string(), before.to_string());
                return at_line(line, LineProblem::UnknownTask { task, missing });
            }
        }
    }
    Ok(Workflow { tasks, edges, amount: Amount::Time, machines })
}
