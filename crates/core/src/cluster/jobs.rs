//! Jobs in memory, found by id in constant time: ids are dense, and the oldest jobs are evicted first.
//!
//! Copies share jobs chunk by chunk and copy a chunk on write: a copy of a million jobs costs one pointer for every
//! [`CHUNK`] of them.

use super::job::Job;
use crate::ids::JobId;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of consecutive ids in a chunk.
const CHUNK: usize = 64;

/// Jobs in order of submission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jobs {
    /// Number of the first chunk: the id of its first job, divided by [`CHUNK`].
    base: u64,
    /// Chunks; neither the first nor the last is empty.
    chunks: VecDeque<Option<Arc<Chunk>>>,
    len: usize,
}

/// Jobs whose ids differ in the last digits only.
#[derive(Clone, Debug, PartialEq)]
struct Chunk {
    jobs: [Option<Arc<Job>>; CHUNK],
}

impl Chunk {
    const EMPTY: Chunk = Chunk { jobs: [const { None }; CHUNK] };

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Job> + '_ {
        self.jobs.iter().filter_map(Option::as_deref)
    }
}

impl Jobs {
    /// Job with this id.
    pub fn get(&self, id: JobId) -> Option<&Job> {
        self.shared(id).map(|job| &**job)
    }

    /// Shared pointer to a job, for another cluster.
    pub(super) fn shared(&self, id: JobId) -> Option<&Arc<Job>> {
        let (chunk, at) = self.place(id)?;
        self.chunks.get(chunk)?.as_ref()?.jobs[at].as_ref()
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Job> {
        let (chunk, at) = self.place(id)?;
        let chunk = Arc::make_mut(self.chunks.get_mut(chunk)?.as_mut()?);
        chunk.jobs[at].as_mut().map(Arc::make_mut)
    }

    /// Every job, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Job> + '_ {
        self.chunks.iter().flatten().flat_map(|chunk| chunk.iter())
    }

    /// Jobs with ids above this one, oldest first.
    pub fn after(&self, id: JobId) -> impl Iterator<Item = &Job> + '_ {
        let from = (id.0 / CHUNK as u64).saturating_sub(self.base).min(self.chunks.len() as u64) as usize;
        let jobs = self.chunks.range(from..).flatten().flat_map(|chunk| chunk.iter());
        jobs.skip_while(move |job| job.id <= id)
    }

    /// Jobs with ids below this one, newest first.
    pub fn before(&self, id: JobId) -> impl Iterator<Item = &Job> + '_ {
        let end = (id.0 / CHUNK as u64 + 1).saturating_sub(self.base).min(self.chunks.len() as u64) as usize;
        let jobs = self.chunks.range(..end).flatten().flat_map(|chunk| chunk.iter());
        jobs.rev().skip_while(move |job| job.id >= id)
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn insert(&mut self, job: Arc<Job>) {
        assert!(self.iter().next_back().is_none_or(|last| last.id < job.id), "job numbers only grow");
        if self.chunks.is_empty() {
            self.base = job.id.0 / CHUNK as u64;
        }
        let (chunk, at) = self.place(job.id).expect("numbers only grow");
        while self.chunks.len() <= chunk {
            self.chunks.push_back(None);
        }
        let chunk = self.chunks[chunk].get_or_insert_with(|| Arc::new(Chunk::EMPTY));
        Arc::make_mut(chunk).jobs[at] = Some(job);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, id: JobId) -> Option<Arc<Job>> {
        let (place, at) = self.place(id)?;
        let slot = self.chunks.get_mut(place)?;
        let chunk = Arc::make_mut(slot.as_mut()?);
        let job = chunk.jobs[at].take()?;
        self.len -= 1;
        if chunk.iter().next().is_none() {
            *slot = None;
        }
        while let Some(None) = self.chunks.front() {
            self.chunks.pop_front();
            self.base += 1;
        }
        while let Some(None) = self.chunks.back() {
            self.chunks.pop_back();
        }
        if self.chunks.is_empty() {
            self.base = 0;
        }
        Some(job)
    }

    /// Chunk of a job, and its index there.
    fn place(&self, id: JobId) -> Option<(usize, usize)> {
        let chunk = (id.0 / CHUNK as u64).checked_sub(self.base)?;
        Some((chunk as usize, (id.0 % CHUNK as u64) as usize))
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
            jobs.insert(Arc::new(job));
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::JobSpec;
    use crate::time::Time;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn job(id: u64) -> Arc<Job> {
        Arc::new(Job::new(JobId(id), "ann".into(), Time(0), Arc::new(JobSpec::default())))
    }

    proptest! {
        #[test]
        fn behaves_like_a_map_and_its_copies_stay_as_they_were(
            ops in prop::collection::vec((0u8..4, 0u64..300), 0..200),
        ) {
            let (mut ours, mut plain, mut copies) = (Jobs::default(), BTreeMap::new(), Vec::new());
            for (op, id) in ops {
                match op {
                    0 if plain.keys().next_back().is_none_or(|last| *last < id) => {
                        ours.insert(job(id));
                        plain.insert(id, 0);
                    }
                    1 => prop_assert_eq!(ours.remove(JobId(id)).is_some(), plain.remove(&id).is_some()),
                    2 => copies.push((ours.clone(), plain.clone())),
                    _ => {
                        let (ours, plain) = (ours.get_mut(JobId(id)), plain.get_mut(&id));
                        prop_assert_eq!(ours.is_some(), plain.is_some());
                        if let (Some(ours), Some(plain)) = (ours, plain) {
                            (ours.priority, *plain) = (ours.priority + 1, *plain + 1);
                        }
                    }
                }
                let of = |job: &Job| (job.id.0, job.priority);
                let pair = |(id, priority): (&u64, &i64)| (*id, *priority);
                prop_assert_eq!(ours.len(), plain.len());
                prop_assert!(ours.iter().map(of).eq(plain.iter().map(pair)));
                prop_assert!(ours.after(JobId(id)).map(of).eq(plain.range(id + 1..).map(pair)));
                prop_assert!(ours.before(JobId(id)).map(of).eq(plain.range(..id).rev().map(pair)));
                prop_assert_eq!(ours.get(JobId(id)).map(of), plain.get_key_value(&id).map(pair));
                for (ours, plain) in &copies {
                    prop_assert!(ours.iter().map(of).eq(plain.iter().map(pair)), "a copy changed");
                }
            }
        }
    }
}
