//! How long a task will run, as a forecast supposes it: as one like it did before, or as it promises where none did.

use warpyard_core::{Span, TaskId};

/// What is known of run times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// How long tasks like this one ran.
    pub before: &'a [Span],
    /// What share of their promise tasks of all kinds ran for.
    pub kept: &'a [f64],
    /// What this one promises.
    pub promised: Span,
}

/// One guess of how much longer a task runs, the same for the same task and sample: drawn from how long others like it
/// ran, else from its promise and from how others kept theirs. Only what is longer than it has run so far still says
/// anything.
pub fn draw(known: Known<'_>, so_far: Span, task: TaskId, sample: u32) -> Span {
    let promise = |share: &f64| Span::from_secs(known.promised.secs() * share);
    let like = known.before.iter().copied();
    let whole = pick(like.filter(|ran| *ran > so_far), task, sample)
        .or_else(|| pick(known.kept.iter().map(promise).filter(|ran| *ran > so_far), task, sample))
        .unwrap_or(known.promised.max(so_far));
    whole - so_far
}

fn pick(from: impl Iterator<Item = Span> + Clone, task: TaskId, sample: u32) -> Option<Span> {
    match from.clone().count() as u64 {
        0 => None,
        n => from.clone().nth((scatter(task, sample) % n) as usize),
    }
}

/// A number that looks random and is the same for the same task and sample.
fn scatter(task: TaskId, sample: u32) -> u64 {
    let mut x =
        task.job.0 ^ (u64::from(task.node) << 40) ^ (u64::from(task.index) << 20) ^ (u64::from(sample) << 52);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9u64), (27, 0x94d0_49bb_1331_11eb), (31, 1)] {
        x = (x ^ (x >> shift)).wrapping_mul(factor).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_core::JobId;

    const TASK: TaskId = TaskId { job: JobId(7), node: 0, index: 0 };

    #[test]
    fn what_others_did_counts_before_what_is_promised() {
        let before = [Span(10), Span(20), Span(30)];
        let known = Known { before: &before, kept: &[0.5], promised: Span(1000) };
        let drawn: Vec<_> = (0..200).map(|s| draw(known, Span(0), TASK, s)).collect();
        for ran in before {
            assert!(drawn.contains(&ran), "{ran:?} never came");
        }
        assert!(drawn.iter().all(|d| before.contains(d)));
        let new = Known { before: &[], ..known };
        assert_eq!(draw(new, Span(300), TASK, 0), Span(200));
        assert_eq!(draw(new, Span(600), TASK, 0), Span(400), "longer than others took of their promise");
    }

    #[test]
    fn only_those_that_ran_longer_still_say_anything() {
        let before = [Span(10), Span(20), Span(30)];
        let known = Known { before: &before, kept: &[], promised: Span(1000) };
        assert!((0..50).all(|s| draw(known, Span(25), TASK, s) == Span(5)));
        assert_eq!(draw(known, Span(30), TASK, 0), Span(970));
        assert_eq!(draw(Known { promised: Span(20), ..known }, Span(30), TASK, 0), Span(0));
    }
}
