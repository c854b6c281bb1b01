//! Pairs in a round: two jobs that share GPUs are a candidate of their own, after the single jobs, with their own time
//! owed and received. The capacity ensures that a job is chosen only once. A chosen pair is split again where GPUs
//! would be idle, and an unplaced job joins a partner that has its GPUs alone.

use super::{Candidate, RoundCapacity, RoundScheduler, types_by_value};

impl RoundScheduler {
    /// Chooses types as [`RoundScheduler::choose`] does, where the last candidates are `pairs` of the first, by index.
    /// A pair with a member that is no candidate itself, because it stays where it is, is `None` and can only be
    /// joined.
    pub fn choose_with_pairs(
        &self,
        candidates: &[Candidate],
        pairs: &[Option<[usize; 2]>],
        capacity: &mut impl RoundCapacity,
    ) -> Vec<Option<usize>> {
        let mut chosen = self.choose(candidates, capacity);
        let jobs = candidates.len() - pairs.len();
        for (pair, members) in (jobs..).zip(pairs) {
            if let Some(on) = chosen[pair].filter(|_| candidates[pair].movable)
                && let Some(members) = members
                && let Some((goes, to)) = split_pair(candidates, pair, members, on, capacity)
            {
                chosen[pair] = None;
                (chosen[members[1 - goes]], chosen[members[goes]]) = (Some(on), Some(to));
            }
        }
        for (_, i, j) in self.by_priority(candidates) {
            if i >= jobs && chosen[i].is_none() && capacity.join(i, j) {
                chosen[i] = Some(j);
            }
        }
        chosen
    }
}

/// Gives one member of a pair idle GPUs of its own, where they are no slower than its half of the shared ones.
fn split_pair(
    candidates: &[Candidate],
    pair: usize,
    members: &[usize; 2],
    on: usize,
    capacity: &mut impl RoundCapacity,
) -> Option<(usize, usize)> {
    [1, 0].into_iter().find_map(|goes| {
        let speeds = &candidates[members[goes]].speeds;
        let able = types_by_value(speeds, |to| 2.0 * speeds[to] > speeds[on], |to| speeds[to]);
        able.into_iter().find(|&to| capacity.split(pair, goes, to)).map(|to| (goes, to))
    })
}
