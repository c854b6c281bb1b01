//! What Slurm's `sacct` prints with `--parsable` or `--parsable2`: columns between `|` in any order, under a heading.

mod fields;

use crate::workload::reading::{bad, plain_name, whole};
use crate::workload::{Location, ParsedTrace, RowProblem, TraceError, TraceJob, TraceTask};
use fields::{Tres, bytes, moment, span};

/// Columns that must be there, one of each group.
const NEEDED: [&[&str]; 3] = [&["JobID", "JobIDRaw"], &["Submit"], &["Elapsed", "ElapsedRaw", "CPUTimeRAW"]];

/// Whether a text looks like it.
pub fn looks_like(text: &str) -> bool {
    let heading = text.lines().next().unwrap_or("");
    heading.contains('|') && heading.split('|').any(|column| column.trim().eq_ignore_ascii_case("submit"))
}

/// Reads jobs. Steps are counted and left out: their jobs have what they used.
pub fn read(text: &str) -> Result<ParsedTrace, TraceError> {
    let mut lines = (1..).zip(text.lines());
    let (_, heading) = lines.next().filter(|(_, line)| !line.trim().is_empty()).ok_or(TraceError::Empty)?;
    let closed = heading.trim_end().ends_with('|');
    let heading = cells(heading.trim_end(), closed);
    for group in &NEEDED {
        if !group.iter().any(|name| heading.iter().any(|h| h.eq_ignore_ascii_case(name))) {
            return Err(TraceError::NoColumn(group[0]));
        }
    }
    let mut reading = ParsedTrace::default();
    let mut seen = RowCounts::default();
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let cells = cells(text, closed);
        let row = Row { heading: &heading, cells: &cells };
        let taken = match cells.len() == heading.len() {
            true => row.take(&mut seen),
            false => Err(RowProblem::Columns { found: cells.len(), wanted: heading.len() }),
        };
        match taken {
            Ok(ParsedRow::Job(job)) => reading.enter(Location::Line(line), Ok(job)),
            Ok(ParsedRow::LeftOut(why)) => reading.leave_out(why),
            Err(why) => reading.enter(Location::Line(line), Err(why)),
        }
    }
    if seen.several_nodes > 0 {
        let n = seen.several_nodes;
        reading.notes.push(format!("jobs that ran on several nodes, and ask for their GPUs on one: {n}"));
    }
    if seen.no_gpus > 0 {
        reading.notes.push(format!("jobs without a GPU, which ask for processors alone: {}", seen.no_gpus));
    }
    reading.count_from_the_first();
    Ok(reading)
}

/// What stands between the separators. `--parsable` ends each line with one too, the heading included.
fn cells(line: &str, closed: bool) -> Vec<&str> {
    let line = line.trim_end_matches('\r');
    let line = if closed { line.strip_suffix('|').unwrap_or(line) } else { line };
    line.split('|').map(str::trim).collect()
}

#[derive(Default)]
struct RowCounts {
    several_nodes: u64,
    no_gpus: u64,
}

enum ParsedRow {
    Job(TraceJob),
    LeftOut(&'static str),
}

struct Row<'a> {
    heading: &'a [&'a str],
    cells: &'a [&'a str],
}

impl<'a> Row<'a> {
    /// What stands in a column, if the column is there and something is known.
    fn get(&self, name: &str) -> Option<&'a str> {
        let at = self.heading.iter().position(|heading| heading.eq_ignore_ascii_case(name))?;
        let text = self.cells[at];
        (!matches!(text, "" | "Unknown" | "None" | "N/A" | "INVALID")).then_some(text)
    }

    fn first(&self, names: &[&'static str]) -> Option<&'a str> {
        names.iter().find_map(|name| self.get(name))
    }

    fn take(&self, seen: &mut RowCounts) -> Result<ParsedRow, RowProblem> {
        let id = self.first(&["JobID", "JobIDRaw"]).ok_or(RowProblem::Missing("JobID"))?;
        if id.contains('.') {
            return Ok(ParsedRow::LeftOut("a step of a job"));
        }
        // Why a job was cancelled follows the state: "CANCELLED by 1000".
        let state =
            self.get("State").and_then(|state| state.split_whitespace().next()).unwrap_or("COMPLETED");
        match state.trim_end_matches('+') {
            "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "CONFIGURING" => {
                return Ok(ParsedRow::LeftOut("a job that has not started"));
            }
            "RUNNING" | "SUSPENDED" | "COMPLETING" | "RESIZING" => {
                return Ok(ParsedRow::LeftOut("a job that still runs"));
            }
            _ => {}
        }
        let runs = self.runs()?;
        if runs == 0.0 && state != "COMPLETED" {
            return Ok(ParsedRow::LeftOut("a job that never ran"));
        }
        let submit = self.get("Submit").ok_or(RowProblem::Missing("Submit"))?;
        let submitted =
            moment(submit).ok_or_else(|| bad("Submit", submit, "a moment such as 2026-11-15T20:00:00"))?;
        let priority = self.get("Priority").map_or(Ok(0), |text| whole("Priority", text))?;
        let user = plain_name(self.first(&["User", "UID", "Account"]).unwrap_or(""));
        let task = self.task(runs, state, seen)?;
        let id = id.to_owned();
        Ok(ParsedRow::Job(TraceJob { id, ..TraceJob::single(submitted, priority, user, task) }))
    }

    fn runs(&self) -> Result<f64, RowProblem> {
        if let Some(text) = self.get("ElapsedRaw") {
            return whole::<u64>("ElapsedRaw", text).map(|seconds| seconds as f64);
        }
        let text = self.get("Elapsed").ok_or(RowProblem::Missing("Elapsed"))?;
        span(text).ok_or_else(|| bad("Elapsed", text, "a time such as 1-02:03:04"))
    }

    fn timeout(&self) -> Result<Option<f64>, RowProblem> {
        let unlimited =
            |text: &&str| !matches!(text.to_ascii_uppercase().as_str(), "UNLIMITED" | "PARTITION_LIMIT");
        if let Some(text) = self.get("TimelimitRaw").filter(unlimited) {
            return whole::<u64>("TimelimitRaw", text).map(|minutes| Some(minutes as f64 * 60.0));
        }
        let Some(text) = self.get("Timelimit").filter(unlimited) else { return Ok(None) };
        span(text).map(Some).ok_or_else(|| bad("Timelimit", text, "a time such as 1-02:03:04"))
    }

    fn task(&self, runs: f64, state: &str, seen: &mut RowCounts) -> Result<TraceTask, RowProblem> {
        let tres = self.tres()?;
        let cpus = match self.first(&["ReqCPUS", "NCPUS", "AllocCPUS"]) {
            Some(text) => whole("ReqCPUS", text)?,
            None => tres.cpus,
        };
        let memory = match (tres.memory, self.get("ReqMem")) {
            (0, Some(text)) => {
                // Older ones say whether it is of each processor or each node: 4Gc, 64Gn.
                let (text, times) = match text.as_bytes().last() {
                    Some(b'c') => (&text[..text.len() - 1], u64::from(cpus)),
                    Some(b'n') => (&text[..text.len() - 1], 1),
                    _ => (text, 1),
                };
                bytes(text).ok_or_else(|| bad("ReqMem", text, "a size such as 64G"))? * times
            }
            (bytes, _) => bytes,
        };
        let nodes = self
            .first(&["AllocNodes", "NNodes", "ReqNodes"])
            .map_or(Ok(tres.nodes), |text| whole("NNodes", text))?;
        seen.several_nodes += u64::from(nodes > 1);
        seen.no_gpus += u64::from(tres.gpus == 0);
        Ok(TraceTask {
            runs,
            timeout: self.timeout()?,
            gpus: tres.gpus,
            gpu_types: tres.gpu_type.map(plain_name).into_iter().collect(),
            cpus: cpus.saturating_mul(1000),
            memory,
            exit: self.exit(state)?,
            ..TraceTask::default()
        })
    }

    /// What a job was given, else what it asked for; the type of GPU it asked for, where it asked for one.
    fn tres(&self) -> Result<Tres<'a>, RowProblem> {
        let wrong = |text: &str| bad("TRES", text, "a list such as cpu=8,gres/gpu=2,mem=64G");
        let read = |text: &'a str| Tres::read(text).ok_or_else(|| wrong(text));
        let asked = self.get("ReqTRES").map(read).transpose()?;
        let given = self.get("AllocTRES").map(read).transpose()?;
        let gres = match self.first(&["ReqTRES", "AllocTRES"]) {
            Some(_) => None,
            None => self
                .first(&["ReqGRES", "AllocGRES"])
                .map(|text| Tres::read_gres(text).ok_or_else(|| wrong(text)))
                .transpose()?,
        };
        let gpu_type = asked.as_ref().and_then(|tres| tres.gpu_type);
        let mut tres = given.or(asked).or(gres).unwrap_or_default();
        tres.gpu_type = gpu_type.or(tres.gpu_type.filter(|_| self.get("ReqTRES").is_none()));
        Ok(tres)
    }

    fn exit(&self, state: &str) -> Result<i32, RowProblem> {
        if matches!(state, "COMPLETED" | "TIMEOUT" | "CANCELLED") {
            return Ok(0);
        }
        let Some(text) = self.get("ExitCode") else { return Ok(1) };
        let code = text.split(':').next().unwrap_or(text);
        whole("ExitCode", code).map(|code: i32| code.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
JobID|User|Submit|Elapsed|Timelimit|State|AllocTRES|ReqTRES|ReqMem|Priority|ExitCode
101|ann|2026-11-01T12:00:00|1-02:03:04|2-00:00:00|COMPLETED|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|cpu=8,gres/gpu=2,mem=64G,node=1||4294|0:0
101.batch|ann|2026-11-01T12:00:00|1-02:03:04||COMPLETED|cpu=8,mem=64G,node=1||||0:0
102_3|bob|2026-11-01T12:00:10|00:10|UNLIMITED|FAILED|cpu=2,mem=4G,node=1|cpu=2,gres/gpu:v100=1,mem=4G,node=1|4G|10|9:0
102_[4-9%2]|bob|2026-11-01T12:00:10|00:00:00|01:00:00|PENDING||cpu=2,node=1||10|0:0
103|eve|2026-11-01T11:59:50|00:00:00|10:00|CANCELLED by 1000||cpu=2||1|0:0
104|eve|yesterday|00:01:00|10:00|COMPLETED|cpu=2|||1|0:0
105|eve|2026-11-01T13:00:00|ten|10:00|COMPLETED|cpu=2|||1|0:0
106|a|b|c
";

    #[test]
    fn jobs_arrays_steps_and_states_are_told_apart() {
        let reading = read(OUTPUT).unwrap();
        let jobs: Vec<_> = reading.jobs.iter().map(|(_, job)| job).collect();
        assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["101", "102_3"]);
        let first = &jobs[0].tasks[0];
        assert_eq!((first.runs, first.timeout, first.gpus), (93_784.0, Some(172_800.0), 2));
        assert_eq!((first.cpus, first.memory), (8000, 64 << 30));
        assert!(first.gpu_types.is_empty(), "it got an A100 but would have taken any");
        let second = &jobs[1].tasks[0];
        assert_eq!((jobs[1].submitted, second.runs, second.timeout, second.exit), (10.0, 10.0, None, 9));
        assert_eq!(jobs[0].priority, 4294, "larger is more urgent there too");
        let left: Vec<_> = reading.left_out.iter().map(|(why, n)| (*why, *n)).collect();
        assert_eq!(
            left,
            [("a job that has not started", 1), ("a job that never ran", 1), ("a step of a job", 1)]
        );
        let bad: Vec<_> = reading.bad.iter().map(ToString::to_string).collect();
        assert_eq!(
            bad,
            [
                "line 7: Submit: 'yesterday' is not a moment such as 2026-11-15T20:00:00",
                "line 8: Elapsed: 'ten' is not a time such as 1-02:03:04",
                "line 9: 4 columns instead of 11"
            ]
        );
    }

    #[test]
    fn columns_may_come_in_any_order_and_older_forms_are_known() {
        let text = "Elapsed|ReqGRES|JobID|Submit|NCPUS|ReqMem|TimelimitRaw|\n05:00|gpu:tesla:4|7|1700000000|3|2Gc|90|\n";
        let reading = read(text).unwrap();
        let (_, job) = &reading.jobs[0];
        let task = &job.tasks[0];
        assert_eq!((task.runs, task.timeout, task.gpus), (300.0, Some(5400.0), 4));
        assert_eq!((task.memory, task.gpu_types.as_slice()), (6 << 30, &["tesla".to_owned()][..]));
        assert_eq!(read("JobID|State\n").unwrap_err().to_string(), "line 1: no column Submit; it is needed");
    }
}
