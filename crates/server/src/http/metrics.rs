//! Metrics in the text exposition format of Prometheus. `docs/metrics.md` lists their names; a test compares the two.

use super::refusal::Refusal;
use super::{AppState, gpus, machine};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::fmt::{Display, Write};
use warpyard_api::wire::{State as Standing, WorkerState};

pub(super) async fn metrics(State(app): AppState) -> Result<Response, Refusal> {
    let devices = gpus::all(&app).await?;
    let workers = machine::all_workers(&app).await?;
    let look = |f: &crate::replica::Reader<'_>| {
        let cluster = f.cluster();
        let policy = cluster.policy().name.clone();
        (f.index().tasks(), policy, cluster.seq(), f.measures())
    };
    let (mut tasks, policy, seq, measures) = app.engine.read(look).await?;
    let coverage = app.engine.read_history(|history| history.bound_coverage()).await?.unwrap_or_default();
    let mut text = Exposition::default();
    text.family("warpyard_info", "gauge", "The server: its version and the policy in force.");
    text.sample("warpyard_info", &[("version", env!("CARGO_PKG_VERSION")), ("policy", &policy)], 1);
    text.family(
        "warpyard_tasks",
        "gauge",
        "Tasks of jobs that are not over, by state; ready is the queue's depth.",
    );
    for state in Standing::ALL {
        text.sample("warpyard_tasks", &[("state", state.word())], *tasks.of(state));
    }
    text.family("warpyard_workers", "gauge", "Workers by state.");
    for (state, word) in [
        (WorkerState::Up, "up"),
        (WorkerState::Silent, "silent"),
        (WorkerState::Draining, "draining"),
        (WorkerState::Quarantined, "quarantined"),
        (WorkerState::Lost, "lost"),
    ] {
        text.sample(
            "warpyard_workers",
            &[("state", word)],
            workers.iter().filter(|w| w.state == state).count(),
        );
    }
    type ValueOf = fn(&warpyard_api::wire::GpuView) -> Option<f64>;
    let per_device: [(&str, &str, ValueOf); 6] = [
        ("warpyard_device_memory_bytes", "Total memory of a device.", |g| Some(g.memory_bytes as f64)),
        ("warpyard_device_used_bytes", "Memory of a device that tasks have reserved or use.", |g| {
            Some(g.used_bytes as f64)
        }),
        ("warpyard_device_tasks", "Tasks on a device.", |g| Some(g.tasks.len() as f64)),
        (
            "warpyard_device_utilisation_ratio",
            "Utilisation of a device, from 0 to 1, where it is reported.",
            |g| g.utilisation_percent.map(|p| f64::from(p) / 100.0),
        ),
        ("warpyard_device_temperature_celsius", "Temperature of a device, where it is reported.", |g| {
            g.temperature_celsius.map(f64::from)
        }),
        ("warpyard_device_power_watts", "Power draw of a device, where it is reported.", |g| {
            g.power_watts.map(f64::from)
        }),
    ];
    for (name, help, of) in per_device {
        text.family(name, "gauge", help);
        for gpu in &devices {
            if let Some(value) = of(gpu) {
                text.sample(name, &[("device", &gpu.id), ("type", &gpu.kind)], value);
            }
        }
    }
    text.family("warpyard_repairs_total", "counter", "Repairs of damaged files since the log began.");
    text.sample("warpyard_repairs_total", &[], app.repairs.count());
    text.family(
        "warpyard_clock_offset_seconds",
        "gauge",
        "How far the server's clock is ahead of the machine's wall clock.",
    );
    text.sample("warpyard_clock_offset_seconds", &[], app.engine.clock().offset_seconds());
    text.family("warpyard_events_total", "counter", "Events in the log.");
    text.sample("warpyard_events_total", &[], seq);
    text.family(
        "warpyard_bound_runs",
        "gauge",
        "Latest runs of estimated models whose GPU memory was measured, at most 1000.",
    );
    text.sample("warpyard_bound_runs", &[], coverage.measured);
    text.family(
        "warpyard_bound_target_ratio",
        "gauge",
        "Share of them that is to stay below the admission bound.",
    );
    text.sample("warpyard_bound_target_ratio", &[], app.bound_share);
    text.family(
        "warpyard_bound_coverage_ratio",
        "gauge",
        "Share of them that did; absent before any was measured.",
    );
    if let Some(share) = coverage.share() {
        text.sample("warpyard_bound_coverage_ratio", &[], share);
    }
    for (name, help, histogram) in [
        ("warpyard_wait_seconds", "Time from ready to placed.", &measures.wait),
        (
            "warpyard_plan_seconds",
            "Deciding and planning of one turn of the engine, without the commit.",
            &measures.plan,
        ),
        ("warpyard_commit_seconds", "Time to commit the events of one turn.", &measures.commit),
        (
            "warpyard_event_lag_seconds",
            "Time from an event to its visibility in the read replica.",
            &measures.lag,
        ),
    ] {
        text.family(name, "histogram", help);
        let (buckets, count, sum) = histogram.read();
        for (le, below) in buckets {
            text.sample(&format!("{name}_bucket"), &[("le", &le.to_string())], below);
        }
        text.sample(&format!("{name}_bucket"), &[("le", "+Inf")], count);
        text.sample(&format!("{name}_sum"), &[], sum);
        text.sample(&format!("{name}_count"), &[], count);
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text.0).into_response())
}

#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("a string takes all");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let label = |(key, value): &(&str, &str)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{key}=\"{value}\"")
        };
        let labels = match labels {
            [] => String::new(),
            some => format!("{{{}}}", some.iter().map(label).collect::<Vec<_>>().join(",")),
        };
        writeln!(self.0, "{name}{labels} {value}").expect("a string takes all");
    }
}
