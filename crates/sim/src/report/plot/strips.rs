//! A share over time: a strip for each series, one below another, so that none hides another.

use super::axis::Axis;
use super::cdf::shortened;
use super::svg::{Anchor, Svg};
use super::{Series, Theme, Unit};

const WIDTH: f64 = 720.0;
const ROW: f64 = 64.0;

/// Draws shares in equal parts of a span of so many seconds; all series have the same span.
pub fn strips(title: &str, seconds: f64, series: &[Series<'_>], theme: Theme) -> String {
    let height = series.len() as f64 * ROW + 34.0;
    let (left, right) = (150.0, WIDTH - 62.0);
    let x = Axis::linear(seconds, Unit::Seconds, (left, right));
    let mut svg = Svg::new(WIDTH, height, title, theme);
    let bottom = series.len() as f64 * ROW;
    for tick in x.ticks() {
        svg.line((x.at(tick), 6.0), (x.at(tick), bottom), theme.grid());
        svg.text((x.at(tick), bottom + 18.0), Anchor::Middle, theme.faint(), &x.label(tick));
    }
    for (number, Series { name, values }) in series.iter().enumerate() {
        let (top, floor) = (number as f64 * ROW + 8.0, (number + 1) as f64 * ROW - 6.0);
        let y = |share: f64| floor - share * (floor - top);
        let width = (right - left) / values.len().max(1) as f64;
        let mut points = format!("{left:.1},{floor:.1} ");
        for (at, share) in values.iter().enumerate() {
            let (begin, end) = (left + at as f64 * width, left + (at + 1) as f64 * width);
            points.push_str(&format!("{begin:.1},{0:.1} {end:.1},{0:.1} ", y(*share)));
        }
        points.push_str(&format!("{right:.1},{floor:.1}"));
        let colour = theme.series(number);
        svg.add(format_args!(
            "<polygon points=\"{points}\" fill=\"{colour}\" fill-opacity=\"0.35\" stroke=\"{colour}\" stroke-width=\"1\"/>"
        ));
        svg.line((left, floor), (right, floor), theme.faint());
        svg.text((left - 10.0, (top + floor) / 2.0), Anchor::End, theme.ink(), &shortened(name, 18));
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let text = format!("mean {:.0} %", mean * 100.0);
        svg.text((left - 10.0, (top + floor) / 2.0 + 15.0), Anchor::End, theme.faint(), &text);
        svg.text((right + 6.0, top + 8.0), Anchor::Start, theme.faint(), "100 %");
        svg.text((right + 6.0, floor), Anchor::Start, theme.faint(), "0 %");
    }
    svg.done()
}
