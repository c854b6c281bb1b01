//! What other policies would have done with what really came: replays of the log, one at a time, beside everything else.

use crate::recording::recording;
use crate::store::Log;
use crate::summary::time;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use warpyard_api::wire::{
    Agreement, Distribution, ReplayInput, ReplayResult, ReplayState, ReplayView, ResultKind,
};
use warpyard_core::{PolicyChoice, Span, Time};
use warpyard_policies::{POLICIES, default_policy};
use warpyard_sim::replay::{Recording, ReplayOutcome, ReplayPolicy};
use warpyard_sim::{SimReport, report};

/// How many replays are remembered.
const KEPT: usize = 8;

/// The replays of late.
#[derive(Default)]
pub(crate) struct Replays(Mutex<ReplayList>);

#[derive(Default)]
struct ReplayList {
    last: u64,
    runs: VecDeque<ReplayView>,
}

/// Another replay is not over.
#[derive(Debug, thiserror::Error)]
#[error("a replay is under way; wait for it")]
pub(crate) struct ReplayUnderWay;

impl Replays {
    /// Every replay, the last first.
    pub(crate) fn all(&self) -> Vec<ReplayView> {
        self.kept().runs.iter().rev().cloned().collect()
    }

    /// One of them.
    pub(crate) fn one(&self, id: u64) -> Option<ReplayView> {
        self.kept().runs.iter().find(|run| run.id == id).cloned()
    }

    /// Begins one: of what the log has of the last so long, under each of these policies.
    pub(crate) fn begin(
        self: &Arc<Self>,
        log: PathBuf,
        policies: Vec<PolicyChoice>,
        back: Span,
        now: Time,
    ) -> Result<ReplayView, ReplayUnderWay> {
        let mut kept = self.kept();
        if kept.runs.iter().any(|run| run.state == ReplayState::Running) {
            return Err(ReplayUnderWay);
        }
        kept.last += 1;
        let view = ReplayView {
            id: kept.last,
            state: ReplayState::Running,
            policies: policies.iter().map(ToString::to_string).collect(),
            progress: 0.0,
            doing: "reading the log".into(),
            why: None,
            told: None,
            results: vec![],
        };
        kept.runs.push_back(view.clone());
        if kept.runs.len() > KEPT {
            kept.runs.pop_front();
        }
        let run = ReplayRun { replays: self.clone(), id: view.id };
        let work = move || run.through(log, &policies, now - back);
        std::thread::Builder::new().name("replay".into()).spawn(work).expect("a thread can be started");
        Ok(view)
    }

    fn kept(&self) -> MutexGuard<'_, ReplayList> {
        self.0.lock().expect("nobody panics while holding the replays")
    }
}

/// One replay under way.
struct ReplayRun {
    replays: Arc<Replays>,
    id: u64,
}

impl ReplayRun {
    fn through(self, log: PathBuf, policies: &[PolicyChoice], since: Time) {
        let ended = self.replay(log, policies, since);
        self.change(|view| match ended {
            Ok(()) => (view.state, view.progress) = (ReplayState::Done, 1.0),
            Err(why) => (view.state, view.why) = (ReplayState::Failed, Some(why)),
        });
    }

    fn replay(&self, log: PathBuf, policies: &[PolicyChoice], since: Time) -> Result<(), String> {
        let log = Log::open_to_read(&log).map_err(|e| e.to_string())?;
        let recording = recording(&log, since, default_policy()).map_err(|e| e.to_string())?;
        if recording.is_empty() {
            return Err(
                "nothing was submitted in that time; choose a longer one, or submit something first".into()
            );
        }
        self.change(|view| {
            view.told = Some(replay_input(&recording));
            view.results.push(result(
                ResultKind::Recorded,
                "what happened",
                &recording.recorded(false),
                None,
            ));
        });
        let under = std::iter::once((ResultKind::AsItRan, ReplayPolicy::AsRecorded))
            .chain(policies.iter().map(|p| (ResultKind::Policy, ReplayPolicy::Fixed(p.clone()))));
        let of = policies.len() as f64 + 1.0;
        for (done, (kind, under)) in under.enumerate() {
            let name = match &under {
                ReplayPolicy::AsRecorded => "the same, simulated".to_owned(),
                ReplayPolicy::Fixed(policy) => policy.to_string(),
            };
            self.change(|view| view.doing = format!("simulating {name}"));
            let progress = |p: warpyard_sim::replay::Progress| {
                self.change(|view| view.progress = (done as f64 + p.share) / of);
                ControlFlow::Continue(())
            };
            let ReplayOutcome { report, agreement, .. } =
                recording.replay(&under, POLICIES, false, None, progress).map_err(|e| e.to_string())?;
            let agreement = (kind == ResultKind::AsItRan).then_some(Agreement {
                starts: agreement.starts,
                missing: agreement.missing,
                same_place: agreement.same_place,
                mean_error_seconds: agreement.mean_error_s,
                max_error_seconds: agreement.max_error_s,
            });
            self.change(|view| view.results.push(result(kind, &name, &report, agreement)));
        }
        Ok(())
    }

    fn change(&self, how: impl FnOnce(&mut ReplayView)) {
        if let Some(view) = self.replays.kept().runs.iter_mut().find(|run| run.id == self.id) {
            how(view);
        }
    }
}

fn replay_input(recording: &Recording) -> ReplayInput {
    let (told, (from, to)) = (recording.summary(), recording.span());
    ReplayInput {
        from: time(from),
        to: time(to),
        jobs: told.jobs,
        there_before: told.initial,
        unfinished: told.unfinished,
        unknown: told.unknown,
        policy_changes: told.policy_changes.clone(),
    }
}

fn result(kind: ResultKind, name: &str, report: &SimReport, agreement: Option<Agreement>) -> ReplayResult {
    let spread =
        |s: &report::Distribution| Distribution { average: s.average, p50: s.p50, p95: s.p95, max: s.max };
    ReplayResult {
        kind,
        policy: name.to_owned(),
        jobs: report.jobs,
        rejected: report.rejected,
        still_waiting: report.still_waiting,
        wait_seconds: spread(&report.wait),
        completion_seconds: spread(&report.completion),
        makespan_seconds: report.makespan,
        utilisation: report.utilisation,
        agreement,
    }
}
