//! What ran on each device over time. Where there is too much to tell apart, how busy each device was instead.

use super::axis::Axis;
use super::cdf::shortened;
use super::svg::{Anchor, Svg};
use super::{Theme, Unit};
use crate::report::timeline::{BusyInterval, Timeline};
use warpyard_core::Time;

const WIDTH: f64 = 1000.0;
/// More bars than this are no longer told apart.
const MOST_BARS: usize = 2500;
/// More rows than this are no longer read; neighbours are then put together.
const MOST_ROWS: usize = 48;
/// Parts of time where bars are not told apart.
const PARTS: usize = 240;

/// Draws a timeline from one moment to another.
pub fn gantt(title: &str, timeline: &Timeline, from: Time, to: Time, theme: Theme) -> String {
    let together = timeline.devices.len().div_ceil(MOST_ROWS).max(1);
    let rows = timeline.devices.len().div_ceil(together);
    let row = if rows <= 16 { 22.0 } else { 14.0 };
    let (left, right, top) = (110.0, WIDTH - 12.0, 6.0);
    let bottom = top + rows as f64 * row;
    let told_apart = timeline.busy.len() <= MOST_BARS && together == 1;
    let named = told_apart && timeline.users.len() > 1;
    let mut svg = Svg::new(WIDTH, bottom + if named { 56.0 } else { 34.0 }, title, theme);
    let x = Axis::linear(to.since(from).secs(), Unit::Seconds, (left, right));
    for tick in x.ticks() {
        svg.line((x.at(tick), top), (x.at(tick), bottom), theme.grid());
        svg.text((x.at(tick), bottom + 18.0), Anchor::Middle, theme.faint(), &x.label(tick));
    }
    for number in 0..rows {
        let y = top + number as f64 * row;
        let name = match together {
            1 => timeline.devices[number].clone(),
            n => format!("{} + {}", timeline.devices[number * n], n - 1),
        };
        svg.text((left - 8.0, y + row / 2.0 + 4.0), Anchor::End, theme.faint(), &shortened(&name, 14));
        svg.line((left, y + row), (right, y + row), theme.grid());
    }
    if named {
        legend(&mut svg, &timeline.users, (left, bottom + 40.0));
    }
    if told_apart {
        bars(&mut svg, timeline, &x, from, (top, row));
    } else {
        shades(&mut svg, timeline, (from, to), together, (left, right, top, row));
    }
    svg.done()
}

/// Whose the colours are. There are no more of them than this, so others have them again.
fn legend(svg: &mut Svg, users: &[String], (left, y): (f64, f64)) {
    const COLOURS: usize = 8;
    let (theme, width) = (svg.theme, 100.0);
    for (number, user) in users.iter().enumerate().take(COLOURS) {
        let (x, colour) = (left + number as f64 * width, theme.series(number));
        svg.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\" fill-opacity=\"0.3\" stroke=\"{colour}\" stroke-width=\"0.8\"/>",
            y - 9.0
        ));
        let name = if user.is_empty() { "(no name)" } else { user };
        svg.text((x + 15.0, y), Anchor::Start, theme.faint(), &shortened(name, 11));
    }
    if users.len() > COLOURS {
        let x = left + COLOURS as f64 * width;
        svg.text((x, y), Anchor::Start, theme.faint(), &format!("+ {}, again", users.len() - COLOURS));
    }
}

/// A bar for each run; those that share a device stand one below another.
fn bars(svg: &mut Svg, timeline: &Timeline, x: &Axis, from: Time, (top, row): (f64, f64)) {
    let theme = svg.theme;
    let mut by_device: Vec<Vec<&BusyInterval>> = vec![Vec::new(); timeline.devices.len()];
    timeline.busy.iter().for_each(|busy| by_device[busy.device as usize].push(busy));
    for (device, mut runs) in by_device.into_iter().enumerate() {
        runs.sort_by_key(|busy| (busy.from, busy.to));
        let lanes = lanes(&runs);
        let many = lanes.iter().max().map_or(1, |lane| lane + 1) as f64;
        for (busy, lane) in runs.iter().zip(&lanes) {
            let (begin, end) = (x.at(busy.from.since(from).secs()), x.at(busy.to.since(from).secs()));
            let height = (row - 4.0) / many;
            let (y, width) =
                (top + device as f64 * row + 2.0 + *lane as f64 * height, (end - begin).max(0.6));
            let (colour, user) = (theme.series(busy.user as usize), &timeline.users[busy.user as usize]);
            svg.add(format_args!(
                "<rect x=\"{begin:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" \
                 fill-opacity=\"0.3\" stroke=\"{colour}\" stroke-width=\"0.8\"><title>job {} of {}, {:.1} s from {:.1} s on</title></rect>",
                busy.job.0,
                super::escaped(user),
                busy.to.since(busy.from).secs(),
                busy.from.since(from).secs(),
            ));
            let text = busy.job.0.to_string();
            if width > text.len() as f64 * 7.0 + 6.0 && height >= 12.0 {
                svg.text((begin + width / 2.0, y + height / 2.0 + 4.0), Anchor::Middle, theme.ink(), &text);
            }
        }
    }
}

/// For each run, in order of its start, the first lane that is free by then.
fn lanes(runs: &[&BusyInterval]) -> Vec<usize> {
    let mut free: Vec<Time> = Vec::new();
    let mut lanes = Vec::with_capacity(runs.len());
    for busy in runs {
        let lane = free.iter().position(|until| *until <= busy.from).unwrap_or(free.len());
        if lane == free.len() {
            free.push(busy.to);
        } else {
            free[lane] = busy.to;
        }
        lanes.push(lane);
    }
    lanes
}

/// How busy each row of devices was in each part of the time.
fn shades(
    svg: &mut Svg,
    timeline: &Timeline,
    (from, to): (Time, Time),
    together: usize,
    (left, right, top, row): (f64, f64, f64, f64),
) {
    let rows = timeline.devices.len().div_ceil(together);
    let part = (to.since(from).0 as f64 / PARTS as f64).max(1.0);
    let mut sums = vec![0.0; rows * PARTS];
    for busy in &timeline.busy {
        let number = busy.device as usize / together;
        let (begin, end) = (busy.from.since(from).0 as f64 / part, busy.to.since(from).0 as f64 / part);
        for at in (begin as usize)..=(end as usize).min(PARTS - 1) {
            let share = end.min((at + 1) as f64) - begin.max(at as f64);
            sums[number * PARTS + at] += share.max(0.0) / together as f64;
        }
    }
    let colour = svg.theme.series(0);
    let width = (right - left) / PARTS as f64;
    for number in 0..rows {
        let mut at = 0;
        while at < PARTS {
            // Equal neighbours are one rectangle.
            let level = |at: usize| (sums[number * PARTS + at].min(1.0) * 10.0).round();
            let end = (at..PARTS).find(|other| level(*other) != level(at)).unwrap_or(PARTS);
            if level(at) > 0.0 {
                svg.add(format_args!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\"{:.2}\"/>",
                    left + at as f64 * width,
                    top + number as f64 * row + 1.0,
                    (end - at) as f64 * width,
                    row - 2.0,
                    level(at) * 0.085,
                ));
            }
            at = end;
        }
    }
}
