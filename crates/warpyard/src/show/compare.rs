//! `compare`: means over several simulations with how sure they are, and policies side by side.

use super::{Align, Cell, Screen, Table, figure, percent};
use crate::simulation::meaning;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use warpyard_sim::SimReport;

/// The population that simulations are a sample of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// None: a single workload, so there is no sampling error.
    Single,
    /// Workloads of random seeds.
    Seeds,
}

/// The figures of several simulations under one policy.
pub(crate) struct PolicyFigures {
    runs: usize,
    /// Of each figure the mean.
    means: Map<String, Value>,
    /// Of each figure between what its mean truly lies, 95 times in 100; none where that cannot be told.
    intervals: Map<String, Value>,
    /// The paired difference from another policy on the same workloads.
    paired: Option<PairedDifference>,
}

/// Differences between two policies, workload by workload: what the workloads have in common cancels out, so they are
/// surer than the difference of two means.
struct PairedDifference {
    against: String,
    /// Of each figure the mean of the differences.
    means: Map<String, Value>,
    /// And between what that truly lies, 95 times in 100.
    intervals: Map<String, Value>,
}

/// Fields of a report that are names, not figures.
const NAMES: [&str; 2] = ["policy", "seed"];

impl PolicyFigures {
    pub(crate) fn of(runs: &[SimReport], sample: Sample) -> Result<Self, serde_json::Error> {
        let rows: Vec<Value> = runs.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let first = rows.first().and_then(Value::as_object).cloned().unwrap_or_default();
        let (mut means, mut intervals) = (Map::new(), Map::new());
        for (key, value) in first {
            let values: Vec<f64> = rows.iter().filter_map(|row| row[&key].as_f64()).collect();
            if NAMES.contains(&key.as_str()) || values.len() < rows.len() {
                means.insert(key, value);
                continue;
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let same = values.iter().all(|other| *other == values[0]);
            let half = match sample {
                Sample::Single => Some(0.0),
                Sample::Seeds => half_width(&values, mean),
            };
            intervals.insert(key.clone(), half.map_or(Value::Null, |half| json!([mean - half, mean + half])));
            means.insert(key, if same { value } else { json!(mean) });
        }
        Ok(Self { runs: runs.len(), means, intervals, paired: None })
    }

    /// The same with how much it differs from another policy that had the same workloads in the same order.
    pub(crate) fn beside(
        mut self,
        runs: &[SimReport],
        others: &[SimReport],
        sample: Sample,
    ) -> Result<Self, serde_json::Error> {
        let values =
            |runs: &[SimReport]| runs.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
        let (runs, others) = (values(runs)?, values(others)?);
        let against = others.first().and_then(|row| row["policy"].as_str()).unwrap_or_default().to_owned();
        let (mut means, mut intervals) = (Map::new(), Map::new());
        for key in self.intervals.keys().filter(|key| *key != "wall_seconds") {
            let both = runs.iter().zip(&others);
            let apart: Vec<f64> =
                both.filter_map(|(one, other)| Some(one[key].as_f64()? - other[key].as_f64()?)).collect();
            let mean = apart.iter().sum::<f64>() / apart.len().max(1) as f64;
            let half = match sample {
                Sample::Single => Some(0.0),
                Sample::Seeds => half_width(&apart, mean),
            };
            means.insert(key.clone(), json!(mean));
            intervals.insert(key.clone(), half.map_or(Value::Null, |half| json!([mean - half, mean + half])));
        }
        self.paired = Some(PairedDifference { against, means, intervals });
        Ok(self)
    }

    fn policy(&self) -> &str {
        self.means.get("policy").and_then(Value::as_str).unwrap_or_default()
    }

    fn number(&self, key: &str) -> f64 {
        self.means.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// A figure with how sure it is, and the number it is.
    pub(crate) fn cell(&self, key: &str) -> (String, Option<f64>) {
        let number = self.number(key);
        let text = match key {
            "utilisation" => percent(number),
            _ if key.ends_with("_s") => self.seconds(key),
            _ => figure(number),
        };
        (text, Some(number))
    }

    /// Seconds with how sure they are.
    fn seconds(&self, key: &str) -> String {
        let mean = self.number(key);
        let high = self.intervals.get(key).and_then(|interval| interval[1].as_f64());
        match high.filter(|high| *high > mean) {
            Some(high) => format!("{mean:.1} ± {:.1}", high - mean),
            None => format!("{mean:.1}"),
        }
    }
}

impl PairedDifference {
    /// A difference with how sure it is: "−12.3 ± 4.5".
    fn cell(&self, key: &str) -> String {
        let number = |value: Option<&Value>| value.and_then(Value::as_f64);
        let mean = number(self.means.get(key)).unwrap_or(f64::NAN);
        let high = self.intervals.get(key).and_then(|interval| interval[1].as_f64());
        let half = high.map(|high| high - mean).filter(|half| *half > 0.0);
        let (scale, digits, unit) = if key == "utilisation" { (100.0, 1, " %") } else { (1.0, 1, "") };
        let sign = if mean < 0.0 { "−" } else { "+" };
        let mean = format!("{sign}{:.digits$}", (mean * scale).abs());
        half.map_or(format!("{mean}{unit}"), |half| format!("{mean} ± {:.digits$}{unit}", half * scale))
    }
}

/// The figures under the names that one simulation has them under, then `repeat`, `intervals_95` and, of all but the
/// first policy, `paired`.
impl Serialize for PolicyFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = self.means.clone();
        all.insert("repeat".to_owned(), json!(self.runs));
        all.insert("intervals_95".to_owned(), Value::Object(self.intervals.clone()));
        if let Some(PairedDifference { against, means, intervals }) = &self.paired {
            let paired = json!({"against": against, "differences": means, "intervals_95": intervals});
            all.insert("paired".to_owned(), paired);
        }
        all.serialize(serializer)
    }
}

/// Half the width of Student's interval for the mean.
fn half_width(values: &[f64], mean: f64) -> Option<f64> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some(student(freedom) * (squares / freedom / values.len() as f64).sqrt())
}

/// The 97.5 % point of Student's distribution: exact for 1 and 2, from there the expansion around the normal one
/// (Abramowitz and Stegun 26.7.5), within 2 % at 3 and a thousandth from 6 on.
fn student(freedom: f64) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    match freedom {
        1.0 => 12.706_204_736_174_7,
        2.0 => 4.302_652_729_749_46,
        n => {
            let (z3, z5, z7) = (Z.powi(3), Z.powi(5), Z.powi(7));
            let g1 = (z3 + Z) / 4.0;
            let g2 = (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / 96.0;
            let g3 = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / 384.0;
            Z + g1 / n + g2 / n.powi(2) + g3 / n.powi(3)
        }
    }
}

/// The columns of a comparison, with the figure in each.
const COLUMNS: [(&str, &str); 8] = [
    ("WAIT", "average_wait_s"),
    ("RESPONSE", "average_response_s"),
    ("COMPLETION", "average_completion_s"),
    ("P95 COMPLETION", "p95_completion_s"),
    ("LONGEST WAIT", "max_wait_s"),
    ("MAKESPAN", "makespan_s"),
    ("UTILISATION", "utilisation"),
    ("WEIGHTED TURNAROUND", "weighted_turnaround_s"),
];

/// A row for each policy that has something in it.
fn columns_of(
    rows: &[PolicyFigures],
    cell: impl Fn(&PolicyFigures, &str) -> Option<String>,
    screen: &Screen,
) -> String {
    let headings = COLUMNS.iter().map(|(heading, _)| (*heading, Align::Right));
    let mut table = Table::new(std::iter::once(("POLICY", Align::Left)).chain(headings).collect::<Vec<_>>());
    for row in rows {
        let cells: Option<Vec<Cell>> =
            COLUMNS.iter().map(|(_, key)| cell(row, key).map(Cell::from)).collect();
        if let Some(cells) = cells {
            table.row_of(std::iter::once(Cell::from(row.policy())).chain(cells).collect());
        }
    }
    table.render(screen)
}

/// What the columns mean, a line each.
fn definitions() -> String {
    let width = COLUMNS.iter().map(|(heading, _)| heading.len()).max().unwrap_or(0);
    let line = |(heading, key): &(&str, &str)| {
        let mean = if key.starts_with("average") { "mean over jobs, " } else { "" };
        format!("  {:<width$}  {mean}{}\n", heading.to_lowercase(), meaning(key))
    };
    COLUMNS.iter().map(line).collect()
}

/// Policies side by side, then how much each differs from the first on the same workloads.
pub(crate) fn table(rows: &[PolicyFigures], screen: &Screen) -> String {
    let figures = columns_of(rows, |row, key| Some(row.cell(key).0), screen);
    let runs = rows.first().map_or(0, |row| row.runs);
    let of = match runs {
        1 => "seconds, of one simulation each".to_owned(),
        runs => format!("seconds, means of {runs} simulations each, ± 95 % intervals"),
    };
    let mut out = format!("{figures}{of}\n");
    if let Some(PairedDifference { against, .. }) = rows.iter().find_map(|row| row.paired.as_ref()) {
        let differences =
            columns_of(rows, |row, key| row.paired.as_ref().map(|paired| paired.cell(key)), screen);
        let of = match runs {
            1 => "on the same workload".to_owned(),
            runs => format!(
                "workload by workload, means over {runs}, ± 95 % intervals; where an interval has 0 in it the two may be alike"
            ),
        };
        out.push_str(&format!("\ndifference from {against}\n{differences}{of}\n"));
    }
    out.push_str(&format!("\nwhere\n{}", definitions()));
    for row in rows {
        let (jobs, finished, rejected) = (row.number("jobs"), row.number("finished"), row.number("rejected"));
        if finished < jobs {
            let policy = row.policy();
            let rest = figure(jobs - finished);
            let of = figure(jobs);
            out.push_str(&format!(
                "{policy}: {rest} of {of} jobs did not succeed, {} of them rejected\n",
                figure(rejected)
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn student_is_what_tables_say() {
        for (freedom, published) in [(1.0, 12.706), (2.0, 4.303), (5.0, 2.571), (10.0, 2.228), (49.0, 2.010)]
        {
            let off = (student(freedom) / published - 1.0).abs();
            assert!(off < 4e-3, "{freedom}: {} {published}", student(freedom));
        }
    }

    #[test]
    fn differences_are_taken_workload_by_workload() {
        let run = |policy: &str, wait: f64| {
            let record = SimReport::of_records(policy.to_owned(), &[], 1, 0, false);
            SimReport { wait: warpyard_sim::report::Distribution { average: wait, ..record.wait }, ..record }
        };
        // The workloads differ by far more than the policies do.
        let (fifo, sjf) = ([10.0, 500.0, 90.0], [8.0, 497.0, 89.0]);
        let (fifo, sjf) = (fifo.map(|wait| run("fifo", wait)), sjf.map(|wait| run("sjf", wait)));
        let row = PolicyFigures::of(&sjf, Sample::Seeds).unwrap().beside(&sjf, &fifo, Sample::Seeds).unwrap();
        let row = serde_json::to_value(&row).unwrap();
        assert_eq!(row["paired"]["against"], "fifo");
        assert_eq!(row["paired"]["differences"]["average_wait_s"], -2.0);
        let half = row["paired"]["intervals_95"]["average_wait_s"][1].as_f64().unwrap() + 2.0;
        assert!((half - 4.302_652_729_749_46 / 3f64.sqrt()).abs() < 1e-9, "{half}");
        let alone = row["intervals_95"]["average_wait_s"][1].as_f64().unwrap() - 198.0;
        assert!(alone > 100.0 * half, "unpaired, nothing could be said: {alone}");
    }

    #[test]
    fn an_interval_needs_two_values() {
        assert_eq!(half_width(&[3.0], 3.0), None);
        let half = half_width(&[1.0, 3.0], 2.0).unwrap();
        assert!((half - 12.706_204_736).abs() < 1e-6, "{half}");
    }
}
