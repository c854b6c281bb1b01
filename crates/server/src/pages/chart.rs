//! Charts over time as SVG, small enough to be part of a page: lines, and heat strips of one row per device. Both span
//! exactly the range asked for, whether or not there are samples for all of it. A script reads values off them.

use super::format::escape;
use std::fmt::Write;

/// The width of every plot, in the units of its view box.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// How many shades a heat strip has beside the one for 0.
const SHADES: f64 = 10.0;

/// The time axis: the range that was asked for.
pub(super) struct Axis {
    /// Milliseconds since the epoch.
    pub(super) from: i64,
    pub(super) to: i64,
    /// Where labels stand, in percent of the width, and what they say.
    pub(super) ticks: Vec<Tick>,
    /// Milliseconds one sample stands for.
    step: i64,
}

/// A label of the time axis.
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
    /// Where the text is aligned: at the edges it must not stick out.
    pub(super) anchor: &'static str,
}

impl Axis {
    /// The last `seconds` before `to`, with a label every `tick` of them; a sample every `step`.
    pub(super) fn ending(to: i64, seconds: u64, tick: u64, step: u64) -> Axis {
        let (unit, name) = match tick {
            86_400.. => (86_400, "d"),
            3_600.. => (3_600, "h"),
            _ => (60, "min"),
        };
        let mark = |n: u64| {
            let back = seconds - n * tick;
            let label = if back == 0 { "now".into() } else { format!("−{} {name}", back / unit) };
            let anchor = match n {
                0 => "start",
                _ if back == 0 => "end",
                _ => "middle",
            };
            Tick { at: (n * tick) as f64 / seconds as f64 * 100.0, label, anchor }
        };
        let ticks = (0..=seconds / tick).map(mark).collect();
        Axis { from: to - seconds as i64 * 1000, to, ticks, step: step as i64 * 1000 }
    }

    fn x(&self, at: i64) -> f64 {
        ((at - self.from) as f64 / (self.to - self.from).max(1) as f64 * WIDTH).clamp(0.0, WIDTH)
    }

    /// Whether samples between two moments are missing.
    fn gap(&self, earlier: i64, later: i64) -> bool {
        later - earlier > self.step * 5 / 2
    }
}

/// A series: its name and a value for each moment, where there is one.
pub(super) type Series = (String, Vec<Option<f64>>);

/// Lines over time.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) unit: &'static str,
    /// The labels of the value axis from the top: the highest, the middle, 0.
    pub(super) scale: [String; 3],
    pub(super) lines: Vec<Line>,
    /// The moments in seconds, for reading values off it.
    pub(super) moments: String,
    pub(super) words: String,
}

/// A line.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) path: String,
    /// The area under it.
    pub(super) area: String,
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
        axis: &Axis,
        moments: &[i64],
        series: &[Series],
    ) -> Chart {
        let largest = series.iter().flat_map(|(_, v)| v.iter().flatten()).copied().fold(0.0, f64::max);
        let top = top.unwrap_or_else(|| round_above(largest));
        let y = |value: f64| HEIGHT - value.min(top) / top * (HEIGHT - 4.0) - 2.0;
        let line = |(i, (name, values)): (usize, &Series)| {
            let last = values.iter().rev().flatten().next().map(|v| short(*v)).unwrap_or_else(|| "–".into());
            let (path, area) = drawn(axis, moments, values, y);
            Line {
                name: escape(name),
                class: format!("l{}", i % 6),
                path,
                area,
                values: joined(values),
                unit: unit_of(&last, unit),
                last,
            }
        };
        let title = title.into();
        let lines: Vec<_> = series.iter().enumerate().map(line).collect();
        let said: Vec<_> = lines.iter().map(|l| format!("{} {} {}", l.name, l.last, l.unit)).collect();
        let label = |value: f64| format!("{} {}", short(value), unit_of(&short(value), unit));
        Chart {
            words: format!("{title}, now: {}", said.join(", ")),
            title,
            unit,
            scale: [label(top), label(top / 2.0), "0".into()],
            lines,
            moments: in_seconds(moments),
        }
    }
}

/// A line and the area under it; where samples are missing the line is interrupted.
fn drawn(axis: &Axis, moments: &[i64], values: &[Option<f64>], y: impl Fn(f64) -> f64) -> (String, String) {
    let (mut path, mut area) = (String::new(), String::new());
    let mut before: Option<i64> = None;
    for (&at, value) in moments.iter().zip(values) {
        let Some(value) = value else {
            before = None;
            continue;
        };
        let (x, y) = (axis.x(at), y(*value));
        match before {
            Some(earlier) if !axis.gap(earlier, at) => {
                write!(path, "L{x:.1} {y:.1}").expect("a string takes all");
                let from = axis.x(earlier);
                write!(area, "L{x:.1} {y:.1}V{HEIGHT}H{from:.1}ZM{x:.1} {y:.1}").expect("a string takes all");
            }
            _ => {
                write!(path, "M{x:.1} {y:.1}").expect("a string takes all");
                write!(area, "M{x:.1} {y:.1}").expect("a string takes all");
            }
        }
        before = Some(at);
    }
    (path, area)
}

/// Heat strips: a row for each device or worker, darker where the share is larger.
pub(super) struct Heat {
    pub(super) title: String,
    pub(super) about: &'static str,
    pub(super) rows: Vec<HeatRow>,
    pub(super) moments: String,
    pub(super) words: String,
}

/// The strip of one device or worker.
pub(super) struct HeatRow {
    pub(super) name: String,
    pub(super) cells: Vec<Cell>,
    pub(super) values: String,
    pub(super) last: String,
}

/// A piece of a strip with one shade.
#[derive(Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) x: f64,
    pub(super) width: f64,
    /// 0 is nothing, 10 is all.
    pub(super) shade: u8,
}

impl Heat {
    /// Draws shares in percent.
    pub(super) fn of(
        title: &str,
        about: &'static str,
        axis: &Axis,
        moments: &[i64],
        series: &[Series],
    ) -> Heat {
        let row = |(name, values): &Series| HeatRow {
            name: escape(name),
            cells: cells(axis, moments, values),
            values: joined(&values.iter().map(|v| v.map(f64::round)).collect::<Vec<_>>()),
            last: values.last().copied().flatten().map(|v| short(v.round())).unwrap_or_else(|| "–".into()),
        };
        let rows: Vec<_> = series.iter().map(row).collect();
        let said: Vec<_> = rows.iter().map(|r| format!("{} {} %", r.name, r.last)).collect();
        Heat {
            words: format!("{title}, now: {}", said.join(", ")),
            title: title.into(),
            about,
            rows,
            moments: in_seconds(moments),
        }
    }
}

/// Pieces of equal shade joined: each sample stands for the time until the next, or for one step before a gap.
fn cells(axis: &Axis, moments: &[i64], values: &[Option<f64>]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for (i, (&at, value)) in moments.iter().zip(values).enumerate() {
        let Some(value) = value else { continue };
        let next = moments.get(i + 1).copied().filter(|next| !axis.gap(at, *next));
        let (x, end) = (axis.x(at), axis.x(next.unwrap_or(at + axis.step)));
        let shade = (value / 100.0 * SHADES).round().clamp(0.0, SHADES) as u8;
        // A small value other than 0 gets a visible shade.
        let shade = if *value > 0.0 { shade.max(1) } else { shade };
        let tenth = |x: f64| (x * 10.0).round() / 10.0;
        match cells.last_mut() {
            Some(last) if last.shade == shade && (last.x + last.width - x).abs() < 0.2 => {
                last.width = tenth(end - last.x);
            }
            _ => cells.push(Cell { x: tenth(x), width: tenth(end - x), shade }),
        }
    }
    cells
}

fn joined(values: &[Option<f64>]) -> String {
    values.iter().map(|v| v.map(short).unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

fn in_seconds(moments: &[i64]) -> String {
    moments.iter().map(|m| (m / 1000).to_string()).collect::<Vec<_>>().join(" ")
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

/// The next of 2, 4, 10, 20, 40, … that is not below, so that half of it is round, too.
fn round_above(value: f64) -> f64 {
    if value <= 2.0 {
        return 2.0;
    }
    let tens = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 4.0, 6.0, 10.0].into_iter().map(|m| m * tens).find(|t| *t >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten minutes that end at 600 s, a sample every 60.
    fn axis() -> Axis {
        Axis::ending(600_000, 600, 120, 60)
    }

    #[test]
    fn a_chart_spans_what_was_asked_for_whatever_there_are_samples_of() {
        let axis = axis();
        let ticks: Vec<_> = axis.ticks.iter().map(|t| (t.at, t.label.as_str(), t.anchor)).collect();
        assert_eq!(ticks[..2], [(0.0, "−10 min", "start"), (20.0, "−8 min", "middle")]);
        assert_eq!(ticks.last(), Some(&(100.0, "now", "end")));
        let series = [("a".to_owned(), vec![Some(0.0), Some(30.0)])];
        let chart = Chart::of("x", "s", None, &axis, &[480_000, 540_000], &series);
        assert_eq!(chart.lines[0].path, "M480.0 118.0L540.0 31.0", "the first eight minutes stay empty");
        assert_eq!(chart.scale, ["40 s", "20 s", "0"]);
        assert_eq!(chart.lines[0].values, "0 30");
    }

    #[test]
    fn missing_samples_interrupt_the_line_and_the_strip() {
        let axis = axis();
        let moments = [0, 60_000, 300_000, 360_000];
        let values = vec![Some(50.0), Some(50.0), Some(50.0), None];
        let chart = Chart::of("x", "%", Some(100.0), &axis, &moments, &[("a".to_owned(), values.clone())]);
        assert_eq!(chart.lines[0].path, "M0.0 60.0L60.0 60.0M300.0 60.0");
        assert_eq!(
            cells(&axis, &moments, &values),
            [Cell { x: 0.0, width: 120.0, shade: 5 }, Cell { x: 300.0, width: 60.0, shade: 5 }]
        );
    }

    #[test]
    fn little_is_told_from_nothing() {
        let shades = |values: [f64; 3]| {
            let values = values.map(Some);
            cells(&axis(), &[0, 60_000, 120_000], &values).iter().map(|c| c.shade).collect::<Vec<_>>()
        };
        assert_eq!(shades([0.0, 0.4, 100.0]), [0, 1, 10]);
        assert_eq!([1.0, 7.0, 20.0, 21.0, 61.0].map(round_above), [2.0, 10.0, 20.0, 40.0, 100.0]);
    }
}
