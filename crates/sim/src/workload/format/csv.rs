//! Our own traces: CSV with a heading that names the columns, in any order; one task a line, times in seconds. Rows with
//! the same `job` are the tasks of one job, and `after` names those above that a task waits for.

use crate::workload::reading::{bad, bytes, seconds, whole};
use crate::workload::{Location, ParsedTrace, RowError, RowProblem, TraceError, TraceJob, TraceTask};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use warpyard_core::spec::{AfterNode, DependencyCondition, Preempt};

macro_rules! columns {
    ($($name:ident = $word:literal,)*) => {
        /// What a column holds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        enum Column { $($name,)* }

        impl Column {
            const ALL: &[Column] = &[$(Column::$name,)*];

            fn word(self) -> &'static str {
                match self { $(Column::$name => $word,)* }
            }
        }
    };
}

columns! {
    Job = "job",
    Task = "task",
    After = "after",
    Submitted = "submitted",
    Runs = "runs",
    Timeout = "timeout",
    Expected = "expected",
    Gpus = "gpus",
    GpuMemory = "gpu_memory",
    GpuTypes = "gpu_types",
    Cpus = "cpus",
    Memory = "memory",
    Priority = "priority",
    User = "user",
    Preempt = "preempt",
    BatchTime = "batch_time",
    ItemTime = "item_time",
    ResumeTime = "resume_time",
    Profile = "profile",
    Steps = "steps",
    Weight = "weight",
    Deadline = "deadline",
    Exit = "exit",
}

/// Written whether or not anything is in them.
const ALWAYS: [Column; 7] = [
    Column::Submitted,
    Column::Runs,
    Column::Timeout,
    Column::Gpus,
    Column::GpuMemory,
    Column::Priority,
    Column::User,
];

/// Columns a trace has something in.
#[derive(Clone, Debug)]
pub struct Columns(BTreeSet<Column>);

impl Columns {
    /// Those that these jobs need.
    pub fn of<'a>(jobs: impl Iterator<Item = &'a TraceJob>) -> Columns {
        let mut columns = Columns(ALWAYS.into());
        jobs.for_each(|job| columns.add(job));
        columns
    }

    /// Adds those that a job needs.
    pub fn add(&mut self, job: &TraceJob) {
        let mut add = |column, used: bool| used.then(|| self.0.insert(column));
        add(Column::Job, !job.id.is_empty() || job.tasks.len() > 1);
        add(Column::Weight, job.weight.is_some());
        add(Column::Deadline, job.deadline.is_some());
        for task in &job.tasks {
            add(Column::Task, !task.name.is_empty());
            add(Column::After, !task.after.is_empty());
            add(Column::Expected, task.expected.is_some());
            add(Column::GpuTypes, !task.gpu_types.is_empty());
            add(Column::Cpus, task.cpus > 0);
            add(Column::Memory, task.memory > 0);
            add(Column::Preempt, task.preempt != Preempt::None);
            add(Column::BatchTime, task.batch_time.is_some());
            add(Column::ItemTime, task.item_time.is_some());
            add(Column::ResumeTime, task.resume_time.is_some());
            add(Column::Profile, task.profile.is_some());
            add(Column::Steps, task.steps.is_some());
            add(Column::Exit, task.exit != 0);
        }
    }
}

impl Default for Columns {
    fn default() -> Columns {
        Columns(ALWAYS.into())
    }
}

/// Whether a text begins like a trace: a heading of which we know `submitted`.
pub fn looks_like(text: &str) -> bool {
    text.lines().next().is_some_and(|heading| heading.split(',').any(|column| column.trim() == "submitted"))
}

/// Reads a trace.
pub fn read(text: &str) -> Result<ParsedTrace, TraceError> {
    let from = text.as_bytes();
    let mut rows = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(from);
    let heading = columns_of(rows.headers()?)?;
    let mut builder = TraceBuilder::default();
    let mut lines = Lines { text: from, byte: 0, line: 1 };
    for row in rows.into_records() {
        let position = match &row {
            Ok(row) => row.position(),
            Err(e) => e.position(),
        };
        let line = lines.at(position.map_or(0, |at| at.byte() as usize));
        let entered = row.map_err(RowProblem::from).and_then(|row| {
            if row.len() != heading.len() {
                return Err(RowProblem::Columns { found: row.len(), wanted: heading.len() });
            }
            builder.enter(line, &Row { heading: &heading, row: &row })
        });
        if let Err(why) = entered {
            builder.reading.bad.push(RowError { place: Location::Line(line), why });
        }
    }
    builder.close();
    Ok(builder.reading)
}

/// Which line a byte is on. A row's position is before the blank lines that lead up to it, so those are passed over.
struct Lines<'a> {
    text: &'a [u8],
    byte: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, byte: usize) -> usize {
        while let Some(&c) = self.text.get(self.byte)
            && (self.byte < byte || matches!(c, b'\n' | b'\r'))
        {
            self.line += usize::from(c == b'\n');
            self.byte += 1;
        }
        self.line
    }
}

/// Writes a trace that reads back as it was.
pub fn write(to: impl Write, columns: &Columns, jobs: impl Iterator<Item = TraceJob>) -> io::Result<()> {
    let mut to = csv::Writer::from_writer(to);
    to.write_record(columns.0.iter().map(|column| column.word()))?;
    for (at, job) in jobs.enumerate() {
        let id = if job.id.is_empty() && job.tasks.len() > 1 { format!("job{at}") } else { job.id.clone() };
        for task in &job.tasks {
            to.write_record(columns.0.iter().map(|column| text(*column, &id, &job, task)))?;
        }
    }
    to.flush()
}

fn text(column: Column, id: &str, job: &TraceJob, task: &TraceTask) -> String {
    let unless_zero = |number: u64| if number == 0 { String::new() } else { number.to_string() };
    let if_any = |seconds: Option<f64>| seconds.map_or_else(String::new, |seconds| seconds.to_string());
    match column {
        Column::Job => id.to_owned(),
        Column::Task => task.name.clone(),
        Column::After => {
            let name = |after: &AfterNode| {
                let name = &job.tasks[after.node as usize].name;
                match after.on {
                    DependencyCondition::Ok => name.clone(),
                    DependencyCondition::Fail => format!("{name}:fail"),
                    DependencyCondition::Any => format!("{name}:any"),
                }
            };
            task.after.iter().map(name).collect::<Vec<_>>().join(";")
        }
        Column::Submitted => job.submitted.to_string(),
        Column::Runs => task.runs.to_string(),
        Column::Timeout => if_any(task.timeout),
        Column::Expected => if_any(task.expected),
        Column::Gpus => task.gpus.to_string(),
        Column::GpuMemory => task.gpu_memory.map_or_else(String::new, |bytes| bytes.to_string()),
        Column::GpuTypes => task.gpu_types.join(";"),
        Column::Cpus => unless_zero(task.cpus.into()),
        Column::Memory => unless_zero(task.memory),
        Column::Priority => job.priority.to_string(),
        Column::User => job.user.clone(),
        Column::Preempt => word_of(task.preempt).to_owned(),
        Column::BatchTime => if_any(task.batch_time),
        Column::ItemTime => if_any(task.item_time),
        Column::ResumeTime => if_any(task.resume_time),
        Column::Profile => task.profile.clone().unwrap_or_default(),
        Column::Steps => task.steps.map_or_else(String::new, |steps| steps.to_string()),
        Column::Weight => if_any(job.weight),
        Column::Deadline => if_any(job.deadline),
        Column::Exit => {
            if task.exit == 0 {
                String::new()
            } else {
                task.exit.to_string()
            }
        }
    }
}

const PREEMPT: [(&str, Preempt); 4] = [
    ("", Preempt::None),
    ("freeze", Preempt::Freeze),
    ("requeue", Preempt::Requeue),
    ("yield", Preempt::Yield),
];

fn word_of(preempt: Preempt) -> &'static str {
    PREEMPT.iter().find(|(_, kind)| *kind == preempt).map_or("", |(word, _)| word)
}

fn columns_of(heading: &csv::StringRecord) -> Result<Vec<Column>, TraceError> {
    if heading.iter().all(|column| column.trim().is_empty()) {
        return Err(TraceError::Empty);
    }
    let mut columns = Vec::new();
    for found in heading {
        let found = found.trim();
        let column = Column::ALL.iter().find(|column| column.word() == found).ok_or_else(|| {
            let known = Column::ALL.iter().map(|column| column.word()).collect::<Vec<_>>().join(", ");
            TraceError::UnknownColumn { found: found.to_owned(), known }
        })?;
        if columns.contains(column) {
            return Err(TraceError::Twice(found.to_owned()));
        }
        columns.push(*column);
    }
    for needed in [Column::Submitted, Column::Runs] {
        if !columns.contains(&needed) {
            return Err(TraceError::NoColumn(needed.word()));
        }
    }
    Ok(columns)
}

/// A row under its heading.
struct Row<'a> {
    heading: &'a [Column],
    row: &'a csv::StringRecord,
}

impl Row<'_> {
    /// What stands in a column, if the column is there and something is.
    fn get(&self, column: Column) -> Option<&str> {
        let at = self.heading.iter().position(|c| *c == column)?;
        self.row.get(at).filter(|text| !text.is_empty())
    }

    fn task(&self) -> Result<TraceTask, RowProblem> {
        let optional = |column: Column, read: fn(&'static str, &str) -> Result<f64, RowProblem>| {
            self.get(column).map(|text| read(column.word(), text)).transpose()
        };
        fn number<T: std::str::FromStr + Default>(row: &Row<'_>, column: Column) -> Result<T, RowProblem> {
            row.get(column).map_or(Ok(T::default()), |text| whole(column.word(), text))
        }
        let preempt = self.get(Column::Preempt).unwrap_or("");
        let preempt =
            PREEMPT.iter().find(|(word, _)| *word == preempt || (preempt == "none" && word.is_empty()));
        let preempt = preempt.ok_or_else(|| {
            bad(Column::Preempt.word(), self.get(Column::Preempt).unwrap_or(""), "none, freeze or requeue")
        })?;
        Ok(TraceTask {
            name: self.get(Column::Task).unwrap_or("").to_owned(),
            after: Vec::new(),
            runs: optional(Column::Runs, seconds)?.ok_or(RowProblem::Missing(Column::Runs.word()))?,
            timeout: optional(Column::Timeout, seconds)?,
            expected: optional(Column::Expected, seconds)?,
            gpus: match self.heading.contains(&Column::Gpus) {
                true => number(self, Column::Gpus)?,
                false => 1,
            },
            gpu_memory: self
                .get(Column::GpuMemory)
                .map(|text| bytes(Column::GpuMemory.word(), text))
                .transpose()?,
            gpu_types: self
                .get(Column::GpuTypes)
                .map(|text| text.split(';').map(|kind| kind.trim().to_owned()).collect())
                .unwrap_or_default(),
            cpus: number(self, Column::Cpus)?,
            memory: number(self, Column::Memory)?,
            preempt: preempt.1,
            batch_time: optional(Column::BatchTime, seconds)?,
            item_time: optional(Column::ItemTime, seconds)?,
            resume_time: optional(Column::ResumeTime, seconds)?,
            profile: self.get(Column::Profile).map(str::to_owned),
            steps: self.get(Column::Steps).map(|text| whole(Column::Steps.word(), text)).transpose()?,
            exit: number(self, Column::Exit)?,
        })
    }

    fn weight(&self) -> Result<Option<f64>, RowProblem> {
        let read = |text: &str| {
            let weight = text.parse().ok().filter(|weight: &f64| weight.is_finite() && *weight > 0.0);
            weight.ok_or_else(|| bad(Column::Weight.word(), text, "a number above 0"))
        };
        self.get(Column::Weight).map(read).transpose()
    }

    fn deadline(&self) -> Result<Option<f64>, RowProblem> {
        self.get(Column::Deadline).map(|text| seconds(Column::Deadline.word(), text)).transpose()
    }
}

/// The job whose tasks are being read, and all before it.
#[derive(Default)]
struct TraceBuilder {
    reading: ParsedTrace,
    /// The line it began on, and what is read of it.
    job: Option<(usize, TraceJob)>,
    /// Whether a row of it is bad: the rest of it cannot be taken either.
    spoilt: bool,
    /// Where its tasks stand, by name.
    names: BTreeMap<String, u32>,
    began: BTreeMap<String, usize>,
}

impl TraceBuilder {
    fn enter(&mut self, line: usize, row: &Row<'_>) -> Result<(), RowProblem> {
        let id = row.get(Column::Job).unwrap_or("");
        let same = !id.is_empty() && self.job.as_ref().is_some_and(|(_, job)| job.id == id);
        if !same {
            self.close();
            if let Some(&began) = self.began.get(id) {
                return Err(RowProblem::Scattered { job: id.to_owned(), began });
            }
            let job = TraceJob { id: id.to_owned(), ..TraceJob::default() };
            self.job = Some((line, job));
            if !id.is_empty() {
                self.began.insert(id.to_owned(), line);
            }
        }
        let entered = self.add_task(row);
        self.spoilt |= entered.is_err();
        entered
    }

    fn add_task(&mut self, row: &Row<'_>) -> Result<(), RowProblem> {
        let (_, job) = self.job.as_mut().expect("a job is open while its tasks are read");
        let mut task = row.task()?;
        let submitted = row.get(Column::Submitted).ok_or(RowProblem::Missing(Column::Submitted.word()))?;
        let submitted = seconds(Column::Submitted.word(), submitted)?;
        let priority =
            row.get(Column::Priority).map_or(Ok(0), |text| whole(Column::Priority.word(), text))?;
        let (weight, deadline) = (row.weight()?, row.deadline()?);
        if let Some(after) = row.get(Column::After) {
            task.after =
                after.split(';').map(|name| waits_for(name.trim(), &self.names)).collect::<Result<_, _>>()?;
        }
        if self.names.contains_key(&task.name) {
            return Err(RowProblem::SameName(task.name));
        }
        if job.tasks.is_empty() {
            (job.submitted, job.priority) = (submitted, priority);
            (job.weight, job.deadline) = (weight, deadline);
            job.user = row.get(Column::User).unwrap_or("").to_owned();
        }
        self.names.insert(task.name.clone(), job.tasks.len() as u32);
        job.tasks.push(task);
        Ok(())
    }

    /// Ends the job being read.
    fn close(&mut self) {
        let spoilt = std::mem::take(&mut self.spoilt);
        self.names.clear();
        let Some((line, job)) = self.job.take() else { return };
        if !spoilt {
            self.reading.jobs.push((Location::Line(line), job));
        } else if job.tasks.len() > 1 {
            let rows =
                self.reading.left_out.entry("a task of a job of which another row is bad").or_default();
            *rows += job.tasks.len() as u64;
        }
    }
}

fn waits_for(text: &str, above: &BTreeMap<String, u32>) -> Result<AfterNode, RowProblem> {
    let (name, on) = match text.rsplit_once(':') {
        Some((name, "ok")) => (name, DependencyCondition::Ok),
        Some((name, "fail")) => (name, DependencyCondition::Fail),
        Some((name, "any")) => (name, DependencyCondition::Any),
        _ => (text, DependencyCondition::Ok),
    };
    let node = *above.get(name).ok_or_else(|| RowProblem::NoSuchTask(name.to_owned()))?;
    Ok(AfterNode { node, on })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad_rows(text: &str) -> Vec<String> {
        read(text).unwrap().bad.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bad_rows_are_told_with_their_line_and_the_others_are_kept() {
        let text = "submitted,runs,timeout,gpus,gpu_memory,priority,user\n\
                    0,10,,1,,0,ann\n1,ten,,1,,0,ann\n\n2,10,1\n3,5,,1,,0,ann\n-1,5,,1,,0,ann\n";
        let reading = read(text).unwrap();
        assert_eq!(
            reading.jobs.iter().map(|(line, _)| *line).collect::<Vec<_>>(),
            [Location::Line(2), Location::Line(6)]
        );
        assert_eq!(
            bad_rows(text),
            [
                "line 3: runs: 'ten' is not a number of seconds",
                "line 5: 3 columns instead of 7",
                "line 7: submitted: '-1' is not a number of seconds"
            ]
        );
    }

    #[test]
    fn rows_of_one_job_are_its_tasks() {
        let text =
            "job,task,after,submitted,runs\n7,load,,5,1\n7,fit,load,5,2\n7,clean,load;fit:any,5,3\n,,,9,4\n";
        let reading = read(text).unwrap();
        assert!(reading.bad.is_empty(), "{:?}", reading.bad);
        let (line, job) = &reading.jobs[0];
        assert_eq!((*line, job.tasks.len(), job.submitted), (Location::Line(2), 3, 5.0));
        assert_eq!(job.tasks[2].after[1], AfterNode { node: 1, on: DependencyCondition::Any });
        assert_eq!(reading.jobs[1].1.tasks[0].gpus, 1, "one GPU where nothing is said of them");
    }

    #[test]
    fn what_goals_of_allocation_ask_for_reads_back_as_it_was() {
        let text = "submitted,runs,timeout,gpus,gpu_memory,priority,user,profile,steps,weight,deadline\n\
                    0,10,,1,,0,ann,resnet,4000,2.5,3600\n1,10,,1,,0,ann,,,,\n";
        let jobs: Vec<TraceJob> = read(text).unwrap().jobs.into_iter().map(|(_, job)| job).collect();
        let task = &jobs[0].tasks[0];
        assert_eq!((task.profile.as_deref(), task.steps), (Some("resnet"), Some(4000)));
        assert_eq!((jobs[0].weight, jobs[0].deadline), (Some(2.5), Some(3600.0)));
        let mut again = Vec::new();
        write(&mut again, &Columns::of(jobs.iter()), jobs.clone().into_iter()).unwrap();
        assert_eq!(String::from_utf8(again).unwrap(), text);
        let heading = "submitted,runs,weight,steps,deadline\n";
        assert_eq!(
            bad_rows(&format!("{heading}0,1,0,,\n0,1,,-3,\n0,1,,,soon\n")),
            [
                "line 2: weight: '0' is not a number above 0",
                "line 3: steps: '-3' is not a whole number in its range",
                "line 4: deadline: 'soon' is not a number of seconds"
            ]
        );
    }

    #[test]
    fn a_graph_can_neither_run_in_circles_nor_fall_apart() {
        let heading = "job,task,after,submitted,runs\n";
        assert_eq!(
            bad_rows(&format!("{heading}7,a,b,0,1\n7,b,a,0,1\n")),
            [
                "line 2: after: no task 'b' stands above in the same job",
                "line 3: after: no task 'a' stands above in the same job"
            ]
        );
        let scattered = bad_rows(&format!("{heading}7,a,,0,1\n8,a,,0,1\n7,b,,0,1\n"));
        assert_eq!(
            scattered,
            ["line 4: job '7' began on line 2 and ended before this one; put its tasks together"]
        );
        assert_eq!(
            bad_rows(&format!("{heading}7,a,,0,1\n7,a,,0,1\n")),
            ["line 3: task: there is a 'a' in this job already"]
        );
    }

    #[test]
    fn a_heading_that_means_nothing_is_refused() {
        let refused = |text: &str| read(text).unwrap_err().to_string();
        assert!(
            refused("submitted,runs,size\n")
                .starts_with("line 1: no column is called 'size' (there are job, task")
        );
        assert_eq!(refused("submitted,gpus\n"), "line 1: no column runs; it is needed");
        assert_eq!(refused("runs,submitted,runs\n"), "line 1: the column runs stands there twice");
        assert_eq!(refused(""), "line 1: nothing is written here");
    }
}
