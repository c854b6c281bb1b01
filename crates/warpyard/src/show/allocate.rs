//! `allocate`: the shares, what they reach, and what keeps it from being more.

use super::{Paint, Screen, counted, figure, percent, took};
use serde::{Serialize, Serializer};
use std::fmt::Write;
use warpyard_allocate::{Certificate, CheckReport, GoalDef, Instance, OPTIMAL, Sense, Shortfall, Solution};
use warpyard_api::text::escape_name;

/// More lines than this are for programs to read.
const MOST_LINES: usize = 60;

/// Less of a share than this is none to the eye.
const NOTHING: f64 = 5e-5;

/// An allocation that was made.
pub(crate) struct AllocationResult<'a> {
    pub(crate) goal: &'static GoalDef,
    pub(crate) instance: &'a Instance,
    pub(crate) answer: &'a Solution,
    /// Result of `--check`.
    pub(crate) checked: Option<CheckReport>,
    /// Whether jobs may share.
    pub(crate) sharing: bool,
    /// Solving time in seconds.
    pub(crate) seconds: f64,
}

/// The form scripts rely on.
#[derive(Serialize)]
struct AllocationJson<'a> {
    policy: &'a str,
    objective: f64,
    allocation: &'a warpyard_allocate::Shares,
    normalised: &'a [f64],
    prices: &'a [f64],
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<Vec<SharingPair<'a>>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shortfalls: Vec<MissedDeadline>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<CheckJson>,
}

/// Two jobs that share, by id.
#[derive(Serialize)]
struct SharingPair<'a> {
    jobs: [u64; 2],
    shares: &'a [f64],
}

/// A job that misses its deadline, by id.
#[derive(Serialize)]
struct MissedDeadline {
    job: u64,
    needs: f64,
    gets: f64,
}

#[derive(Serialize)]
struct CheckJson {
    feasible: bool,
    optimal: bool,
    bound: Option<f64>,
    gap: f64,
    excess: f64,
}

impl Serialize for AllocationResult<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Solution { objective, allocation, normalised, prices, pairs, shortfalls, .. } = self.answer;
        let verified = |checked: &CheckReport| CheckJson {
            feasible: true,
            optimal: checked.bound.is_some() && checked.gap <= OPTIMAL,
            bound: checked.bound,
            gap: checked.gap,
            excess: checked.excess,
        };
        let id = |m: usize| self.instance.jobs[m].id;
        let pairs = pairs.iter().map(|pair| SharingPair { jobs: pair.jobs.map(id), shares: &pair.shares });
        let missed = |&Shortfall { job, needed, achieved }: &_| MissedDeadline {
            job: id(job),
            needs: needed,
            gets: achieved,
        };
        let form = AllocationJson {
            policy: self.goal.name,
            objective: *objective,
            allocation,
            normalised,
            prices,
            seconds: self.seconds,
            pairs: self.sharing.then(|| pairs.collect()),
            shortfalls: shortfalls.iter().map(missed).collect(),
            check: self.checked.as_ref().map(verified),
        };
        form.serialize(serializer)
    }
}

/// The allocation as text.
pub(crate) fn text(allocated: &AllocationResult<'_>, screen: &Screen) -> String {
    let AllocationResult { goal, instance, answer, .. } = allocated;
    let types: Vec<_> =
        instance.types.iter().map(|t| format!("{}x{}", t.count, escape_name(&t.name))).collect();
    let mut out = format!(
        "{}: {} on {} in {}\n  {}\n",
        screen.paint(goal.name, Paint::Bold),
        counted(instance.jobs.len() as u64, "job"),
        types.join(", "),
        took(allocated.seconds),
        goal.summary
    );
    let better = match goal.sense {
        Sense::Max => "more is better",
        Sense::Min => "less is better",
    };
    // A rule has no goal of its own: it is told by whom it leaves worst off, as max-min is.
    let of = match answer.certificate {
        Certificate::Rule => "the worst-off job's level, as for max-min; ",
        Certificate::Queues { .. } => "seconds until a job is done, on average; ",
        _ => "",
    };
    let mut lines = vec![("objective", format!("{} ({of}{better})", figure(answer.objective)))];
    let (scarce, bound) = (scarcity(allocated), binding(allocated));
    match (scarce, bound) {
        (None, Some(jobs)) => {
            lines.push(("bottleneck", format!("no type is scarce: {jobs} could go no faster alone")));
        }
        (scarce, bound) => {
            lines.extend(scarce.map(|line| ("bottleneck", line)));
            lines.extend(bound.map(|line| ("bound by", line)));
        }
    }
    lines.extend(prices(allocated).map(|line| ("prices", line)));
    lines.extend(allocated.checked.as_ref().map(|checked| ("checked", verdict(allocated, checked))));
    for (label, value) in lines {
        writeln!(out, "  {label:<10}  {value}").expect("a string takes all");
    }
    for Shortfall { job, needed, achieved } in &answer.shortfalls {
        let (id, needs, gets) = (instance.jobs[*job].id, figure(*needed), figure(*achieved));
        writeln!(out, "  job {id} misses its deadline: it needs {needs} steps a second and gets {gets}")
            .expect("a string takes all");
    }
    out.push('\n');
    out.push_str(&matrix(allocated, screen));
    out.push_str(&pairs(allocated));
    out
}

/// Which type is scarce. A price holds for the first bit of a GPU more; a whole one brings at most that.
fn scarcity(AllocationResult { goal, instance, answer, .. }: &AllocationResult<'_>) -> Option<String> {
    let scarce = answer.bottleneck.scarce?;
    let name = escape_name(&instance.types[scarce.gpu_type].name);
    // A sum of logarithms has no percentages of its own; the mean of what is under them has.
    let gain = match goal.name {
        "strategy-proof" => (scarce.price / instance.jobs.len() as f64).exp_m1(),
        _ => scarce.gain,
    };
    let gain = format!("up to {}", percent(gain));
    // Whoever is worse off than those it stops would not be helped.
    let helps = match goal.name {
        "max-min-fill" if scarce.of > answer.objective * (1.0 + 1e-6) => {
            format!("raise those it stops by {gain}")
        }
        "hierarchical" => "raise those it stops first".to_owned(),
        _ => gained(goal, &gain),
    };
    Some(format!("{name} is scarce: one more {name} would {helps}"))
}

/// Jobs whose own constraint is binding.
fn binding(AllocationResult { instance, answer, .. }: &AllocationResult<'_>) -> Option<String> {
    let found = &answer.bottleneck;
    let named: Vec<String> = found.jobs.iter().map(|m| instance.jobs[*m].id.to_string()).collect();
    let more = found.binding.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if found.binding == 1 { "job" } else { "jobs" };
    (found.binding > 0).then(|| format!("{noun} {}{more}", named.join(", ")))
}

/// The marginal value of one more GPU, by goal.
fn gained(goal: &GoalDef, gain: &str) -> String {
    match goal.name {
        "max-min" | "max-min-fill" => format!("raise everyone by {gain}"),
        "finish-time" => format!("lower the worst finish-time ratio by {gain}"),
        "makespan" => format!("end the last job sooner by {gain}"),
        "throughput" => format!("raise the total throughput by {gain}"),
        "cost" => format!("raise the steps per money by {gain}"),
        "allox" => format!("lower the average completion by {gain}"),
        "strategy-proof" => format!("raise the geometric mean of speeds by {gain}"),
        _ => format!("better the objective by {gain}"),
    }
}

fn prices(allocated: &AllocationResult<'_>) -> Option<String> {
    let priced = match allocated.answer.certificate {
        Certificate::Rule => false,
        Certificate::Queues { .. } => allocated.answer.prices.iter().any(|price| *price > 0.0),
        _ => true,
    };
    if !priced {
        return None;
    }
    let each = allocated.instance.types.iter().zip(&allocated.answer.prices);
    let each: Vec<String> =
        each.map(|(t, price)| format!("{} {}", escape_name(&t.name), figure(*price))).collect();
    let of = match allocated.answer.certificate {
        Certificate::Stages { .. } => "level of those stopped first",
        _ => "objective",
    };
    Some(format!("{} ({of} per GPU more)", each.join(", ")))
}

/// The certificate.
fn verdict(allocated: &AllocationResult<'_>, checked: &CheckReport) -> String {
    let fit = if checked.excess > 0.0 { format!(" (to {:.0e})", checked.excess) } else { String::new() };
    let queues = matches!(allocated.answer.certificate, Certificate::Queues { .. });
    let proved = match checked.bound {
        Some(bound) if queues => {
            let bound = figure(bound);
            let order = "no order in which jobs run to their end";
            match checked.gap <= OPTIMAL {
                true => format!(
                    "the shares fit{fit} and {order} is below {bound} (gap {:.0e})",
                    checked.gap.max(0.0)
                ),
                false => format!(
                    "the shares fit{fit}; {order} is below {bound}, a gap of {}: jobs of several GPUs wait for them all",
                    percent(checked.gap)
                ),
            }
        }
        Some(bound) => {
            let gap = checked.gap.max(0.0);
            format!("the shares fit{fit} and nothing passes {} (gap {gap:.0e})", figure(bound))
        }
        None if queues => {
            format!("the shares fit{fit} and so do the turns; who joins whom is a rule, no optimum is proved")
        }
        None => format!("the shares fit{fit}; the goal is a rule, there is no optimum to prove"),
    };
    match allocated.goal.name {
        "strategy-proof" => format!("{proved}, before the discounts"),
        _ => proved,
    }
}

/// A row per job, a column per type; there are as many types as there are, so that no [`super::Table`] will do.
fn matrix(allocated: &AllocationResult<'_>, screen: &Screen) -> String {
    let AllocationResult { instance, answer, .. } = allocated;
    let mut headings = vec!["JOB".to_owned(), "GPUS".to_owned()];
    headings.extend(instance.types.iter().map(|t| escape_name(&t.name)));
    headings.push("SPEED".to_owned());
    let rows = instance.jobs.iter().zip(answer.allocation.rows()).zip(&answer.normalised);
    let rows = rows.take(MOST_LINES).map(|((job, shares), speed)| {
        let mut row = vec![job.id.to_string(), job.gpus.to_string()];
        row.extend(
            shares.iter().map(|share| if *share < NOTHING { "·".into() } else { format!("{share:.4}") }),
        );
        row.push(format!("{speed:.4}"));
        row
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let width = |column: usize| {
        let all = std::iter::once(&headings).chain(&rows);
        all.map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ")
    };
    let mut out = screen.paint(&line(&headings), Paint::Dim).into_owned() + "\n";
    for row in &rows {
        out.push_str(&line(row));
        out.push('\n');
    }
    more(&mut out, instance.jobs.len(), "job");
    out
}

fn pairs(allocated: &AllocationResult<'_>) -> String {
    let AllocationResult { instance, answer, .. } = allocated;
    let mut out = String::new();
    for pair in answer.pairs.iter().take(MOST_LINES) {
        let shares = pair.shares.iter().zip(&instance.types).filter(|(share, _)| **share >= NOTHING);
        let shares: Vec<String> =
            shares.map(|(share, t)| format!("{share:.4} on {}", escape_name(&t.name))).collect();
        let [a, b] = pair.jobs.map(|m| instance.jobs[m].id);
        writeln!(out, "jobs {a} and {b} together: {}", shares.join(", ")).expect("a string takes all");
    }
    more(&mut out, answer.pairs.len(), "pair");
    out
}

fn more(out: &mut String, all: usize, noun: &str) {
    if all > MOST_LINES {
        writeln!(out, "… and {} more; --json lists them all", counted((all - MOST_LINES) as u64, noun))
            .expect("a string takes all");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_allocate::{GpuType, Job, Options, goal};

    /// What is said of what keeps an allocation on two V100 and three K80 from being better.
    fn said(name: &str, jobs: &[[f64; 2]]) -> String {
        let jobs = jobs.iter().zip(0..).map(|(row, id)| Job::new(id, row.to_vec())).collect();
        let types = vec![GpuType::new("V100", 2), GpuType::new("K80", 3)];
        let instance = Instance { types, jobs, pairs: None, entities: None };
        let goal = goal(name).unwrap();
        let answer = goal.solve(&instance, Options::default()).unwrap();
        let (instance, answer) = (&instance, &answer);
        let allocated =
            AllocationResult { goal, instance, answer, checked: None, sharing: false, seconds: 0.0 };
        let text = text(&allocated, &Screen::for_tests(None));
        text.lines().find(|line| line.contains("bottleneck")).unwrap_or_default().trim().to_owned()
    }

    #[test]
    fn a_gpu_more_is_said_to_help_whom_it_helps() {
        // The first is no faster anywhere, and the worst off; the others have too few of the V100.
        let (slow, fast) = ([1.0, 1.0], [10.0, 0.0]);
        insta::assert_snapshot!([
            said("max-min", &[slow, fast, fast, fast]),
            said("max-min-fill", &[slow, fast, fast, fast]),
            said("max-min-fill", &[fast; 5]),
        ].join("\n"), @"
        bottleneck  no type is scarce: job 0 could go no faster alone
        bottleneck  V100 is scarce: one more V100 would raise those it stops by up to 50 %
        bottleneck  V100 is scarce: one more V100 would raise everyone by up to 50 %
        ");
    }

    #[test]
    fn a_rule_says_what_its_objective_is() {
        let types = vec![GpuType::new("V100", 1)];
        let jobs = vec![Job::new(0, vec![2.0]), Job::new(1, vec![3.0])];
        let instance = Instance { types, jobs, pairs: None, entities: None };
        let goal = goal("fifo-hetero").unwrap();
        let answer = goal.solve(&instance, Options::default()).unwrap();
        let checked = Some(warpyard_allocate::check(&instance, goal, Options::default(), &answer).unwrap());
        let (instance, answer) = (&instance, &answer);
        let allocated = AllocationResult { goal, instance, answer, checked, sharing: false, seconds: 0.0 };
        let text = text(&allocated, &Screen::for_tests(None));
        let said: Vec<&str> = text.lines().skip(2).take(2).map(str::trim).collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        objective   0 (the worst-off job's level, as for max-min; more is better)
        checked     the shares fit; the goal is a rule, there is no optimum to prove
        ");
    }

    #[test]
    fn an_average_completion_says_what_is_proved_of_it() {
        let said = |gpus: u32| {
            let types = vec![GpuType::new("V100", 2)];
            let job = |(id, steps, gpus)| Job { steps: Some(steps), gpus, ..Job::new(id, vec![1.0]) };
            let jobs = [(0, 10.0, 1), (1, 20.0, gpus), (2, 40.0, 1)].map(job).to_vec();
            let instance = Instance { types, jobs, pairs: None, entities: None };
            let goal = goal("allox").unwrap();
            let answer = goal.solve(&instance, Options::default()).unwrap();
            let checked = warpyard_allocate::check(&instance, goal, Options::default(), &answer).unwrap();
            let (instance, answer, checked) = (&instance, &answer, Some(checked));
            let allocated =
                AllocationResult { goal, instance, answer, checked, sharing: false, seconds: 0.0 };
            let text = text(&allocated, &Screen::for_tests(None));
            let lines: Vec<&str> = text.lines().skip(2).map(str::trim).collect();
            lines[..lines.iter().position(|line| line.is_empty()).unwrap()].join("\n") + "\n"
        };
        insta::assert_snapshot!(said(1) + &said(2), @r"
        objective   26.667 (seconds until a job is done, on average; less is better)
        bottleneck  V100 is scarce: one more V100 would lower the average completion by up to 12 %
        prices      V100 3.333 (objective per GPU more)
        checked     the shares fit and no order in which jobs run to their end is below 26.667 (gap 0e0)
        objective   36.667 (seconds until a job is done, on average; less is better)
        checked     the shares fit; no order in which jobs run to their end is below 26.667, a gap of 27 %: jobs of several GPUs wait for them all
        ");
    }

    #[test]
    fn the_worked_example_is_told_in_words() {
        let gpu = |name: &str| GpuType::new(name, 1);
        let jobs = [[40.0, 10.0], [12.0, 4.0], [100.0, 50.0]];
        let jobs = jobs.iter().zip(0..).map(|(row, id)| Job::new(id, row.to_vec())).collect();
        let instance = Instance { types: vec![gpu("V100"), gpu("K80")], jobs, pairs: None, entities: None };
        let goal = goal("max-min").unwrap();
        let answer = goal.solve(&instance, Options::default()).unwrap();
        let allocated = AllocationResult {
            goal,
            instance: &instance,
            answer: &answer,
            checked: None,
            sharing: false,
            seconds: 0.0,
        };
        insta::assert_snapshot!(text(&allocated, &Screen::for_tests(None)), @"
        max-min: 3 jobs on 1xV100, 1xK80 in 0 µs
          the worst-off job's weighted normalised throughput is as large as it can be
          objective   0.7273 (more is better)
          bottleneck  V100 is scarce: one more V100 would raise everyone by up to 60 %
          bound by    jobs 0, 1, 2
          prices      V100 0.4364, K80 0.1455 (objective per GPU more)

        JOB  GPUS    V100     K80   SPEED
          0     1  0.4545       ·  0.7273
          1     1  0.4545  0.0909  0.7273
          2     1  0.0909  0.9091  0.7273
        ");
    }
}
