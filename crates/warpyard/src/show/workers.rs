//! `workers`: one line for each machine.

use super::{Align, Cell, Paint, Screen, Table};
use warpyard_api::quantity::ByteSize;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{WorkerState, WorkerView};

/// The table of workers.
pub(crate) fn table(workers: &[WorkerView], screen: &Screen) -> String {
    let mut table = Table::new([
        ("WORKER", Align::Left),
        ("ST", Align::Left),
        ("TASKS", Align::Right),
        ("GPUS", Align::Right),
        ("CPUS", Align::Right),
        ("MEMORY", Align::Right),
        ("LABELS", Align::Left),
        ("VERSION", Align::Left),
    ]);
    for worker in workers {
        let memory = |bytes| ByteSize(bytes).rounded();
        table.row([
            (&worker.id).into(),
            state(worker.state),
            worker.running.to_string().into(),
            worker.gpus.to_string().into(),
            format!("{} / {}", worker.used_cpus, worker.cpus).into(),
            format!("{} / {}", memory(worker.used_memory_bytes), memory(worker.memory_bytes)).into(),
            labels(worker).into(),
            (&worker.version).into(),
        ]);
    }
    let mut text = table.render(screen);
    for worker in workers {
        if let Some(reason) = &worker.drain_reason {
            let (id, reason) = (escape_controls(&worker.id), escape_controls(reason));
            text += &format!("{id}: {reason}\n  once that is fixed: warpyard resume {id}\n");
        }
    }
    text
}

fn labels(worker: &WorkerView) -> String {
    let labels: Vec<_> = worker.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(",")
}

/// The word for a worker's state.
pub(crate) fn word(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Up => "up",
        WorkerState::Silent => "silent",
        WorkerState::Draining => "draining",
        WorkerState::Quarantined => "quarantined",
        WorkerState::Lost => "lost",
    }
}

fn state(state: WorkerState) -> Cell {
    let paint = match state {
        WorkerState::Up => Paint::Green,
        WorkerState::Silent | WorkerState::Draining | WorkerState::Quarantined => Paint::Yellow,
        WorkerState::Lost => Paint::Red,
    };
    Cell::new(word(state), paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn workers_say_what_they_have_and_what_is_taken() {
        let workers: Vec<WorkerView> = serde_json::from_value(json!([
            {"id": "gpu1", "state": "up", "labels": {"rack": "a", "room": "2"}, "cpus": 64, "used_cpus": 8.5, "memory_bytes": 256u64 << 30,
             "used_memory_bytes": 12u64 << 30, "gpus": 4, "running": 3, "version": "0.1.0"},
            {"id": "gpu2", "state": "draining", "drain_reason": "quarantined: 3 launches in a row failed", "cpus": 8,
             "used_cpus": 0, "memory_bytes": 16u64 << 30, "used_memory_bytes": 0, "gpus": 1, "running": 0,
             "version": "0.1.0"},
            {"id": "gpu3", "state": "lost", "cpus": 8, "used_cpus": 0, "memory_bytes": 16u64 << 30,
             "used_memory_bytes": 0, "gpus": 1, "running": 0, "version": "0.1.0"},
        ]))
        .unwrap();
        insta::assert_snapshot!(table(&workers, &Screen::for_tests(None)), @"
        WORKER  ST        TASKS  GPUS      CPUS            MEMORY  LABELS         VERSION
        gpu1    up            3     4  8.5 / 64  12 GiB / 256 GiB  rack=a,room=2  0.1.0
        gpu2    draining      0     1     0 / 8      0 B / 16 GiB                 0.1.0
        gpu3    lost          0     1     0 / 8      0 B / 16 GiB                 0.1.0
        gpu2: quarantined: 3 launches in a row failed
          once that is fixed: warpyard resume gpu2
        ");
    }
}
