//! Who was on which device from when to when, collected from the events of a simulation as it runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use warpyard_core::event::{Event, EventKind, WorkerInfo};
use warpyard_core::{AttemptId, JobId, Time, WorkerId};

/// Something ran on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyInterval {
    /// Which device, by its place in [`Timeline::devices`].
    pub device: u32,
    /// Whose job, by its place in [`Timeline::users`].
    pub user: u32,
    /// Which job.
    pub job: JobId,
    /// From when.
    pub from: Time,
    /// To when.
    pub to: Time,
}

/// Who was on which device from when to when.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Names of devices, such as `server1:0`, in order of their workers.
    pub devices: Vec<String>,
    /// Names of users, in order of their first job.
    pub users: Vec<String>,
    /// What ran, in order of its end.
    pub busy: Vec<BusyInterval>,
    /// Whose each job is.
    pub user_of: BTreeMap<JobId, u32>,
    first_device: BTreeMap<WorkerId, u32>,
    placed: BTreeMap<AttemptId, PlacedAttempt>,
}

#[derive(Clone, Debug)]
struct PlacedAttempt {
    devices: Vec<u32>,
    since: Option<Time>,
}

impl Timeline {
    /// A timeline of these workers, before anything happened. They must be all there are.
    pub fn of<'a>(workers: impl IntoIterator<Item = &'a WorkerInfo>) -> Timeline {
        let mut timeline = Timeline::default();
        for (number, worker) in (0..).zip(workers) {
            timeline.first_device.insert(WorkerId(number), timeline.devices.len() as u32);
            let names = (0..worker.devices.len()).map(|index| format!("{}:{index}", worker.name));
            timeline.devices.extend(names);
        }
        timeline
    }

    /// The same where a watcher and whoever started it both have it.
    pub fn shared(self) -> Rc<RefCell<Timeline>> {
        Rc::new(RefCell::new(self))
    }

    /// Takes one event.
    pub fn enter(&mut self, event: &Event) {
        let at = event.at;
        match &event.what {
            EventKind::JobSubmitted { job, user, .. } => {
                let known = self.users.iter().position(|other| other == user);
                let user = known.unwrap_or_else(|| {
                    self.users.push(user.clone());
                    self.users.len() - 1
                });
                self.user_of.insert(*job, user as u32);
            }
            EventKind::Placed { attempt, placement } => {
                let Some(first) = self.first_device.get(&placement.worker) else { return };
                let devices = placement.devices.iter().map(|(index, _)| first + u32::from(*index)).collect();
                self.placed.insert(*attempt, PlacedAttempt { devices, since: None });
            }
            EventKind::Started { attempt } | EventKind::Resumed { attempt } => {
                if let Some(placed) = self.placed.get_mut(attempt) {
                    placed.since = Some(at);
                }
            }
            EventKind::Paused { attempt } => self.close(*attempt, at),
            EventKind::Ended { attempt, .. } => {
                self.close(*attempt, at);
                self.placed.remove(attempt);
            }
            _ => {}
        }
    }

    fn close(&mut self, attempt: AttemptId, at: Time) {
        let Some(placed) = self.placed.get_mut(&attempt) else { return };
        let Some(from) = placed.since.take() else { return };
        let job = attempt.task.job;
        let user = self.user_of.get(&job).copied().unwrap_or(0);
        self.busy.extend(placed.devices.iter().map(|&device| BusyInterval {
            device,
            user,
            job,
            from,
            to: at,
        }));
    }

    /// From the first start to the last end.
    pub fn span(&self) -> Option<(Time, Time)> {
        let from = self.busy.iter().map(|busy| busy.from).min()?;
        let to = self.busy.iter().map(|busy| busy.to).max()?;
        Some((from, to))
    }

    /// The share of devices with something on them in each of `bins` equal parts of a span. A device that several
    /// share counts once.
    pub fn utilisation(&self, from: Time, to: Time, bins: usize) -> Vec<f64> {
        let width = (to.since(from).0 / bins as u64).max(1);
        let mut by_device: Vec<Vec<(Time, Time)>> = vec![Vec::new(); self.devices.len()];
        for busy in &self.busy {
            by_device[busy.device as usize].push((busy.from.max(from), busy.to.min(to)));
        }
        let mut sums = vec![0u64; bins];
        for spans in &mut by_device {
            spans.sort_unstable();
            let mut until = from;
            for &(begin, end) in spans.iter() {
                let begin = begin.max(until);
                if end > begin {
                    spread(&mut sums, begin.since(from).0, end.since(from).0, width);
                    until = end;
                }
            }
        }
        let all = width as f64 * self.devices.len().max(1) as f64;
        sums.into_iter().map(|sum| (sum as f64 / all).min(1.0)).collect()
    }

    /// Device time of each user up to a moment, in seconds. Those that share a device count it each.
    pub fn device_seconds(&self, until: Time) -> Vec<f64> {
        let mut seconds = vec![0.0; self.users.len()];
        for busy in &self.busy {
            if let Some(sum) = seconds.get_mut(busy.user as usize) {
                *sum += busy.to.min(until).since(busy.from.min(until)).secs();
            }
        }
        seconds
    }
}

/// Adds a span to the bins it lies in.
fn spread(sums: &mut [u64], begin: u64, end: u64, width: u64) {
    let last = sums.len() - 1;
    let bin = |at: u64| ((at / width) as usize).min(last);
    for (at, sum) in sums.iter_mut().enumerate().take(bin(end) + 1).skip(bin(begin)) {
        let from = begin.max(at as u64 * width);
        let to = if at == last { end } else { end.min((at as u64 + 1) * width) };
        *sum += to.saturating_sub(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_spread_over_the_bins_it_lies_in() {
        let mut sums = vec![0; 4];
        spread(&mut sums, 5, 25, 10);
        assert_eq!(sums, [5, 10, 5, 0]);
        spread(&mut sums, 30, 45, 10);
        assert_eq!(sums, [5, 10, 5, 15], "what lies beyond the last belongs to it");
    }

    #[test]
    fn a_shared_device_counts_once() {
        let busy = |device, from, to| {
            let (from, to) = (Time::from_secs(from), Time::from_secs(to));
            BusyInterval { device, user: 0, job: JobId(1), from, to }
        };
        let timeline = Timeline {
            devices: vec!["a:0".into(), "a:1".into()],
            users: vec!["ann".into()],
            busy: vec![busy(0, 0.0, 10.0), busy(0, 5.0, 15.0), busy(1, 0.0, 5.0)],
            ..Timeline::default()
        };
        let found = timeline.utilisation(Time(0), Time::from_secs(20.0), 4);
        assert_eq!(found, [1.0, 0.5, 0.5, 0.0]);
        assert_eq!(timeline.device_seconds(Time::from_secs(10.0)), [20.0]);
    }
}
