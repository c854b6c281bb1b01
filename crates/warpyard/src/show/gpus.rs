//! `gpus`: one line for each device, the way gpustat prints them, with the tasks on it.

use super::table::fitted;
use super::{Paint, Screen};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{ForeignProcess, GpuView};

const GIB: f64 = (1u64 << 30) as f64;

/// A device's fields, before they are lined up.
struct GpuRow {
    worker: String,
    index: String,
    kind: String,
    temperature: String,
    utilisation: String,
    memory: String,
    who: String,
    paint: Paint,
}

/// The lines of all devices; a worker is named once.
pub(crate) fn lines(gpus: &[GpuView], screen: &Screen) -> String {
    if gpus.is_empty() {
        return "no GPUs here; `warpyard workers` lists the CPUs\n".to_owned();
    }
    let lines: Vec<GpuRow> = gpus.iter().map(line).collect();
    let widest = |field: fn(&GpuRow) -> &str| lines.iter().map(|line| field(line).width()).max().unwrap_or(0);
    let [worker, index, kind] = [widest(|l| &l.worker), widest(|l| &l.index), widest(|l| &l.kind)];
    let [temperature, utilisation, memory] =
        [widest(|l| &l.temperature), widest(|l| &l.utilisation), widest(|l| &l.memory)];
    let mut out = String::new();
    let mut last = None;
    for line in &lines {
        let named = if last == Some(&line.worker) { "" } else { &line.worker };
        last = Some(&line.worker);
        let start = out.len();
        write!(
            out,
            "{named}{}  {:<index$} {:<kind$} | {:>temperature$} | {:>utilisation$} | {:>memory$} | ",
            " ".repeat(worker - named.width()),
            line.index,
            line.kind,
            line.temperature,
            line.utilisation,
            line.memory,
        )
        .expect("a string takes all");
        let room = screen.width.map_or(usize::MAX, |width| width.saturating_sub(out[start..].width()).max(8));
        out.push_str(&screen.paint(&fitted(&line.who, room), line.paint));
        out.push('\n');
    }
    out
}

fn line(gpu: &GpuView) -> GpuRow {
    let (who, paint) = who(gpu);
    let taken = gpu.used_bytes.saturating_add(gpu.foreign_bytes).min(gpu.memory_bytes);
    GpuRow {
        worker: escape_controls(&gpu.worker).into_owned(),
        index: format!("[{}]", gpu.index),
        kind: kind(gpu),
        temperature: gpu.temperature_celsius.map_or("-".to_owned(), |degrees| format!("{degrees}°C")),
        utilisation: gpu.utilisation_percent.map_or("-".to_owned(), |percent| format!("{percent} %")),
        memory: format!("{:.1} / {:.1} GiB", taken as f64 / GIB, gpu.memory_bytes as f64 / GIB),
        who,
        paint,
    }
}

/// The type as makers name it: with its memory.
fn kind(gpu: &GpuView) -> String {
    let kind = escape_controls(&gpu.kind);
    if kind.ends_with("GB") {
        return kind.into_owned();
    }
    format!("{kind}-{:.0}GB", gpu.memory_bytes as f64 / GIB)
}

/// The users of a device: our tasks, foreign processes, or none.
fn who(gpu: &GpuView) -> (String, Paint) {
    let task = |bytes: u64| format!("{:.1}G", bytes as f64 / GIB);
    let mut parts: Vec<String> = gpu
        .tasks
        .iter()
        .map(|on| {
            let note =
                on.note.as_deref().map(|note| format!(" [{}]", escape_controls(note))).unwrap_or_default();
            let over =
                on.requested_bytes.map(|asked| format!(" [requested {}]", task(asked))).unwrap_or_default();
            format!(
                "{}({}) {}{over}{note}",
                escape_controls(&on.task),
                escape_controls(&on.user),
                task(on.memory_bytes)
            )
        })
        .collect();
    match &gpu.unavailable {
        Some(_) if !gpu.foreign.is_empty() => {
            let whose = |p: &ForeignProcess| {
                let user =
                    p.user.as_deref().map(|user| format!(" ({})", escape_controls(user))).unwrap_or_default();
                let held = p.memory_bytes.map(|bytes| format!(" {}", task(bytes))).unwrap_or_default();
                format!("pid {}{user}{held}", p.pid)
            };
            let all: Vec<_> = gpu.foreign.iter().map(whose).collect();
            parts.push(format!("not ours: {}", all.join(", ")));
        }
        Some(reason) => parts.push(escape_controls(reason).into_owned()),
        None if gpu.foreign_bytes > 0 => parts.push(format!("not ours: {}", task(gpu.foreign_bytes))),
        None if parts.is_empty() => return ("free".to_owned(), Paint::Dim),
        None => {}
    }
    let paint = match &gpu.unavailable {
        Some(_) => Paint::Yellow,
        None => Paint::Plain,
    };
    (parts.join("  "), paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn gpu(worker: &str, index: u32, changes: Value) -> GpuView {
        let mut gpu = json!({"id": format!("{worker}/{index}"), "type": "V100", "memory_bytes": 16u64 << 30,
            "used_bytes": 0, "free_bytes": 16u64 << 30, "foreign_bytes": 0, "tasks": [], "worker": worker,
            "index": index, "uuid": null, "budget_bytes": 16u64 << 30, "max_tasks": null,
            "utilisation_percent": 0, "temperature_celsius": 41, "unavailable": null});
        crate::show::jobs::tests::merge(&mut gpu, changes);
        serde_json::from_value(gpu).unwrap()
    }

    fn several() -> Vec<GpuView> {
        let gib = |size: f64| (size * GIB) as u64;
        let tasks = json!([{"task": "412.train", "user": "ann", "memory_bytes": gib(7.2)},
                           {"task": "408[3]", "user": "bob", "memory_bytes": gib(4.2)}]);
        vec![
            gpu(
                "gpu1",
                0,
                json!({"used_bytes": gib(11.4), "utilisation_percent": 75, "temperature_celsius": 65,
                                  "tasks": tasks}),
            ),
            gpu("gpu1", 1, json!({})),
            gpu(
                "gpu2",
                0,
                json!({"type": "A100-40GB", "memory_bytes": gib(40.0), "foreign_bytes": gib(3.1),
                                  "utilisation_percent": 12, "temperature_celsius": null,
                                  "foreign": [{"pid": 4242, "user": "carl", "memory_bytes": gib(3.1)}],
                                  "unavailable": "in use by someone else"}),
            ),
        ]
    }

    #[test]
    fn gpus_look_like_gpustat() {
        insta::assert_snapshot!(lines(&several(), &Screen::for_tests(None)), @"
        gpu1  [0] V100-16GB | 65°C | 75 % | 11.4 / 16.0 GiB | 412.train(ann) 7.2G  408[3](bob) 4.2G
              [1] V100-16GB | 41°C |  0 % |  0.0 / 16.0 GiB | free
        gpu2  [0] A100-40GB |    - | 12 % |  3.1 / 40.0 GiB | not ours: pid 4242 (carl) 3.1G
        ");
    }

    #[test]
    fn gpus_fit_the_terminal() {
        let text = lines(&several(), &Screen::for_tests(Some(70)));
        assert!(text.lines().all(|line| line.width() <= 70), "{text}");
    }

    #[test]
    fn no_gpu_says_so() {
        assert!(lines(&[], &Screen::for_tests(None)).starts_with("no GPUs here"));
    }
}
