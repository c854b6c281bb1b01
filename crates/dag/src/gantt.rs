//! A schedule as a picture: one lane per machine, one box per task. SVG text, nothing else.

use std::fmt::Write as _;

use crate::instance::Instance;
use crate::schedule::Schedule;

const LEFT: f64 = 90.0;
const WIDTH: f64 = 1100.0;
const TOP: f64 = 30.0;
/// Below this many pixels a box has no room for a name.
const NAMED: f64 = 28.0;

/// Draws the schedule. Hovering over a box shows its task and times.
pub fn gantt_svg(instance: &Instance, schedule: &Schedule) -> String {
    let machines = instance.machines();
    let lane = if machines <= 40 { 22.0 } else { 9.0 };
    let makespan = schedule.makespan();
    let scale = if makespan > 0.0 { WIDTH / makespan } else { 0.0 };
    let (width, height) = (LEFT + WIDTH + 20.0, TOP + lane * machines as f64 + 30.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"18\" \
         font-size=\"12\">makespan {makespan}</text>\n"
    );
    for machine in 0..machines {
        let y = TOP + lane * machine as f64;
        let shade = if machine % 2 == 0 { "#f4f4f4" } else { "#fff" };
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{lane}\" fill=\"{shade}\"/>"
        );
        if lane > 12.0 || machine % 4 == 0 {
            let (name, base) = (escape(&instance.machine_name(machine)), y + lane - 2.0);
            let _ =
                writeln!(svg, "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>", LEFT - 6.0);
        }
    }
    for (task, slot) in schedule.slots.iter().enumerate() {
        let (x, y) = (LEFT + slot.start * scale, TOP + lane * f64::from(slot.machine) + 1.0);
        let (w, h) = ((slot.finish - slot.start) * scale, lane - 2.0);
        let hue = (task * 137) % 360;
        let name = escape(&instance.task_name(task));
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{w:.2}\" height=\"{h:.1}\" fill=\"hsl({hue} 55% 70%)\" \
             stroke=\"#555\" stroke-width=\"0.3\"><title>{name}: {} to {}</title></rect>",
            slot.start, slot.finish
        );
        if w >= NAMED && lane > 12.0 {
            let _ = writeln!(
                svg,
                "<text x=\"{:.2}\" y=\"{:.1}\" pointer-events=\"none\">{name}</text>",
                x + 2.0,
                y + lane - 8.0
            );
        }
    }
    let axis = TOP + lane * machines as f64 + 14.0;
    for tick in 0..=10 {
        let share = f64::from(tick) / 10.0;
        let at = (makespan * share * 100.0).round() / 100.0;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{axis}\" text-anchor=\"middle\">{at}</text>",
            LEFT + WIDTH * share
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
