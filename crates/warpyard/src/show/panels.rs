//! Pictures of a study: panels of lines over a common axis, two beside one another, as SVG text and nothing else.

use std::fmt::Write;
use warpyard_sim::reproduce::gavel::Panel;

/// Told apart by people who do not see all colours, and by dashes.
const COLOURS: [&str; 4] = ["#0b62a4", "#c2500a", "#0a7a5a", "#8a3f7d"];
const DASHES: [&str; 4] = ["", "7 4", "2 3", "10 3 2 3"];
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 240.0;
/// What a panel takes with its words.
const CELL_WIDTH: f64 = 530.0;
const CELL_HEIGHT: f64 = 350.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;

/// Draws all panels.
pub(crate) fn draw(panels: &[Panel]) -> String {
    let (width, height) = (2.0 * CELL_WIDTH, panels.len().div_ceil(2) as f64 * CELL_HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (number, panel) in panels.iter().enumerate() {
        let (x, y) = ((number % 2) as f64 * CELL_WIDTH, (number / 2) as f64 * CELL_HEIGHT);
        put(&mut svg, format_args!("<g transform=\"translate({x},{y})\">"));
        ScaledPanel::of(panel).draw(&mut svg);
        put(&mut svg, format_args!("</g>"));
    }
    svg + "</svg>\n"
}

/// A panel and how its values lie.
struct ScaledPanel<'a> {
    panel: &'a Panel,
    from: f64,
    to: f64,
    step: f64,
    steps: u32,
}

impl<'a> ScaledPanel<'a> {
    fn of(panel: &'a Panel) -> Self {
        let points = || panel.lines.iter().flat_map(|(_, points)| points);
        let from = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        let to = points().map(|(x, _)| *x).fold(f64::NEG_INFINITY, f64::max);
        let most = points().map(|(_, y)| *y).fold(0.0, f64::max).max(1e-9);
        let power = 10f64.powf((most / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| most / step <= 6.0);
        let step = step.unwrap_or(most / 5.0);
        Self { panel, from, to, step, steps: (most / step).ceil() as u32 }
    }

    fn x(&self, value: f64) -> f64 {
        let part = match self.panel.by_factors {
            true => (value / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        LEFT + WIDTH * part
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - value / (self.step * f64::from(self.steps)))
    }

    fn draw(&self, svg: &mut String) {
        let (right, foot) = (LEFT + WIDTH, TOP + HEIGHT);
        put(
            svg,
            format_args!(
                "<text x=\"{LEFT}\" y=\"{}\" font-size=\"13\">{}</text>",
                TOP - 14.0,
                self.panel.title
            ),
        );
        for tick in 0..=self.steps {
            let value = self.step * f64::from(tick);
            let y = self.y(value);
            put(
                svg,
                format_args!(
                    "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
                ),
            );
            let (x, y, digits) = (LEFT - 6.0, y + 4.0, if self.step < 1.0 { 1 } else { 0 });
            put(
                svg,
                format_args!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{value:.digits$}</text>"),
            );
        }
        for (x, _) in self.panel.lines.first().map_or(&[][..], |(_, points)| points) {
            let (at, y) = (self.x(*x), foot + 16.0);
            put(svg, format_args!("<text x=\"{at:.1}\" y=\"{y}\" text-anchor=\"middle\">{x}</text>"));
        }
        let (middle, y) = (LEFT + WIDTH / 2.0, foot + 34.0);
        put(
            svg,
            format_args!(
                "<text x=\"{middle}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                self.panel.across
            ),
        );
        for (number, (name, points)) in self.panel.lines.iter().enumerate() {
            let (colour, dash) = (COLOURS[number % COLOURS.len()], DASHES[number % DASHES.len()]);
            let at = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", self.x(*x), self.y(*y));
            let line: Vec<String> = points.iter().map(at).collect();
            put(
                svg,
                format_args!(
                    "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
                     stroke-dasharray=\"{dash}\"><title>{name}</title></polyline>",
                    line.join(" ")
                ),
            );
            let (x, y) = (LEFT + 112.0 * (number % 4) as f64, foot + 52.0);
            let (end, middle) = (x + 20.0, y - 4.0);
            put(
                svg,
                format_args!(
                    "<line x1=\"{x}\" x2=\"{end}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"{colour}\" \
                     stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>"
                ),
            );
            put(svg, format_args!("<text x=\"{}\" y=\"{y}\">{name}</text>", x + 24.0));
        }
    }
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(svg, "{what}").expect("a string takes all");
}
