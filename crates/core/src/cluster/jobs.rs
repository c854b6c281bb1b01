//! All jobs in memory, found by number in constant time: numbers are dense, and the oldest leave first.

use super::job::Job;
use crate::ids::JobId;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use std::collections::VecDeque;

/// Jobs in order of submission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    /// The number of the first slot.
    base: u64,
    slots: VecDeque<Option<Box<Job>>>,
    len: usize,
}

impl Jobs {
    /// The job of that number.
    pub fn get(&self, id: JobId) -> Option<&Job> {
        self.slots.get(self.slot(id)?)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Job> {
        let at = self.slot(id)?;
        self.slots.get_mut(at)?.as_deref_mut()
    }

    /// Every job, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Job> + '_ {
        self.slots.iter().filter_map(Option::as_deref)
    }

    /// Jobs with numbers above this one, oldest first.
    pub fn after(&self, id: JobId) -> impl Iterator<Item = &Job> + '_ {
        let from = (id.0 + 1).saturating_sub(self.base).min(self.slots.len() as u64) as usize;
        self.slots.range(from..).filter_map(Option::as_deref)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn insert(&mut self, job: Box<Job>) {
        if self.slots.is_empty() {
            self.base = job.id.0;
        }
        let end = self.base + self.slots.len() as u64;
        assert!(job.id.0 >= end, "job numbers only grow");
        for _ in end..job.id.0 {
            self.slots.push_back(None);
        }
        self.slots.push_back(Some(job));
        self.len += 1;
    }

    pub(super) fn remove(&mut self, id: JobId) -> Option<Box<Job>> {
        let at = self.slot(id)?;
        let job = self.slots.get_mut(at)?.take()?;
        self.len -= 1;
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.base += 1;
        }
        while let Some(None) = self.slots.back() {
            self.slots.pop_back();
        }
        if self.slots.is_empty() {
            self.base = 0;
        }
        Some(job)
    }

    fn slot(&self, id: JobId) -> Option<usize> {
        id.0.checked_sub(self.base).map(|at| at as usize)
    }
}

impl Serialize for Jobs {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Jobs {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Jobs, D::Error> {
        let mut jobs = Jobs::default();
        for mut job in Vec::<Job>::deserialize(d)? {
            job.link();
            jobs.insert(Box::new(job));
        }
        Ok(jobs)
    }
}
