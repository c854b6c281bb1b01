//! A value of each series for each of several rows, such as users: a mark of its own for each series.

use super::axis::{Axis, written};
use super::cdf::shortened;
use super::svg::{Anchor, Svg};
use super::{Series, Theme, Unit};

const WIDTH: f64 = 720.0;
const ROW: f64 = 24.0;
/// More rows than this are not drawn; it is said how many.
const MOST_ROWS: usize = 30;

/// Draws a row for each name; `series` have a value for each.
pub fn dots(title: &str, unit: Unit, rows: &[String], series: &[Series<'_>], theme: Theme) -> String {
    let shown = rows.len().min(MOST_ROWS);
    let legend = 24.0 * (series.len() as f64 / 4.0).ceil();
    let more = rows.len() - shown;
    let height = shown as f64 * ROW + legend + if more > 0 { 62.0 } else { 44.0 };
    let most = series.iter().flat_map(|series| series.values.iter().take(shown)).copied().fold(0.0, f64::max);
    let (left, right, top) = (130.0, WIDTH - 30.0, legend + 8.0);
    let bottom = top + shown as f64 * ROW;
    let x = Axis::linear(most * 1.05, unit, (left, right));
    let mut svg = Svg::new(WIDTH, height, title, theme);
    for (number, series) in series.iter().enumerate() {
        let (px, py) = (left + (number % 4) as f64 * 142.0, 14.0 + (number / 4) as f64 * 24.0);
        mark(&mut svg, number, (px, py - 4.0));
        svg.text((px + 12.0, py), Anchor::Start, theme.ink(), &shortened(series.name, 17));
    }
    for tick in x.ticks() {
        svg.line((x.at(tick), top), (x.at(tick), bottom), theme.grid());
        svg.text((x.at(tick), bottom + 18.0), Anchor::Middle, theme.faint(), &written(tick, unit));
    }
    for (row, name) in rows.iter().take(shown).enumerate() {
        let y = top + (row as f64 + 0.5) * ROW;
        svg.line((left, y), (right, y), theme.grid());
        svg.text((left - 10.0, y + 4.0), Anchor::End, theme.ink(), &shortened(name, 16));
        for (number, series) in series.iter().enumerate() {
            if let Some(value) = series.values.get(row) {
                mark(&mut svg, number, (x.at(*value), y));
            }
        }
    }
    if more > 0 {
        let text = format!("and {more} more, which the table has");
        svg.text((left, bottom + 38.0), Anchor::Start, theme.faint(), &text);
    }
    svg.done()
}

/// Marks that can be told apart without colour.
fn mark(svg: &mut Svg, number: usize, (x, y): (f64, f64)) {
    let (colour, paper) = (svg.theme.series(number), svg.theme.paper());
    let (a, b) = (5.0, 6.5);
    let path = match number % 4 {
        0 => format!("M{} {y}a{a} {a} 0 1 0 {} 0a{a} {a} 0 1 0 {} 0", x - a, 2.0 * a, -2.0 * a),
        1 => format!("M{} {}h{}v{}h{}z", x - a, y - a, 2.0 * a, 2.0 * a, -2.0 * a),
        2 => format!("M{x} {}L{} {}L{} {}z", y - b, x + b, y + a, x - b, y + a),
        _ => format!("M{x} {}L{} {y}L{x} {}L{} {y}z", y - b, x + b, y + b, x - b),
    };
    // The second four are hollow.
    let fill = if number % 8 < 4 { colour.as_str() } else { paper };
    svg.add(format_args!("<path d=\"{path}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_not_drawn_are_counted() {
        let draw = |rows: usize| {
            let names: Vec<String> = (1..=rows).map(|row| format!("user{row}")).collect();
            let values = vec![1.0; rows];
            dots("Share", Unit::Percent, &names, &[Series { name: "fifo", values: &values }], Theme::Picture)
        };
        assert!(draw(31).contains(">and 1 more, which the table has<"));
        assert!(draw(30).contains(">user30<") && !draw(30).contains("more"));
    }
}
