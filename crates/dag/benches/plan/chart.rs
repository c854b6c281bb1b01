//! A chart with logarithmic axes, as SVG.

use std::fmt::Write;

/// One line of the chart.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) values: Vec<f64>,
}

const SIZE: (f64, f64) = (640.0, 400.0);
const EDGE: (f64, f64) = (80.0, 50.0);
const COLOURS: [&str; 4] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"];

/// `lines` over `at`, which rises.
pub(crate) fn svg(title: &str, across: &str, up: &str, at: &[f64], lines: &[Line<'_>]) -> String {
    let all = || lines.iter().flat_map(|line| line.values.iter().copied());
    let (low, high) = (all().fold(f64::MAX, f64::min) / 1.2, all().fold(0.0, f64::max) * 1.2);
    let (first, last) = (at[0] / 1.2, at[at.len() - 1] * 1.2);
    let x = |value: f64| EDGE.0 + (SIZE.0 - 1.5 * EDGE.0) * (value / first).ln() / (last / first).ln();
    let y = |value: f64| SIZE.1 - EDGE.1 - (SIZE.1 - 2.0 * EDGE.1) * (value / low).ln() / (high / low).ln();
    let (width, height) = SIZE;
    let (left, floor) = (EDGE.0, SIZE.1 - EDGE.1);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{left}\" y=\"24\" font-size=\"15\">{title}</text>\n\
         <path d=\"M{left} {} V{floor} H{}\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{across}</text>\n\
         <text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{up}</text>\n",
        EDGE.1,
        width - EDGE.0 / 2.0,
        width / 2.0,
        height - 10.0,
        height / 2.0
    );
    for value in at {
        let (x, below) = (x(*value), floor + 16.0);
        writeln!(out, "<path d=\"M{x:.1} {floor} v5\" stroke=\"black\"/>").expect("a string takes all");
        writeln!(out, "<text x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{value}</text>")
            .expect("a string takes all");
    }
    for value in [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6].iter().filter(|v| **v > low && **v < high)
    {
        let y = y(*value);
        writeln!(out, "<path d=\"M{left} {y:.1} h-5\" stroke=\"black\"/>").expect("a string takes all");
        writeln!(out, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", left - 8.0, y + 4.0)
            .expect("a string takes all");
    }
    for (nth, (line, colour)) in lines.iter().zip(COLOURS).enumerate() {
        let points: Vec<String> =
            at.iter().zip(&line.values).map(|(a, v)| format!("{:.1},{:.1}", x(*a), y(*v))).collect();
        let (points, label) = (points.join(" "), 50.0 + 16.0 * nth as f64);
        writeln!(out, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>")
            .expect("a string takes all");
        writeln!(out, "<text x=\"{}\" y=\"{label}\" fill=\"{colour}\">{}</text>", left + 12.0, line.name)
            .expect("a string takes all");
    }
    out + "</svg>\n"
}
