//! How long a task will run, as a forecast supposes it: as similar tasks did, as it states where none did, or unknown.

use warpyard_core::{Span, TaskId};

/// How many less similar tasks must have run longer than a task has for their run times to say anything of it.
const FEW: usize = 5;

/// The standard deviation, in the logarithm, of how long a task runs of which one earlier run is known.
const SPREAD: f64 = 0.6;

/// What is known of run times.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTimeEvidence<'a> {
    /// How long tasks like this one ran: of the same user and name.
    pub before: &'a [Span],
    /// What share of their stated length tasks of all kinds ran for.
    pub kept: &'a [f64],
    /// The length this one states.
    pub promised: Option<Span>,
    /// The longest it may run.
    pub limit: Option<Span>,
    /// How long less similar tasks ran, the most similar group first.
    pub others: [&'a [Span]; 2],
}

/// One guess of how much longer a task runs, the same for the same task and sample; nothing where nothing is known.
///
/// It is drawn from how long others like it ran, else from the length it states and how others kept to theirs, else from
/// how long less similar tasks ran. Only run times longer than it has run so far still say anything.
pub fn sample_run_time(known: RunTimeEvidence<'_>, so_far: Span, task: TaskId, sample: u32) -> Option<Span> {
    let longer = |ran: &Span| *ran > so_far;
    let anywhere_below = |most: Span| {
        let part = (scatter(task, sample) % 1024) as f64 / 1023.0;
        so_far + Span::from_secs((most - so_far).secs() * part)
    };
    let stated = |length: Span| {
        let shares = known.kept.iter().map(|share| Span::from_secs(length.secs() * share)).filter(longer);
        let is_limit = known.limit == Some(length);
        match shares.clone().count() {
            // A limit alone says when a task ends at the latest, not when it ends: most end long before.
            ..FEW if is_limit && length > so_far => Some(anywhere_below(length)),
            0 => Some(length).filter(longer),
            _ => pick(shares, so_far, task, sample),
        }
    };
    let less_alike = |others: &[Span]| {
        let longer = others.iter().copied().filter(longer);
        if longer.clone().count() < FEW { None } else { pick(longer, so_far, task, sample) }
    };
    let whole = pick(known.before.iter().copied().filter(longer), so_far, task, sample)
        .or_else(|| known.promised.and_then(stated))
        // One that runs longer than expected ends by its limit.
        .or_else(|| known.promised.and(known.limit).map(anywhere_below))
        .or_else(|| known.others.into_iter().find_map(less_alike))
        .or(known.limit)?;
    Some(known.limit.map_or(whole, |limit| whole.min(limit)) - so_far)
}

/// One of these lengths, spread the more the fewer there are: a few runs do not show how much longer or shorter the next
/// will be.
fn pick(from: impl Iterator<Item = Span> + Clone, so_far: Span, task: TaskId, sample: u32) -> Option<Span> {
    let n = from.clone().count() as u64;
    let random = scatter(task, sample);
    let picked = from.clone().nth(random.checked_rem(n)? as usize)?;
    let spread = Span::from_secs(picked.secs() * (SPREAD / (n as f64).sqrt() * bell(random)).exp());
    Some(if spread > so_far { spread } else { picked })
}

/// About normally distributed: the sum of three uniform numbers made from a random one.
fn bell(random: u64) -> f64 {
    let uniform = |shift: u32| ((random >> shift) & 0xffff) as f64 / 65_535.0;
    2.0 * ([16, 32, 48].map(uniform).iter().sum::<f64>() - 1.5)
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

    /// Draws of a hundred samples.
    fn draws(known: RunTimeEvidence<'_>, so_far: u64) -> Vec<Option<u64>> {
        (0..100).map(|sample| sample_run_time(known, Span(so_far), TASK, sample).map(|left| left.0)).collect()
    }

    /// The middle of a hundred draws.
    fn median(known: RunTimeEvidence<'_>, so_far: u64) -> u64 {
        let mut drawn = draws(known, so_far).into_iter().collect::<Option<Vec<_>>>().expect("known");
        drawn.sort_unstable();
        drawn[50]
    }

    #[test]
    fn similar_tasks_count_before_a_stated_length() {
        let before = [Span(1_000); 9];
        let known = RunTimeEvidence {
            before: &before,
            kept: &[0.5; 9],
            promised: Some(Span(100_000)),
            ..RunTimeEvidence::default()
        };
        assert!((900..1_100).contains(&median(known, 0)), "{}", median(known, 0));
        let new = RunTimeEvidence { before: &[], ..known };
        assert!((45_000..55_000).contains(&median(new, 0)));
        assert!(median(new, 90_000) <= 10_000, "longer than others took of what they stated");
    }

    #[test]
    fn few_earlier_runs_say_less_than_many() {
        let width = |n: usize| {
            let before = vec![Span(1_000_000); n];
            let drawn = draws(RunTimeEvidence { before: &before, ..RunTimeEvidence::default() }, 0);
            drawn.iter().flatten().max().unwrap() - drawn.iter().flatten().min().unwrap()
        };
        assert!(width(1) > 2 * width(16) && width(16) > 2 * width(256));
    }

    #[test]
    fn only_those_that_ran_longer_still_say_anything() {
        let before = [1_000, 2_000, 3_000].map(Span);
        let limit = Some(Span(100_000));
        let known = RunTimeEvidence { before: &before, promised: limit, limit, ..RunTimeEvidence::default() };
        assert!(
            (300..2_000).contains(&median(known, 2_500)),
            "of three, one ran longer: {}",
            median(known, 2_500)
        );
        let left = draws(known, 3_000);
        assert!(
            left.iter().flatten().all(|left| *left <= 97_000),
            "longer than any before: at most its limit"
        );
        let late = RunTimeEvidence { promised: Some(Span(20)), limit: Some(Span(20)), ..known };
        assert_eq!(sample_run_time(late, Span(30), TASK, 0), Some(Span(0)));
    }

    #[test]
    fn without_a_stated_length_others_count_if_enough_ran_longer_and_else_nothing_is_known() {
        let (mine, all) = ([1_000, 1_100, 1_200, 1_300, 1_400].map(Span), [Span(50_000); 9]);
        let known = RunTimeEvidence { others: [&mine, &all], ..RunTimeEvidence::default() };
        assert!((800..1_600).contains(&median(known, 0)));
        assert!((45_000..50_000).contains(&median(known, 1_250)), "too few of its user's ran that long");
        assert_eq!(sample_run_time(known, Span(50_000), TASK, 0), None, "none ran that long");
        assert_eq!(sample_run_time(RunTimeEvidence::default(), Span(0), TASK, 0), None);
    }

    #[test]
    fn a_limit_alone_says_when_a_task_ends_at_the_latest() {
        let limit = Some(Span(600_000));
        for kept in [&[][..], &[0.1; 4]] {
            let drawn =
                draws(RunTimeEvidence { kept, promised: limit, limit, ..RunTimeEvidence::default() }, 0);
            let below = |most: u64| drawn.iter().flatten().filter(|left| **left <= most).count();
            assert_eq!(below(600_000), 100, "{drawn:?}");
            assert!((3..20).contains(&below(60_000)) && (30..70).contains(&below(300_000)), "{drawn:?}");
        }
        let known = RunTimeEvidence { kept: &[0.1; 5], promised: limit, limit, ..RunTimeEvidence::default() };
        assert!((50_000..70_000).contains(&median(known, 0)), "what five others made of theirs says more");
        let estimate = RunTimeEvidence { promised: Some(Span(20_000)), limit, ..RunTimeEvidence::default() };
        assert_eq!(median(estimate, 0), 20_000, "an estimate is no limit");
    }

    #[test]
    fn nothing_runs_longer_than_its_limit() {
        let known =
            RunTimeEvidence { before: &[Span(900)], limit: Some(Span(100)), ..RunTimeEvidence::default() };
        assert_eq!(sample_run_time(known, Span(40), TASK, 0), Some(Span(60)));
        let late = RunTimeEvidence { promised: Some(Span(50)), before: &[], ..known };
        assert!((0..50).all(|s| sample_run_time(late, Span(60), TASK, s).unwrap() <= Span(40)));
    }
}
