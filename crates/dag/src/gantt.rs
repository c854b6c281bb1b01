//! Gantt chart of a schedule as SVG: one lane per machine, one box per task.

use std::fmt::Write as _;

use crate::instance::Instance;
use crate::schedule::Schedule;

const LEFT: f64 = 90.0;
const WIDTH: f64 = 1100.0;
const TOP: f64 = 30.0;
/// Approximate width of a letter in pixels; and the fewest letters worth showing.
const LETTER_WIDTH: f64 = 5.8;
const MIN_LETTERS: usize = 3;

/// Draws a schedule. Hovering over a box shows its task and times.
pub fn gantt_svg(instance: &Instance, schedule: &Schedule) -> String {
    let machines = instance.machines();
    let lane = if machines <= 40 { 22.0 } else { 9.0 };
    let makespan = schedule.makespan();
    let scale = if makespan > 0.0 { WIDTH / makespan } else { 0.0 };
    let (width, height) = (LEFT + WIDTH + 20.0, TOP + lane * machines as f64 + 30.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"10\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"{LEFT}\" y=\"18\" \
         font-size=\"12\">makespan {}</text>\n",
        round_time(makespan)
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
        let name = instance.task_name(task);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{w:.2}\" height=\"{h:.1}\" fill=\"hsl({hue} 55% 70%)\" \
             stroke=\"#555\" stroke-width=\"0.3\"><title>{}: {} to {}</title></rect>",
            escape(&name),
            round_time(slot.start),
            round_time(slot.finish)
        );
        if let Some(name) = truncate_to_width(&name, w - 4.0)
            && lane > 12.0
        {
            let name = escape(&name);
            let _ = writeln!(
                svg,
                "<text x=\"{:.2}\" y=\"{:.1}\" pointer-events=\"none\">{name}</text>",
                x + 2.0,
                y + lane - 8.0
            );
        }
    }
    let (axis, step) = (TOP + lane * machines as f64, round_step(makespan / 8.0));
    for tick in 0..=if step > 0.0 { (makespan / step) as u32 } else { 0 } {
        let at = f64::from(tick) * step;
        let x = LEFT + at * scale;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {TOP} V{:.1}\" stroke=\"#000\" stroke-opacity=\"0.15\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            axis + 4.0,
            axis + 16.0,
            round_time(at)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Longest prefix of a name that fits, with an ellipsis; `None` where fewer than [`MIN_LETTERS`] fit.
fn truncate_to_width(name: &str, room: f64) -> Option<String> {
    let letters = (room / LETTER_WIDTH) as usize;
    match name.chars().count() {
        count if count <= letters => Some(name.to_owned()),
        _ if letters < MIN_LETTERS => None,
        _ => Some(name.chars().take(letters - 1).chain(['\u{2026}']).collect()),
    }
}

/// Tick distance: the next of 1, 2 and 5 times a power of ten.
fn round_step(about: f64) -> f64 {
    if about <= 0.0 {
        return 0.0;
    }
    let ten = 10f64.powf(about.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|times| times * ten).find(|step| *step >= about).unwrap_or(10.0 * ten)
}

/// Time rounded to three decimals.
fn round_time(time: f64) -> f64 {
    (time * 1000.0).round() / 1000.0
}

/// Longest name written out, in characters.
const MAX_NAME: usize = 200;

/// Escapes a name for SVG, without control characters, line breaks or changes of text direction.
fn escape(text: &str) -> String {
    let cut = text.char_indices().nth(MAX_NAME).map(|(end, _)| &text[..end]);
    let mut out = String::new();
    for c in cut.unwrap_or(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                out.extend(c.escape_unicode());
            }
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out + if cut.is_some() { "\u{2026}" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_within_its_box() {
        assert_eq!(truncate_to_width("train", 40.0).as_deref(), Some("train"));
        assert_eq!(truncate_to_width("mProject_ID0000118", 40.0).as_deref(), Some("mProj\u{2026}"));
        assert_eq!(truncate_to_width("mProject_ID0000118", 12.0), None);
        assert_eq!(truncate_to_width("a", 6.0).as_deref(), Some("a"));
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!([0.0, 0.3, 1.0, 10.7, 75_880.0].map(round_step), [0.0, 0.5, 1.0, 20.0, 100_000.0]);
    }
}
