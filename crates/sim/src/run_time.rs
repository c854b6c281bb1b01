//! Sampling of run times for forecasts: from the runs of similar tasks, else from the stated length, else unknown.

use warpyard_core::{Span, TaskId};

/// Minimum number of longer runs of less similar tasks, or of stated-length ratios, that count as evidence.
const MIN_OBSERVATIONS: usize = 5;

/// Standard deviation of the logarithm of a run time, given one earlier run.
const LOG_DEVIATION: f64 = 0.6;

/// Evidence about the run time of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunTimeEvidence<'a> {
    /// Run times of similar tasks: same user and name.
    pub similar: &'a [Span],
    /// Run times of all tasks as fractions of their stated lengths.
    pub stated_ratios: &'a [f64],
    /// Stated length of this task.
    pub stated: Option<Span>,
    /// Timeout of this task.
    pub limit: Option<Span>,
    /// Run times of less similar tasks, the more similar group first.
    pub less_similar: [&'a [Span]; 2],
}

/// Samples the remaining run time of a task; the same task and sample give the same value, and no evidence gives `None`.
///
/// It is drawn from the runs of similar tasks, else from the stated length and how far other tasks used up theirs, else from
/// the runs of less similar tasks. Only runs longer than the task has run so far are evidence: it has outlived the others.
pub fn sample_run_time(
    evidence: RunTimeEvidence<'_>,
    so_far: Span,
    task: TaskId,
    sample: u32,
) -> Option<Span> {
    let longer = |ran: &Span| *ran > so_far;
    let uniform_up_to = |most: Span| {
        let part = (hash(task, sample) % 1024) as f64 / 1023.0;
        so_far + Span::from_secs((most - so_far).secs() * part)
    };
    let stated = |length: Span| {
        let shares =
            evidence.stated_ratios.iter().map(|share| Span::from_secs(length.secs() * share)).filter(longer);
        let is_limit = evidence.limit == Some(length);
        match shares.clone().count() {
            // A timeout bounds the run time but does not predict it: most tasks end long before. Without enough ratios,
            // every moment up to it is taken to be equally likely.
            ..MIN_OBSERVATIONS if is_limit && length > so_far => Some(uniform_up_to(length)),
            0 => Some(length).filter(longer),
            _ => resample(shares, so_far, task, sample),
        }
    };
    let from_less_similar = |others: &[Span]| {
        let longer = others.iter().copied().filter(longer);
        if longer.clone().count() < MIN_OBSERVATIONS { None } else { resample(longer, so_far, task, sample) }
    };
    let whole = resample(evidence.similar.iter().copied().filter(longer), so_far, task, sample)
        .or_else(|| evidence.stated.and_then(stated))
        // It has outlived its stated length: it ends somewhere before its timeout.
        .or_else(|| evidence.stated.and(evidence.limit).map(uniform_up_to))
        .or_else(|| evidence.less_similar.into_iter().find_map(from_less_similar))
        .or(evidence.limit)?;
    Some(evidence.limit.map_or(whole, |limit| whole.min(limit)) - so_far)
}

/// Draws one of these lengths and perturbs it, the more the fewer there are: a few runs do not show how far the next will
/// deviate.
fn resample(
    from: impl Iterator<Item = Span> + Clone,
    so_far: Span,
    task: TaskId,
    sample: u32,
) -> Option<Span> {
    let n = from.clone().count() as u64;
    let random = hash(task, sample);
    let drawn = from.clone().nth(random.checked_rem(n)? as usize)?;
    let spread = Span::from_secs(
        drawn.secs() * (LOG_DEVIATION / (n as f64).sqrt() * approximately_normal(random)).exp(),
    );
    Some(if spread > so_far { spread } else { drawn })
}

/// Approximately standard normal: the scaled sum of three uniform numbers taken from the bits of a random one.
fn approximately_normal(random: u64) -> f64 {
    let uniform = |shift: u32| ((random >> shift) & 0xffff) as f64 / 65_535.0;
    2.0 * ([16, 32, 48].map(uniform).iter().sum::<f64>() - 1.5)
}

/// Pseudo-random hash of task and sample.
fn hash(task: TaskId, sample: u32) -> u64 {
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

    /// A hundred samples.
    fn draws(known: RunTimeEvidence<'_>, so_far: u64) -> Vec<Option<u64>> {
        (0..100).map(|sample| sample_run_time(known, Span(so_far), TASK, sample).map(|left| left.0)).collect()
    }

    /// Median of a hundred samples.
    fn median(known: RunTimeEvidence<'_>, so_far: u64) -> u64 {
        let mut drawn = draws(known, so_far).into_iter().collect::<Option<Vec<_>>>().expect("known");
        drawn.sort_unstable();
        drawn[50]
    }

    #[test]
    fn similar_tasks_count_before_a_stated_length() {
        let before = [Span(1_000); 9];
        let known = RunTimeEvidence {
            similar: &before,
            stated_ratios: &[0.5; 9],
            stated: Some(Span(100_000)),
            ..RunTimeEvidence::default()
        };
        assert!((900..1_100).contains(&median(known, 0)), "{}", median(known, 0));
        let new = RunTimeEvidence { similar: &[], ..known };
        assert!((45_000..55_000).contains(&median(new, 0)));
        assert!(median(new, 90_000) <= 10_000, "longer than others took of what they stated");
    }

    #[test]
    fn few_earlier_runs_say_less_than_many() {
        let width = |n: usize| {
            let before = vec![Span(1_000_000); n];
            let drawn = draws(RunTimeEvidence { similar: &before, ..RunTimeEvidence::default() }, 0);
            drawn.iter().flatten().max().unwrap() - drawn.iter().flatten().min().unwrap()
        };
        assert!(width(1) > 2 * width(16) && width(16) > 2 * width(256));
    }

    #[test]
    fn only_those_that_ran_longer_still_say_anything() {
        let before = [1_000, 2_000, 3_000].map(Span);
        let limit = Some(Span(100_000));
        let known = RunTimeEvidence { similar: &before, stated: limit, limit, ..RunTimeEvidence::default() };
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
        let late = RunTimeEvidence { stated: Some(Span(20)), limit: Some(Span(20)), ..known };
        assert_eq!(sample_run_time(late, Span(30), TASK, 0), Some(Span(0)));
    }

    #[test]
    fn without_a_stated_length_others_count_if_enough_ran_longer_and_else_nothing_is_known() {
        let (mine, all) = ([1_000, 1_100, 1_200, 1_300, 1_400].map(Span), [Span(50_000); 9]);
        let known = RunTimeEvidence { less_similar: [&mine, &all], ..RunTimeEvidence::default() };
        assert!((800..1_600).contains(&median(known, 0)));
        assert!((45_000..50_000).contains(&median(known, 1_250)), "too few of its user's ran that long");
        assert_eq!(sample_run_time(known, Span(50_000), TASK, 0), None, "none ran that long");
        assert_eq!(sample_run_time(RunTimeEvidence::default(), Span(0), TASK, 0), None);
    }

    #[test]
    fn a_limit_alone_says_when_a_task_ends_at_the_latest() {
        let limit = Some(Span(600_000));
        for kept in [&[][..], &[0.1; 4]] {
            let drawn = draws(
                RunTimeEvidence { stated_ratios: kept, stated: limit, limit, ..RunTimeEvidence::default() },
                0,
            );
            let below = |most: u64| drawn.iter().flatten().filter(|left| **left <= most).count();
            assert_eq!(below(600_000), 100, "{drawn:?}");
            assert!((3..20).contains(&below(60_000)) && (30..70).contains(&below(300_000)), "{drawn:?}");
        }
        let known =
            RunTimeEvidence { stated_ratios: &[0.1; 5], stated: limit, limit, ..RunTimeEvidence::default() };
        assert!((50_000..70_000).contains(&median(known, 0)), "what five others made of theirs says more");
        let estimate = RunTimeEvidence { stated: Some(Span(20_000)), limit, ..RunTimeEvidence::default() };
        assert_eq!(median(estimate, 0), 20_000, "an estimate is no limit");
    }

    #[test]
    fn nothing_runs_longer_than_its_limit() {
        let known =
            RunTimeEvidence { similar: &[Span(900)], limit: Some(Span(100)), ..RunTimeEvidence::default() };
        assert_eq!(sample_run_time(known, Span(40), TASK, 0), Some(Span(60)));
        let late = RunTimeEvidence { stated: Some(Span(50)), similar: &[], ..known };
        assert!((0..50).all(|s| sample_run_time(late, Span(60), TASK, s).unwrap() <= Span(40)));
    }
}
