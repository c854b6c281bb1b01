//! What share of values is not above each value: one line for each series.

use super::axis::{Axis, written};
use super::svg::{Anchor, Svg, dash};
use super::{Series, Theme, Unit};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 300.0;
/// More points than this nobody sees.
const POINTS: usize = 240;

/// Draws the distribution of each series.
pub fn cdf(title: &str, unit: Unit, series: &[Series<'_>], theme: Theme) -> String {
    let sorted: Vec<Vec<f64>> = series.iter().map(|series| in_order(series.values)).collect();
    let most = sorted.iter().filter_map(|values| values.last()).copied().fold(0.0, f64::max);
    let least = match unit {
        Unit::Seconds if most < 10.0 => 0.01,
        Unit::Seconds | Unit::Times | Unit::Percent => 1.0,
    };
    let (left, right, top, bottom) = (52.0, 560.0, 16.0, HEIGHT - 40.0);
    let x = Axis::log(least, most, unit, (left, right));
    let y = |share: f64| bottom - share * (bottom - top);
    let mut svg = Svg::new(WIDTH, HEIGHT, title, theme);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        svg.line((left, y(share)), (right, y(share)), theme.grid());
        svg.text(
            (left - 8.0, y(share) + 4.0),
            Anchor::End,
            theme.faint(),
            &format!("{:.0} %", share * 100.0),
        );
    }
    for tick in x.ticks() {
        svg.line((x.at(tick), top), (x.at(tick), bottom), theme.grid());
        svg.text((x.at(tick), bottom + 18.0), Anchor::Middle, theme.faint(), &x.label(tick));
    }
    for (number, values) in sorted.iter().enumerate().filter(|(_, values)| !values.is_empty()) {
        let mut points = String::new();
        let n = values.len();
        let step = (n as f64 / POINTS as f64).max(1.0);
        let places = (0..).map(|i| (f64::from(i) * step) as usize).take_while(|i| *i < n).chain([n - 1]);
        let mut before = y(0.0);
        for place in places {
            let (px, py) = (x.at(values[place]), y((place + 1) as f64 / n as f64));
            points.push_str(&format!("{px:.1},{before:.1} {px:.1},{py:.1} "));
            before = py;
        }
        points.push_str(&format!("{right:.1},{:.1}", y(1.0)));
        let (colour, dash) = (theme.series(number), dash(number));
        svg.add(format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
        ));
    }
    legend(&mut svg, series, &sorted, unit, (right + 16.0, top));
    svg.done()
}

/// Beside the plot, the smallest median first: what each line looks like, and what its middle and its end are.
fn legend(svg: &mut Svg, series: &[Series<'_>], sorted: &[Vec<f64>], unit: Unit, (x, top): (f64, f64)) {
    let theme = svg.theme;
    let median = |values: &Vec<f64>| values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0);
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| median(&sorted[*a]).total_cmp(&median(&sorted[*b])));
    for (row, number) in order.into_iter().enumerate() {
        let y = top + 10.0 + row as f64 * 36.0;
        let (colour, dash) = (theme.series(number), dash(number));
        svg.add(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>",
            x + 30.0
        ));
        svg.text((x + 36.0, y + 4.0), Anchor::Start, theme.ink(), &shortened(series[number].name, 24));
        let values = &sorted[number];
        let (middle, most) = (median(values), values.last().copied().unwrap_or(0.0));
        let text = format!("half ≤ {}, all ≤ {}", written(middle, unit), written(most, unit));
        svg.text((x + 36.0, y + 19.0), Anchor::Start, theme.faint(), &text);
    }
}

/// A name that fits.
pub(super) fn shortened(name: &str, most: usize) -> String {
    match name.chars().count() > most {
        true => name.chars().take(most - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

fn in_order(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}
