//! Columns in groups, as SVG: the first of each group is what the others are compared with.

use std::fmt::Write;

/// One column of every group.
pub(crate) struct Series<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: Vec<f64>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 24.0;
const TOP: f64 = 84.0;
const FLOOR: f64 = HEIGHT - 60.0;
/// Told apart by people who see few colours, too.
const COLOURS: [&str; 3] = ["#9aa5b1", "#e69f00", "#0072b2"];

/// `series` over `groups`.
pub(crate) fn svg(title: &str, across: &str, groups: &[usize], series: &[Series<'_>]) -> String {
    let highest = series.iter().flat_map(|s| s.values.iter().copied()).fold(0.0, f64::max);
    let step = nice(highest / 5.0);
    let top = (highest / step).ceil() * step;
    let y = |value: f64| FLOOR - (FLOOR - TOP) * value / top;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#333\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"30\" font-size=\"17\" font-weight=\"600\">{title}</text>\n"
    );
    for nth in 0..=(top / step).round() as u32 {
        let (value, at) = (f64::from(nth) * step, y(f64::from(nth) * step));
        let colour = if nth == 0 { "#333" } else { "#ddd" };
        put(&mut out, format_args!("<path d=\"M{LEFT} {at:.1} H{RIGHT}\" stroke=\"{colour}\"/>"));
        let (x, at) = (LEFT - 8.0, at + 4.0);
        put(
            &mut out,
            format_args!("<text x=\"{x}\" y=\"{at:.1}\" text-anchor=\"end\">{}</text>", spaced(value)),
        );
    }
    let share = (RIGHT - LEFT) / groups.len() as f64;
    let wide = share * 0.8 / series.len() as f64;
    for (group, size) in groups.iter().enumerate() {
        let middle = LEFT + share * (group as f64 + 0.5);
        put(
            &mut out,
            format_args!(
                "<text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                FLOOR + 18.0,
                spaced(*size as f64)
            ),
        );
        for (nth, (one, colour)) in series.iter().zip(COLOURS).enumerate() {
            let (value, first) = (one.values[group], series[0].values[group]);
            let x = middle + wide * (nth as f64 - series.len() as f64 / 2.0);
            let (high, tall) = (y(value), FLOOR - y(value));
            put(
                &mut out,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{tall:.1}\" fill=\"{colour}\">\
                 <title>{}, {} tasks: {}</title></rect>",
                    wide - 3.0,
                    one.name,
                    spaced(*size as f64),
                    spaced(value.round())
                ),
            );
            if nth > 0 {
                let (x, at) = (x + (wide - 3.0) / 2.0, high - 5.0);
                let text = percent(value / first - 1.0);
                put(
                    &mut out,
                    format_args!(
                        "<text x=\"{x:.1}\" y=\"{at:.1}\" text-anchor=\"middle\" font-size=\"9.5\">{text}</text>"
                    ),
                );
            }
        }
    }
    put(
        &mut out,
        format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{across}</text>",
            (LEFT + RIGHT) / 2.0,
            HEIGHT - 14.0
        ),
    );
    for (nth, (one, colour)) in series.iter().zip(COLOURS).enumerate() {
        let x = LEFT + 130.0 * nth as f64;
        put(
            &mut out,
            format_args!("<rect x=\"{x}\" y=\"46\" width=\"12\" height=\"12\" fill=\"{colour}\"/>"),
        );
        put(&mut out, format_args!("<text x=\"{}\" y=\"56\">{}</text>", x + 18.0, one.name));
    }
    out + "</svg>\n"
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("a string takes all");
}

/// The next of 1, 2 and 5 times a power of ten.
fn nice(value: f64) -> f64 {
    let ten = 10f64.powf(value.log10().floor());
    let next = [1.0, 2.0, 5.0].into_iter().map(|times| times * ten).find(|nice| *nice >= value);
    next.unwrap_or(10.0 * ten)
}

/// With commas between thousands.
fn spaced(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
}

fn percent(change: f64) -> String {
    let sign = if change < -0.0005 {
        "\u{2212}"
    } else if change > 0.0005 {
        "+"
    } else {
        "\u{b1}"
    };
    format!("{sign}{:.1}%", 100.0 * change.abs())
}
