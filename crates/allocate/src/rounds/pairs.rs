//! Two jobs that share GPUs are a candidate of their own, behind those of the single jobs, with time owed and received of
//! its own. A job is chosen once, whichever way, which is for the room to see to; two that were chosen part again where
//! GPUs would stand idle, and whoever was left out goes beside a partner that has its GPUs alone.

use super::{Candidate, Room, Rounds, best_first};

impl Rounds {
    /// As [`Rounds::choose`], where the last candidates are `pairs` of the first, by their places; one of which a member is
    /// no candidate itself, because it stays where it is, has none, and can only be joined.
    pub fn choose_with_pairs(
        &self,
        candidates: &[Candidate],
        pairs: &[Option<[usize; 2]>],
        room: &mut impl Room,
    ) -> Vec<Option<usize>> {
        let mut chosen = self.choose(candidates, room);
        let jobs = candidates.len() - pairs.len();
        for (pair, members) in (jobs..).zip(pairs) {
            if let Some(on) = chosen[pair].filter(|_| candidates[pair].movable)
                && let Some(members) = members
                && let Some((goes, to)) = parted(candidates, pair, members, on, room)
            {
                chosen[pair] = None;
                (chosen[members[1 - goes]], chosen[members[goes]]) = (Some(on), Some(to));
            }
        }
        for (_, i, j) in self.by_priority(candidates) {
            if i >= jobs && chosen[i].is_none() && room.join(i, j) {
                chosen[i] = Some(j);
            }
        }
        chosen
    }
}

/// Gives one of two GPUs of its own where some would stand idle and are no slower than what it has beside the other.
fn parted(
    candidates: &[Candidate],
    pair: usize,
    members: &[usize; 2],
    on: usize,
    room: &mut impl Room,
) -> Option<(usize, usize)> {
    [1, 0].into_iter().find_map(|goes| {
        let speeds = &candidates[members[goes]].speeds;
        let able = best_first(speeds, |to| 2.0 * speeds[to] > speeds[on], |to| speeds[to]);
        able.into_iter().find(|&to| room.part(pair, goes, to)).map(|to| (goes, to))
    })
}
