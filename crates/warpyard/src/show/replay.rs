//! `replay`: what was recorded beside what would have been, and how far that can be trusted.

use super::compare::{self, PolicyFigures, Sample};
use super::{Screen, counted, figure, format_span_secs, percent, time_left};
use serde::{Serialize, Serializer};
use serde_json::json;
use std::fmt::Write;
use warpyard_sim::SimReport;
use warpyard_sim::replay::{Fidelity, Progress, Recording, RecordingSummary, ReplayOutcome, ReplayPolicy};

/// The answer of `replay`.
pub(crate) struct ReplayAnswer {
    span_s: f64,
    policy: String,
    told: RecordingSummary,
    agreement: Fidelity,
    recorded: SimReport,
    /// Under what ran first, then under each policy asked for.
    replays: Vec<SimReport>,
}

impl ReplayAnswer {
    pub(crate) fn of(recording: &Recording, recorded: SimReport) -> Self {
        let (from, to) = recording.span();
        Self {
            span_s: to.since(from).secs(),
            policy: recording.policy().to_string(),
            told: recording.summary().clone(),
            agreement: Fidelity::default(),
            recorded,
            replays: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, under: &ReplayPolicy, replayed: ReplayOutcome) {
        if *under == ReplayPolicy::AsRecorded {
            self.agreement = replayed.agreement;
        }
        self.replays.push(replayed.report);
    }

    /// How many starts of all stand where they stood.
    fn same_order(&self) -> f64 {
        self.agreement.same_place as f64 / self.agreement.starts.max(1) as f64
    }
}

impl Serialize for ReplayAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Fidelity { starts, missing, same_place, mean_error_s, max_error_s } = self.agreement;
        json!({
            "recording": {"span_s": self.span_s, "policy": self.policy, "told": self.told},
            "agreement": {"starts": starts, "missing": missing, "same_place": same_place,
                "same_order": self.same_order(), "mean_start_error_s": mean_error_s, "max_start_error_s": max_error_s},
            "recorded": self.recorded,
            "replays": self.replays,
        })
        .serialize(serializer)
    }
}

/// How far it is after so many seconds.
pub(crate) fn progress(under: &ReplayPolicy, progress: Progress, took: f64) -> String {
    let name = match under {
        ReplayPolicy::AsRecorded => "as it ran".to_owned(),
        ReplayPolicy::Fixed(policy) => policy.to_string(),
    };
    let Progress { events, simulated_s, share } = progress;
    format!(
        "{name}: {} of the history, {}, {} simulated, {events} events, {} a second",
        percent(share),
        time_left(took, share),
        format_span_secs(simulated_s),
        figure((events as f64 / took.max(1e-6)).round())
    )
}

/// A table, and what must be known to read it.
pub(crate) fn text(answer: &ReplayAnswer, screen: &Screen) -> String {
    let all = std::iter::once(&answer.recorded).chain(&answer.replays);
    let rows: Result<Vec<_>, _> =
        all.map(|report| PolicyFigures::of(std::slice::from_ref(report), Sample::Single)).collect();
    let rows = rows.expect("figures are always JSON");
    let mut out = compare::table(&rows, screen);
    let Fidelity { starts, missing, same_place, mean_error_s, max_error_s } = answer.agreement;
    let same = if same_place == starts { "all".to_owned() } else { same_place.to_string() };
    writeln!(
        out,
        "accuracy: with the policy that ran, {same} of {} are in the recorded order, {} s off on average, {} s at most",
        counted(starts, "start"),
        figure(mean_error_s),
        figure(max_error_s)
    )
    .expect("a string takes all");
    for line in summary_lines(answer, missing) {
        writeln!(out, "  {line}").expect("a string takes all");
    }
    out
}

/// What was replayed, for a page.
pub(crate) fn about(answer: &ReplayAnswer) -> Vec<(String, String)> {
    let lines =
        summary_lines(answer, answer.agreement.missing).into_iter().map(|line| ("history".to_owned(), line));
    let Fidelity { starts, same_place, mean_error_s, max_error_s, .. } = answer.agreement;
    let agreement = format!(
        "with the policy that ran, {same_place} of {starts} starts are in the recorded order, {} s off on average, {} s at most",
        figure(mean_error_s),
        figure(max_error_s)
    );
    lines.chain([("agreement".to_owned(), agreement)]).collect()
}

fn summary_lines(answer: &ReplayAnswer, missing: u64) -> Vec<String> {
    let RecordingSummary {
        jobs,
        initial: there_before,
        unfinished,
        unknown,
        policy_changes,
        user_commands: by_people,
        machine_changes: of_machines,
    } = &answer.told;
    let policy = match &policy_changes[..] {
        [] => format!("the policy was {}", answer.policy),
        changes => format!("the policy was {} at first, then {}", answer.policy, changes.join(", ")),
    };
    let mut lines =
        vec![format!("{} over {}; {policy}", counted(*jobs, "job"), format_span_secs(answer.span_s))];
    let waiting = answer.recorded.still_waiting;
    let counts = [
        (*there_before, "job", "submitted before the period: simulated, not counted"),
        (*unfinished, "job", "not ended yet: simulated by their stated length, counted only in the waits"),
        (waiting, "job", "not started yet: counted with the wait so far, so recorded waits are lower bounds"),
        (*unknown, "attempt", "of jobs submitted before the log begins: left out"),
        (missing, "start", "missing in the simulation of the policy that ran"),
        (*by_people, "request", "of users (holds, pauses, cancellations, …): repeated at the same times"),
        (*of_machines, "change", "of workers or GPUs: repeated at the same times"),
    ];
    let worth = counts.into_iter().filter(|(n, ..)| *n > 0);
    lines.extend(worth.map(|(n, what, so)| format!("{} {so}", counted(n, what))));
    lines
}
