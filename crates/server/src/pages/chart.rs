//! Lines over time as pictures, small enough to be part of a page; a script reads values off them.

use super::words::{span, text};
use std::fmt::Write;

pub(super) const WIDTH: f64 = 600.0;
pub(super) const HEIGHT: f64 = 120.0;

/// A picture of lines over time.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// What the top is.
    pub(super) top: String,
    pub(super) top_unit: &'static str,
    pub(super) lines: Vec<Line>,
    /// The moments, in milliseconds, for whoever reads values off it.
    pub(super) moments: String,
    pub(super) words: String,
    /// How long ago it begins.
    pub(super) since: String,
}

/// A line.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) path: String,
    pub(super) values: String,
    pub(super) last: String,
    pub(super) unit: &'static str,
}

impl Chart {
    /// Draws values at moments. The top is fixed, or else a round number above all of them.
    pub(super) fn of(
        title: impl Into<String>,
        unit: &'static str,
        top: Option<f64>,
        moments: &[i64],
        lines: &[(String, Vec<Option<f64>>)],
    ) -> Chart {
        let largest = lines.iter().flat_map(|(_, v)| v.iter().flatten()).copied().fold(0.0, f64::max);
        let top = top.unwrap_or_else(|| round_above(largest));
        let (first, last) = (moments.first().copied().unwrap_or(0), moments.last().copied().unwrap_or(1));
        let x = |at: i64| (at - first) as f64 / (last - first).max(1) as f64 * WIDTH;
        let y = |value: f64| HEIGHT - value.min(top) / top * (HEIGHT - 4.0) - 2.0;
        let line = |(i, (name, values)): (usize, &(String, Vec<Option<f64>>))| {
            let (mut path, mut pen_down) = (String::new(), false);
            for (at, value) in moments.iter().zip(values) {
                match value {
                    Some(value) => {
                        let to = if pen_down { 'L' } else { 'M' };
                        write!(path, "{to}{:.1} {:.1}", x(*at), y(*value)).expect("a string takes all");
                        pen_down = true;
                    }
                    None => pen_down = false,
                }
            }
            let said = |v: &Option<f64>| v.map(short).unwrap_or_default();
            let last = values.iter().rev().flatten().next().map(|v| short(*v)).unwrap_or_else(|| "–".into());
            Line {
                name: text(name),
                class: format!("l{}", i % 6),
                path,
                values: values.iter().map(said).collect::<Vec<_>>().join(" "),
                unit: unit_of(&last, unit),
                last,
            }
        };
        let title = title.into();
        let lines: Vec<_> = lines.iter().enumerate().map(line).collect();
        let said: Vec<_> = lines.iter().map(|l| format!("{} {} {}", l.name, l.last, l.unit)).collect();
        Chart {
            words: format!("{title}, now: {}", said.join(", ")),
            since: format!("{} ago", span(last - first)),
            title,
            unit,
            top: short(top),
            top_unit: unit_of(&short(top), unit),
            lines,
            moments: moments.iter().map(|m| (m / 1000).to_string()).collect::<Vec<_>>().join(" "),
        }
    }
}

/// The unit after a number: one task, two tasks. The pages' script says it the same way.
fn unit_of(number: &str, unit: &'static str) -> &'static str {
    if number == "1" && unit == "tasks" { "task" } else { unit }
}

/// A number with as many figures as one reads.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.trunc() => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The next of 1, 2, 5, 10, 20, … that is not below.
fn round_above(value: f64) -> f64 {
    if value <= 1.0 {
        return 1.0;
    }
    let tens = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * tens).find(|t| *t >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_lifts_the_pen_and_the_top_is_round() {
        let lines = [("a".to_owned(), vec![Some(0.0), None, Some(30.0)])];
        let chart = Chart::of("x", "s", None, &[0, 1000, 2000], &lines);
        assert_eq!(chart.top, "50");
        let one = Chart::of("x", "tasks", None, &[0, 1000], &[("a".to_owned(), vec![Some(1.0), Some(0.0)])]);
        assert_eq!([one.top_unit, one.lines[0].unit], ["task", "tasks"]);
        assert_eq!(chart.lines[0].path, "M0.0 118.0M600.0 48.4");
        assert_eq!(chart.lines[0].values, "0  30");
        assert_eq!([1.0, 7.0, 20.0, 21.0].map(round_above), [1.0, 10.0, 20.0, 50.0]);
    }
}
