//! `compare`: means over several simulations with how sure they are, and policies side by side.

use super::{Align, Screen, Table, figure, percent};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use warpyard_sim::SimReport;

/// What simulations were drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sample {
    /// Nothing: the one simulation is all there is to know.
    Everything,
    /// Seeds, which others could have been.
    Seeds,
}

/// The figures of several simulations under one policy.
pub(crate) struct Repeated {
    runs: usize,
    /// Of each figure the mean.
    means: Map<String, Value>,
    /// Of each figure between what its mean truly lies, 95 times in 100; none where that cannot be told.
    intervals: Map<String, Value>,
}

/// What a figure is not.
const NAMES: [&str; 2] = ["policy", "seed"];

impl Repeated {
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
                Sample::Everything => Some(0.0),
                Sample::Seeds => half_width(&values, mean),
            };
            intervals.insert(key.clone(), half.map_or(Value::Null, |half| json!([mean - half, mean + half])));
            means.insert(key, if same { value } else { json!(mean) });
        }
        Ok(Self { runs: runs.len(), means, intervals })
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

/// The figures under the names that one simulation has them under, then `repeat` and `intervals_95`.
impl Serialize for Repeated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = self.means.clone();
        all.insert("repeat".to_owned(), json!(self.runs));
        all.insert("intervals_95".to_owned(), Value::Object(self.intervals.clone()));
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

/// Policies side by side.
pub(crate) fn table(rows: &[Repeated], screen: &Screen) -> String {
    let right = |heading| (heading, Align::Right);
    let mut table = Table::new([
        ("POLICY", Align::Left),
        right("WAIT"),
        right("RESPONSE"),
        right("COMPLETION"),
        right("P95 COMPLETION"),
        right("LONGEST WAIT"),
        right("MAKESPAN"),
        right("UTILISATION"),
    ]);
    for row in rows {
        let policy = row.means.get("policy").and_then(Value::as_str).unwrap_or_default();
        table.row([
            policy.into(),
            row.seconds("average_wait_s").into(),
            row.seconds("average_response_s").into(),
            row.seconds("average_completion_s").into(),
            row.seconds("p95_completion_s").into(),
            row.seconds("max_wait_s").into(),
            row.seconds("makespan_s").into(),
            percent(row.number("utilisation")).into(),
        ]);
    }
    let runs = rows.first().map_or(0, |row| row.runs);
    let of = match runs {
        1 => "seconds, of one simulation each".to_owned(),
        runs => format!("seconds, means of {runs} simulations each, ± 95 % intervals"),
    };
    let mut out = format!("{}{of}\n", table.render(screen));
    for row in rows {
        let (jobs, finished, rejected) = (row.number("jobs"), row.number("finished"), row.number("rejected"));
        if finished < jobs {
            let policy = row.means.get("policy").and_then(Value::as_str).unwrap_or_default();
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
    fn an_interval_needs_two_values() {
        assert_eq!(half_width(&[3.0], 3.0), None);
        let half = half_width(&[1.0, 3.0], 2.0).unwrap();
        assert!((half - 12.706_204_736).abs() < 1e-6, "{half}");
    }
}
