//! The feed of changes, as server-sent events: the replicator publishes a notice for each batch of events, and clients that
//! show the state subscribe. A notice says which jobs and devices changed and never how, so it is small, and the backlog is
//! bounded however slow a client is.

use axum::body::Bytes;
use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;
use tokio::time::timeout;
use warpyard_api::wire::Notice;
use warpyard_core::event::EventKind;
use warpyard_core::{Cluster, Event, WorkerId};

/// The most notices in the backlog, for clients that reconnect.
const KEPT: usize = 2_048;

/// The most notices a connected client may lag before it is disconnected; it reconnects and resumes from the backlog.
const BEHIND: usize = 256;

/// The most jobs that a notice names; beyond it the notice says that everything may have changed.
const NAMED: usize = 200;

/// The interval of keep-alive comments.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// How long a client may accept nothing before it is disconnected.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest that one stream lasts. A client reconnects and resumes from the backlog; one that never reads, for which the
/// kernel would buffer notices for a long time, does not.
pub(crate) const LONGEST: Duration = Duration::from_secs(15 * 60);

/// The feed: recent notices, and the subscribers to further ones.
pub(crate) struct ChangeFeed {
    backlog: Mutex<Backlog>,
    listeners: broadcast::Sender<EncodedNotice>,
}

/// A notice encoded as a server-sent event, once for all clients.
#[derive(Clone)]
struct EncodedNotice {
    seq: u64,
    text: Bytes,
}

impl EncodedNotice {
    fn of(notice: &Notice) -> EncodedNotice {
        EncodedNotice { seq: notice.seq, text: written(notice) }
    }

    fn to(self, visibility: Visibility) -> Bytes {
        match visibility {
            Visibility::AllJobs => self.text,
            Visibility::ChangesOnly => written(&something(self.seq)),
        }
    }
}

/// A notice that something changed, without what.
fn something(seq: u64) -> Notice {
    Notice { seq, jobs: vec![], devices: vec![], all: true }
}

fn written(notice: &Notice) -> Bytes {
    let data = serde_json::to_string(notice).expect("a notice is always JSON");
    format!("id: {}\ndata: {data}\n\n", notice.seq).into()
}

/// Which notices a client may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    AllJobs,
    ChangesOnly,
}

struct Backlog {
    /// Notices of all events after this one are in the list.
    from: u64,
    /// The number of the last event.
    last: u64,
    list: VecDeque<EncodedNotice>,
}

/// A subscription: the notices that a client missed, and those to come.
struct Subscription {
    missed: Vec<EncodedNotice>,
    /// The number of the last event, if the notices that the client missed are no longer in the backlog.
    reset: Option<u64>,
    more: broadcast::Receiver<EncodedNotice>,
}

impl ChangeFeed {
    /// An empty feed after the event with this number.
    pub(crate) fn starting_at(seq: u64) -> ChangeFeed {
        let backlog = Backlog { from: seq, last: seq, list: VecDeque::new() };
        ChangeFeed { backlog: Mutex::new(backlog), listeners: broadcast::Sender::new(BEHIND) }
    }

    /// Publishes a notice of events that were just applied, and of the devices that attempts left by them.
    pub(crate) fn leave(&self, cluster: &Cluster, events: &[Event], left: &[(WorkerId, u16)]) {
        if events.is_empty() {
            return;
        }
        let notice = EncodedNotice::of(&notice(cluster, events, left));
        let mut backlog = self.backlog();
        backlog.last = notice.seq;
        backlog.list.push_back(notice.clone());
        if backlog.list.len() > KEPT {
            backlog.from = backlog.list.pop_front().map_or(backlog.from, |oldest| oldest.seq);
        }
        // Sent while the list is held, so that nobody who comes now misses it or has it twice.
        let _nobody_listens = self.listeners.send(notice);
    }

    /// Publishes a notice that everything may have changed, for changes that are not events.
    pub(crate) fn refresh(&self) {
        let notice = EncodedNotice::of(&something(self.backlog().last));
        let _nobody_listens = self.listeners.send(notice);
    }

    /// Subscribes to the fact of changes, without their notices.
    pub(crate) fn listen(&self) -> ChangeListener {
        ChangeListener(self.listeners.subscribe())
    }

    /// The number of the last event that was published.
    pub(crate) fn last(&self) -> u64 {
        self.backlog().last
    }

    fn welcome(&self, after: Option<u64>) -> Subscription {
        let backlog = self.backlog();
        let more = self.listeners.subscribe();
        match after {
            Some(after) if (backlog.from..=backlog.last).contains(&after) => {
                let missed = backlog.list.iter().filter(|n| n.seq > after).cloned().collect();
                Subscription { missed, reset: None, more }
            }
            _ => Subscription { missed: vec![], reset: Some(backlog.last), more },
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().expect("nobody panics while holding the notices")
    }
}

/// A subscription to the fact of changes.
pub(crate) struct ChangeListener(broadcast::Receiver<EncodedNotice>);

impl ChangeListener {
    /// Waits for the next change. Having missed some counts as one.
    pub(crate) async fn changed(&mut self) {
        if let Err(RecvError::Closed) = self.0.recv().await {
            std::future::pending().await
        }
    }
}

/// Sends notices from an event on until the client is gone or too slow, or the stream has lasted as long as it may.
pub(crate) async fn send(
    notices: Arc<ChangeFeed>,
    visibility: Visibility,
    after: Option<u64>,
    to: mpsc::Sender<Result<Bytes, Infallible>>,
    longest: Duration,
) {
    // A subscriber that is cut off here reconnects and continues after the last notice it received.
    let _over = timeout(longest, send_all(notices, visibility, after, to)).await;
}

async fn send_all(
    notices: Arc<ChangeFeed>,
    visibility: Visibility,
    after: Option<u64>,
    to: mpsc::Sender<Result<Bytes, Infallible>>,
) {
    let Subscription { missed, reset, mut more } = notices.welcome(after);
    let put = async |text: Bytes| timeout(PATIENCE, to.send(Ok(text))).await.is_ok_and(|sent| sent.is_ok());
    if let Some(seq) = reset
        && !put(format!("id: {seq}\nevent: reset\ndata: {{\"seq\":{seq}}}\n\n").into()).await
    {
        return;
    }
    for notice in missed {
        if !put(notice.to(visibility)).await {
            return;
        }
    }
    loop {
        let text = match timeout(SIGN_OF_LIFE, more.recv()).await {
            Ok(Ok(notice)) => notice.to(visibility),
            Ok(Err(RecvError::Lagged(_) | RecvError::Closed)) => return,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        if !put(text).await {
            return;
        }
    }
}

fn notice(cluster: &Cluster, events: &[Event], left: &[(WorkerId, u16)]) -> Notice {
    let (mut jobs, mut all) = (BTreeSet::new(), false);
    let mut devices: BTreeSet<_> = left.iter().copied().collect();
    for event in events {
        jobs.extend(event.what.job());
        match &event.what {
            EventKind::WorkerJoined { worker, .. }
            | EventKind::WorkerLost { worker }
            | EventKind::WorkerDrained { worker, .. } => {
                let count = cluster.worker(*worker).map_or(0, |w| w.info.devices.len());
                devices.extend((0..count as u16).map(|index| (*worker, index)));
                all = true;
            }
            EventKind::DeviceChanged { device, .. } => {
                devices.insert((device.worker, device.index));
            }
            EventKind::Placed { placement, .. } => {
                devices.extend(placement.devices.iter().map(|(index, _)| (placement.worker, *index)));
            }
            EventKind::MemoryCharged { attempt, device, .. } => {
                let placed = cluster.view().attempt(attempt.task);
                devices.extend(placed.map(|(placed, _)| (placed.placement.worker, *device)));
            }
            EventKind::PolicySet { .. } | EventKind::LimitsSet { .. } => all = true,
            _ => {}
        }
    }
    let device = |(worker, index): (WorkerId, u16)| format!("{}/{index}", cluster.view().worker_name(worker));
    Notice {
        seq: cluster.seq(),
        all: all || jobs.len() > NAMED,
        jobs: jobs.iter().take(NAMED).map(ToString::to_string).collect(),
        devices: devices.into_iter().map(device).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_core::Time;
    use warpyard_core::command::Command;
    use warpyard_core::spec::{JobSpec, Program, TaskSpec};
    use warpyard_policies::default_policy;

    /// A cluster with one more job, and word of it.
    fn submit(cluster: &mut Cluster, notices: &ChangeFeed) {
        let tasks =
            vec![TaskSpec { name: "t".into(), program: Program::new(["true"]), ..TaskSpec::default() }];
        let spec = JobSpec { name: "job".into(), tasks, ..JobSpec::default() };
        let command = Command::Submit { user: "ann".into(), env: None, spec: spec.into() };
        let events = cluster.decide(command, Time(1)).expect("a plain job");
        for event in &events {
            cluster.apply(event);
        }
        notices.leave(cluster, &events, &[]);
    }

    async fn ids(from: &mut mpsc::Receiver<Result<Bytes, Infallible>>, most: usize) -> Vec<String> {
        let mut ids = Vec::new();
        while ids.len() < most
            && let Some(Ok(bytes)) = from.recv().await
        {
            let text = String::from_utf8(bytes.to_vec()).expect("events are text");
            let kind = if text.contains("event: reset") { "reset " } else { "" };
            ids.push(format!("{kind}{}", text.lines().next().expect("a line").trim_start_matches("id: ")));
        }
        ids
    }

    fn read(notices: &Arc<ChangeFeed>, after: Option<u64>) -> mpsc::Receiver<Result<Bytes, Infallible>> {
        let (to, from) = mpsc::channel(1);
        tokio::spawn(send(notices.clone(), Visibility::AllJobs, after, to, LONGEST));
        from
    }

    #[tokio::test]
    async fn who_may_not_know_of_others_jobs_hears_only_that_something_changed() {
        let (mut cluster, notices) = (Cluster::new(default_policy()), Arc::new(ChangeFeed::starting_at(0)));
        submit(&mut cluster, &notices);
        let (to, mut from) = mpsc::channel(1);
        tokio::spawn(send(notices.clone(), Visibility::ChangesOnly, Some(0), to, LONGEST));
        for came in ["before", "after"] {
            let Some(Ok(text)) = from.recv().await else { panic!("nothing was sent") };
            let text = String::from_utf8(text.to_vec()).expect("text");
            let said = format!(
                "id: {0}\ndata: {{\"seq\":{0},\"jobs\":[],\"devices\":[],\"all\":true}}\n\n",
                cluster.seq()
            );
            assert_eq!(text, said, "what came {came} it listened");
            submit(&mut cluster, &notices);
        }
    }

    #[tokio::test]
    async fn a_reader_that_comes_back_has_everything_once() {
        let (mut cluster, notices) = (Cluster::new(default_policy()), Arc::new(ChangeFeed::starting_at(0)));
        for _ in 0..4 {
            submit(&mut cluster, &notices);
        }
        let all = ids(&mut read(&notices, Some(0)), 4).await;
        let cut: u64 = all[1].parse().expect("a number");
        let mut again = read(&notices, Some(cut));
        assert_eq!(ids(&mut again, 2).await, all[2..], "no gap and no repeat");
        submit(&mut cluster, &notices);
        assert_eq!(ids(&mut again, 1).await, [cluster.seq().to_string()], "and then what is new");
    }

    #[tokio::test]
    async fn who_was_away_too_long_is_told_to_look_at_everything() {
        let (mut cluster, notices) = (Cluster::new(default_policy()), Arc::new(ChangeFeed::starting_at(0)));
        for _ in 0..KEPT + 2 {
            submit(&mut cluster, &notices);
        }
        let now = format!("reset {}", cluster.seq());
        assert_eq!(ids(&mut read(&notices, Some(0)), 1).await, [now.as_str()], "pruned");
        assert_eq!(ids(&mut read(&notices, Some(1 << 40)), 1).await, [now.as_str()], "from another life");
        assert_eq!(ids(&mut read(&notices, None), 1).await, [now.as_str()], "new");
    }

    #[tokio::test]
    async fn a_stream_ends_after_a_while_whoever_reads_it() {
        let notices = Arc::new(ChangeFeed::starting_at(0));
        let (to, mut from) = mpsc::channel(8);
        tokio::spawn(send(notices, Visibility::AllJobs, Some(0), to, Duration::from_millis(1)));
        assert!(from.recv().await.is_none(), "it ends without a notice, and its reader comes back");
    }

    #[tokio::test]
    async fn a_slow_reader_is_cut_off_and_others_are_not() {
        let (mut cluster, notices) = (Cluster::new(default_policy()), Arc::new(ChangeFeed::starting_at(0)));
        let (mut slow, mut quick) = (read(&notices, Some(0)), read(&notices, Some(0)));
        submit(&mut cluster, &notices);
        let (first, _) = (ids(&mut slow, 1).await, ids(&mut quick, 1).await);
        let mut seen = 0;
        for _ in 0..BEHIND + 50 {
            submit(&mut cluster, &notices);
            seen += ids(&mut quick, 1).await.len();
        }
        assert_eq!(seen, BEHIND + 50);
        let rest = ids(&mut slow, usize::MAX).await;
        assert!(rest.len() < BEHIND, "cut off after {}", rest.len());
        let last: u64 = rest.last().or(first.last()).expect("one").parse().expect("a number");
        let back = ids(&mut read(&notices, Some(last)), BEHIND + 50 - rest.len()).await;
        assert_eq!(back.last(), Some(&cluster.seq().to_string()), "what it missed is kept");
    }
}
