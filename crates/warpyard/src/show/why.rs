//! `why`: what a task waits for, who is ahead, and what would start it sooner.

use super::{Paint, Screen, counted};
use std::collections::BTreeMap;
use std::fmt::Write;
use warpyard_api::quantity::ByteSize;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{FreeDevice, Needs, StartRange, State, TaskAhead, WhyView};

/// The whole answer.
pub(crate) fn text(why: &WhyView, screen: &Screen) -> String {
    let mut out = format!("{}\n", head(why, screen));
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            writeln!(out, "  {label:<9} {}", escape_controls(&value)).expect("a string takes all");
        }
    };
    line("why", why.text.join("; "));
    if is_held(why) {
        line("next", format!("`warpyard release {}` lets it run", why.job));
    }
    line("start", why.expected_start_reason.clone().unwrap_or_default());
    line("needs", needs(&why.needs));
    line("estimate", why.needs.estimate.as_ref().map(|estimate| estimate.text.clone()).unwrap_or_default());
    if why.needs.gpus > 0 && why.state == State::Ready {
        line("now free", free(&why.free));
    }
    line("ahead", ahead(&why.ahead));
    let sooner =
        |change: &warpyard_api::wire::Suggestion| format!("with {} it {}", change.change, change.effect);
    line("sooner", why.sooner.iter().map(sooner).collect::<Vec<_>>().join("; "));
    out.push_str(&tail(&why.log_tail, why.log_of.as_ref().unwrap_or(&why.job)));
    out
}

/// The last lines of a task's log; `of` selects the task.
pub(super) fn tail(lines: &[String], of: &str) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut out = format!("  last lines of the log (`warpyard logs {}` prints all):\n", escape_controls(of));
    for line in lines {
        writeln!(out, "    {}", escape_controls(line)).expect("a string takes all");
    }
    out
}

/// Which task, where it is on its way, and when it will likely start.
fn head(why: &WhyView, screen: &Screen) -> String {
    let index = why.index.map(|index| format!("[{index}]")).unwrap_or_default();
    let title = format!("{} {}{index}", escape_controls(&why.job), escape_controls(&why.task));
    let state = if is_held(why) { "held" } else { why.state.word() };
    let word = why.outcome.map_or(state, |outcome| outcome.word());
    let mut out = format!("{}  {}", screen.paint(&title, Paint::Bold), word);
    if let Some(position) = why.position {
        write!(out, ", {} in the queue", ordinal(position)).expect("a string takes all");
    }
    if let Some(range @ StartRange { of, .. }) = why.expected_start {
        write!(out, ", expected to start {} ({:.0} % likely)", screen.range(range), of * 100.0)
            .expect("a string takes all");
    }
    out
}

/// Whether a person holds it back, which is what `ps` calls its state too.
fn is_held(why: &WhyView) -> bool {
    why.code.as_deref() == Some("held")
}

pub(super) fn ordinal(number: u64) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

pub(super) fn needs(needs: &Needs) -> String {
    let mut parts = Vec::new();
    if needs.gpus > 0 {
        let kind = needs.gpu_type.join(" or ");
        let kind = if kind.is_empty() { "GPU".to_owned() } else { format!("{kind} GPU") };
        let each = if needs.gpus > 1 { " each" } else { "" };
        let memory = needs.gpu_memory_bytes.map(|bytes| format!(" with {}{each}", ByteSize(bytes).rounded()));
        let together = if needs.gpus > 1 { " on one worker" } else { "" };
        parts.push(format!("{}{}{together}", counted(needs.gpus.into(), &kind), memory.unwrap_or_default()));
    }
    match needs.cpus.0 {
        0 => {}
        1000 => parts.push("1 CPU".to_owned()),
        _ => parts.push(format!("{} CPUs", needs.cpus)),
    }
    if needs.memory_bytes > 0 {
        parts.push(format!("{} of memory", ByteSize(needs.memory_bytes).rounded()));
    }
    if !needs.on.is_empty() {
        let workers: Vec<_> = needs.on.iter().map(|name| escape_controls(name).into_owned()).collect();
        parts.push(format!("on {}", workers.join(" or ")));
    }
    parts.join(", ")
}

/// Whole devices counted by kind, and what is left on the shared ones, worker by worker.
fn free(devices: &[FreeDevice]) -> String {
    if devices.is_empty() {
        return "no GPU".to_owned();
    }
    let worker =
        |device: &FreeDevice| device.device.rsplit_once('/').map_or("", |(worker, _)| worker).to_owned();
    let mut whole: BTreeMap<(String, &str, u64), u64> = BTreeMap::new();
    let mut shared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for device in devices {
        if device.whole {
            *whole.entry((worker(device), &device.kind, device.free_bytes)).or_default() += 1;
        } else {
            shared.entry(worker(device)).or_default().push(ByteSize(device.free_bytes).rounded());
        }
    }
    let whole = whole.into_iter().map(|((worker, kind, bytes), count)| {
        format!("{count} {kind} ({}) on {worker}", ByteSize(bytes).rounded())
    });
    let shared = shared.into_iter().map(|(worker, left)| format!("{worker} has {} left", listed(&left)));
    whole.chain(shared).collect::<Vec<_>>().join("; ")
}

/// Those ahead, the neighbours of one user and reason together.
fn ahead(ahead: &[TaskAhead]) -> String {
    let same = |a: &TaskAhead, b: &TaskAhead| a.user == b.user && a.because == b.because;
    let group = |group: &[TaskAhead]| {
        let tasks: Vec<String> = group.iter().map(|one| one.task.clone()).collect();
        format!("{} ({}, {})", listed(&tasks), group[0].user, group[0].because)
    };
    ahead.chunk_by(same).map(group).collect::<Vec<_>>().join(", ")
}

/// "a", "a and b", "a, b and c".
fn listed(texts: &[String]) -> String {
    match texts {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn waiting_is_explained_with_numbers() {
        let gib = |size: u64| size << 30;
        let free = |device: &str, size, whole| json!({"device": device, "type": "V100", "free_bytes": gib(size), "whole": whole});
        let ahead = |task: &str, because: &str| json!({"task": task, "user": "ann", "priority": 5, "because": because});
        let why: WhyView = serde_json::from_value(json!({
            "job": "412", "task": "train", "index": null, "state": "ready", "text": ["2 GPUs on one worker",
            "ready for 3m12s"], "code": "no-room", "needs": {"gpus": 2, "gpu_memory_bytes": gib(10), "gpu_type": [],
            "cpus": 0.5, "memory_bytes": 0}, "free": [free("gpu1/0", 16, true), free("gpu2/0", 6, false),
            free("gpu2/1", 9, false)], "ahead": [ahead("398", "priority 5"), ahead("401", "expected to be shorter"),
            ahead("405", "expected to be shorter")], "position": 4, "expected_start": {"low": "2026-11-15T14:20:00Z",
            "high": "2026-11-15T14:35:00Z", "of": 0.8}, "sooner": [{"change": "--gpu-memory 9GiB",
            "effect": "would start now on gpu2"}, {"change": "--timeout 20m", "effect": "would be 2nd"}],
        }))
        .unwrap();
        insta::assert_snapshot!(text(&why, &Screen::for_tests(None)), @"
        412 train  ready, 4th in the queue, expected to start 14:20–14:35 (80 % likely)
          why       2 GPUs on one worker; ready for 3m12s
          needs     2 GPUs with 10 GiB each on one worker, 0.5 CPUs
          now free  1 V100 (16 GiB) on gpu1; gpu2 has 6 GiB and 9 GiB left
          ahead     398 (ann, priority 5), 401 and 405 (ann, expected to be shorter)
          sooner    with --gpu-memory 9GiB it would start now on gpu2; with --timeout 20m it would be 2nd
        ");
    }

    #[test]
    fn a_held_job_says_so_and_how_it_is_released() {
        let why: WhyView = serde_json::from_value(json!({
            "job": "15", "task": "wide", "index": null, "state": "blocked", "text": ["held"], "code": "held",
            "needs": {"gpus": 4, "gpu_memory_bytes": null, "gpu_type": [], "cpus": 1.0, "memory_bytes": 0},
            "free": [], "ahead": [], "position": null, "sooner": [],
        }))
        .unwrap();
        insta::assert_snapshot!(text(&why, &Screen::for_tests(None)), @"
        15 wide  held
          why       held
          next      `warpyard release 15` lets it run
          needs     4 GPUs on one worker, 1 CPU
        ");
    }

    #[test]
    fn places_in_line_are_spoken() {
        let spoken: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 111].map(ordinal).into();
        assert_eq!(spoken, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "111th"]);
    }
}
