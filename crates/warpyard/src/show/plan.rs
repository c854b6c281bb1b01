//! `plan`: a schedule and how good it is, or several planners side by side.

use super::{Align, Paint, Screen, Table, counted, figure, percent, took};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write;
use warpyard_api::text::escape_controls;
use warpyard_dag::{Instance, Schedule};

/// More lines than this are for programs to read.
const MOST_LINES: usize = 40;

/// Result of a planner.
pub(crate) struct PlanResult<'a> {
    pub(crate) algorithm: &'static str,
    /// For a portfolio, the member that found it.
    pub(crate) winner: &'static str,
    pub(crate) instance: &'a Instance,
    pub(crate) schedule: Schedule,
    /// Lower bound of the makespan.
    pub(crate) bound: f64,
    /// Planning time in seconds.
    pub(crate) seconds: f64,
}

/// The figures of a plan, as scripts rely on them.
#[derive(Serialize)]
pub(crate) struct PlanFigures {
    algorithm: &'static str,
    winner: &'static str,
    makespan: PlanTime,
    mean_turnaround: f64,
    lower_bound: PlanTime,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<Vec<PlacedTask>>,
}

/// A task in its place. Names only where there are any.
#[derive(Serialize)]
struct PlacedTask {
    task: usize,
    machine: u32,
    start: PlanTime,
    finish: PlanTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine_name: Option<String>,
}

/// A time; whole where all times are.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum PlanTime {
    Whole(i64),
    Real(f64),
}

impl PlanTime {
    /// Numbers above this are not counted one by one.
    const EXACT: f64 = 9_007_199_254_740_992.0;

    fn new(value: f64, whole: bool) -> Self {
        match whole && value.fract() == 0.0 && value.abs() < Self::EXACT {
            true => Self::Whole(value as i64),
            false => Self::Real(value),
        }
    }

    fn value(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

impl PlanResult<'_> {
    /// The figures of the plan.
    pub(crate) fn figures(&self) -> PlanFigures {
        let whole = self.instance.is_integral();
        PlanFigures {
            algorithm: self.algorithm,
            winner: self.winner,
            makespan: PlanTime::new(self.schedule.makespan(), whole),
            mean_turnaround: self.schedule.mean_turnaround(self.instance),
            lower_bound: PlanTime::new(self.bound, whole),
            seconds: self.seconds,
            schedule: None,
        }
    }

    /// The figures of the plan and its schedule.
    pub(crate) fn figures_and_schedule(&self) -> PlanFigures {
        let whole = self.instance.is_integral();
        let placed = |(task, slot): (usize, &warpyard_dag::Slot)| PlacedTask {
            task,
            machine: slot.machine,
            start: PlanTime::new(slot.start, whole),
            finish: PlanTime::new(slot.finish, whole),
            task_name: given(self.instance.task_name(task), task),
            machine_name: given(self.instance.machine_name(slot.machine as usize), slot.machine as usize),
        };
        let schedule = self.schedule.slots.iter().enumerate().map(placed).collect();
        PlanFigures { schedule: Some(schedule), ..self.figures() }
    }
}

/// A name that is more than a number.
fn given(name: Cow<'_, str>, index: usize) -> Option<String> {
    (*name != index.to_string()).then(|| name.into_owned())
}

/// The gap to the lower bound.
fn above(figures: &PlanFigures) -> String {
    let (makespan, bound) = (figures.makespan.value(), figures.lower_bound.value());
    if bound > 0.0 { percent((makespan / bound - 1.0).max(0.0)) } else { String::new() }
}

/// One plan: its figures, then its tasks in order of time.
pub(crate) fn detail(planned: &PlanResult<'_>, screen: &Screen) -> String {
    let figures = planned.figures();
    let PlanFigures { makespan, lower_bound, mean_turnaround, .. } = &figures;
    let (tasks, machines) = (planned.instance.tasks(), planned.instance.machines());
    let won =
        if planned.winner == planned.algorithm { "" } else { &format!(", found by {}", planned.winner) };
    let mut out = format!(
        "{}{won}: {} on {} in {}\n",
        screen.paint(planned.algorithm, Paint::Bold),
        counted(tasks as u64, "task"),
        counted(machines as u64, "machine"),
        took(planned.seconds)
    );
    let beyond = match above(&figures) {
        above if above.is_empty() => String::new(),
        above => format!("; at most {above} above the best there is"),
    };
    let lines = [
        ("makespan", figure(makespan.value())),
        ("lower bound", format!("{}{beyond}", figure(lower_bound.value()))),
        ("mean turnaround", figure(*mean_turnaround)),
    ];
    for (label, value) in lines {
        writeln!(out, "  {label:<15}  {value}").expect("a string takes all");
    }
    out.push('\n');
    out.push_str(&tasks_in_time(planned, screen));
    if tasks > MOST_LINES {
        writeln!(out, "… and {} more; --json lists them all", counted((tasks - MOST_LINES) as u64, "task"))
            .expect("a string takes all");
    }
    out
}

fn tasks_in_time(planned: &PlanResult<'_>, screen: &Screen) -> String {
    let slots = &planned.schedule.slots;
    let mut order: Vec<usize> = (0..slots.len()).collect();
    order.sort_by(|a, b| slots[*a].start.total_cmp(&slots[*b].start));
    let mut table = Table::new([
        ("TASK", Align::Left),
        ("MACHINE", Align::Left),
        ("START", Align::Right),
        ("FINISH", Align::Right),
    ]);
    for task in order.into_iter().take(MOST_LINES) {
        let slot = &slots[task];
        table.row([
            escape_controls(&planned.instance.task_name(task)).into(),
            escape_controls(&planned.instance.machine_name(slot.machine as usize)).into(),
            figure(slot.start).into(),
            figure(slot.finish).into(),
        ]);
    }
    table.render(screen)
}

/// Planners side by side.
pub(crate) fn took_turns(rows: &[PlanFigures], screen: &Screen) -> String {
    let mut table = Table::new([
        ("ALGORITHM", Align::Left),
        ("MAKESPAN", Align::Right),
        ("TURNAROUND", Align::Right),
        ("LOWER BOUND", Align::Right),
        ("ABOVE IT", Align::Right),
        ("TIME TAKEN", Align::Right),
    ]);
    for row in rows {
        table.row([
            row.algorithm.into(),
            figure(row.makespan.value()).into(),
            figure(row.mean_turnaround).into(),
            figure(row.lower_bound.value()).into(),
            above(row).into(),
            took(row.seconds).into(),
        ]);
    }
    table.render(screen)
}
