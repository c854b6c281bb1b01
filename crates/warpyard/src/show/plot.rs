//! Pictures of curves, as SVG text and nothing else.

use std::fmt::Write;
use warpyard_sim::reproduce::alibaba::{Curve, mean, points};

const COLOURS: [&str; 4] = ["#7a7a7a", "#1f77b4", "#d98c21", "#2a8f4d"];
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
/// Of one panel.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 300.0;
/// Between two.
const GAP: f64 = 80.0;

/// What the placement rules gave away and left of no use, against what was asked for.
pub(crate) fn fillings(curves: &[Curve]) -> String {
    let (width, height) = (LEFT + 2.0 * WIDTH + GAP + 20.0, TOP + HEIGHT + 70.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let allocated = Panel { left: LEFT, title: "allocated (% of all GPUs)", top: 100.0 };
    let most = curves.iter().flat_map(|c| c.fragmented.iter().flatten()).copied().fold(1.0, f64::max);
    let fragmented = Panel {
        left: LEFT + WIDTH + GAP,
        title: "free but of no use (% of all GPUs)",
        top: (most / 5.0).ceil() * 5.0,
    };
    allocated.draw(&mut svg, curves, |curve| &curve.allocated);
    fragmented.draw(&mut svg, curves, |curve| &curve.fragmented);
    for (i, curve) in curves.iter().enumerate() {
        let (x, y) = (LEFT + 100.0 * i as f64, TOP + HEIGHT + 55.0);
        let colour = COLOURS[i % COLOURS.len()];
        put(
            &mut svg,
            format_args!("<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>", y - 6.0),
        );
        put(&mut svg, format_args!("<text x=\"{}\" y=\"{y}\">{}</text>", x + 20.0, curve.rule));
    }
    svg + "</svg>\n"
}

struct Panel {
    left: f64,
    title: &'static str,
    /// The largest value there is room for.
    top: f64,
}

impl Panel {
    fn x(&self, asked: f64) -> f64 {
        let last = points().last().unwrap_or(1) as f64;
        self.left + WIDTH * asked / last
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - value / self.top)
    }

    fn draw(&self, svg: &mut String, curves: &[Curve], pick: impl Fn(&Curve) -> &Vec<Vec<f64>>) {
        let (left, right, foot) = (self.left, self.left + WIDTH, TOP + HEIGHT);
        put(
            svg,
            format_args!("<text x=\"{left}\" y=\"{}\" font-size=\"13\">{}</text>", TOP - 14.0, self.title),
        );
        for tick in 0..=5 {
            let value = self.top * f64::from(tick) / 5.0;
            let y = self.y(value);
            put(
                svg,
                format_args!("<line x1=\"{left}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>"),
            );
            let (x, y) = (left - 6.0, y + 4.0);
            put(svg, format_args!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{value:.0}</text>"));
        }
        for asked in points().filter(|point| point % 20 == 0) {
            let (x, y) = (self.x(asked as f64), foot + 16.0);
            put(svg, format_args!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{asked}</text>"));
        }
        let middle = left + WIDTH / 2.0;
        let y = foot + 34.0;
        put(
            svg,
            format_args!(
                "<text x=\"{middle}\" y=\"{y}\" text-anchor=\"middle\">asked for (% of all GPUs)</text>"
            ),
        );
        for (i, curve) in curves.iter().enumerate() {
            let at = |(asked, values): (usize, &Vec<f64>)| {
                format!("{:.1},{:.1}", self.x(asked as f64), self.y(mean(values)))
            };
            let line: Vec<_> = points().zip(pick(curve)).map(at).collect();
            let colour = COLOURS[i % COLOURS.len()];
            put(
                svg,
                format_args!(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"><title>{}</title></polyline>",
                    line.join(" "),
                    curve.rule
                ),
            );
        }
    }
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(svg, "{what}").expect("a string takes all");
}
