//! Solutions of allocation goals: shares, objective, dual prices and the certificate that proves optimality. `check`
//! verifies them.

use serde::ser::{Serialize, SerializeSeq, Serializer};

/// Share matrix: shares of time, one row per job and one column per type.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    types: usize,
    flat: Vec<f64>,
}

impl Shares {
    /// Matrix from rows laid end to end.
    pub fn new(types: usize, flat: Vec<f64>) -> Self {
        assert!(types > 0 && flat.len().is_multiple_of(types), "a row per job, each with a share per type");
        Self { types, flat }
    }

    /// Shares of one job.
    pub fn job(&self, job: usize) -> &[f64] {
        &self.flat[job * self.types..(job + 1) * self.types]
    }

    /// Rows in job order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.flat.chunks_exact(self.types)
    }

    /// Rows laid end to end.
    pub fn flat(&self) -> &[f64] {
        &self.flat
    }
}

impl Serialize for Shares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rows = serializer.serialize_seq(Some(self.rows().len()))?;
        self.rows().try_for_each(|row| rows.serialize_element(row))?;
        rows.end()
    }
}

/// Share of time that two jobs spend together on each type.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PairShare {
    /// Indices of the two jobs.
    pub jobs: [usize; 2],
    /// Their share of time on each type.
    pub shares: Vec<f64>,
}

/// Binding constraints of the optimum.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Bottleneck {
    /// Indices of the jobs whose own constraint binds, at most [`Bottleneck::MAX_JOBS`].
    pub jobs: Vec<usize>,
    /// Number of binding jobs in total.
    pub binding: usize,
    /// Scarcest type, if any is scarce.
    pub scarce: Option<ScarceType>,
}

impl Bottleneck {
    /// Length limit of the list; at the optimum of a max-min goal nearly all jobs bind.
    pub const MAX_JOBS: usize = 16;
}

/// Type of which one more GPU would improve the objective most.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct ScarceType {
    /// Index of the type.
    pub gpu_type: usize,
    /// Dual price: improvement of the objective per additional GPU.
    pub price: f64,
    /// The same relative to `of`: 0.03 is 3 %.
    pub gain: f64,
    /// Reference value: the objective, or the level of the jobs stopped first where others are limited by themselves.
    pub of: f64,
}

/// Deadline that cannot be met.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortfall {
    /// Index of the job.
    pub job: usize,
    /// Steps per second it needs.
    pub needed: f64,
    /// Steps per second it gets.
    pub achieved: f64,
}

/// Proof of optimality besides the dual prices of the types.
#[derive(Debug, Clone, PartialEq)]
pub enum Certificate {
    /// No proof: the goal is a rule without an optimum.
    Rule,
    /// The dual prices suffice.
    Prices,
    /// Water-filling stages: the prices of each stage show why the jobs it stopped cannot rise further.
    Stages {
        /// Stages in order.
        stages: Vec<Stage>,
        /// Stage that stopped each job; `None` where only its own top speed did.
        stopped: Vec<Option<usize>>,
    },
    /// Deadlines that cannot all be met: the dual price of the total deadline speed at its maximum, and the prices
    /// that prove that maximum.
    Deadlines {
        /// Dual price of a step per second towards a deadline.
        deadline_price: f64,
        /// Prices of the types that bound the total deadline speed.
        prices: Vec<f64>,
    },
    /// The same where jobs share GPUs; the solution's own prices belong to both objectives combined.
    SharedDeadlines {
        /// Dual price of a step per second towards a deadline.
        deadline_price: f64,
        /// Prices of the types that bound the total deadline speed.
        deadline_prices: Vec<f64>,
        /// Job duals that belong to the solution's prices.
        deadline_duals: JobDuals,
        /// What goes with the answer's prices.
        duals: JobDuals,
    },
    /// Fraction of its shares that each job keeps (partial allocation mechanism).
    Discounts(Vec<f64>),
    /// Fraction of its speed that each job keeps where jobs share GPUs: there the shares of partners do not all shrink
    /// alike.
    SharedDiscounts {
        /// Fraction each job keeps.
        discounts: Vec<f64>,
        /// Shares alone before the discounts.
        alone: Shares,
        /// Pair shares before the discounts.
        pairs: Vec<PairShare>,
        /// Job duals that belong to the solution's prices.
        duals: JobDuals,
    },
    /// Queue schedule, and the duals that prove its average completion time minimal.
    Queues {
        /// Run of every job.
        runs: Vec<ScheduledRun>,
        /// Assignment duals, tight where every job needs one GPU; `None` where jobs share GPUs.
        proof: Option<QueueDuals>,
    },
    /// Dual prices per job, where sharing ties jobs to one another.
    Jobs {
        /// Dual price of each job's speed.
        speed: Vec<f64>,
        /// Dual price of each job's time.
        time: Vec<f64>,
    },
}

/// Run of one job, or of two that share GPUs, to completion.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduledRun {
    /// Indices of the jobs, one or two.
    pub jobs: Vec<usize>,
    /// Index of the type.
    pub gpu_type: usize,
    /// Start, in seconds from now.
    pub start_s: f64,
}

/// Duals of the assignment of jobs to queue positions: a job in a position costs at least its dual plus the price of
/// the position. A job k-th from the end of a GPU's queue costs k times its length, because it delays k completions.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueDuals {
    /// Dual of each job.
    pub jobs: Vec<f64>,
    /// Prices of each type's positions, none above 0, the last of the queue first.
    pub positions: Vec<Vec<f64>>,
}

/// Dual prices of each job's speed and time, where sharing ties jobs to one another.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDuals {
    /// Dual price of a step per second of each job.
    pub speed: Vec<f64>,
    /// Dual price of each job's time.
    pub time: Vec<f64>,
}

/// Stage of water-filling: the speeds reached and the prices that stopped it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Dual prices of the types.
    pub prices: Vec<f64>,
    /// Speed of every job at the end of the stage.
    pub speeds: Vec<f64>,
    /// Job duals where jobs share GPUs; they follow from the prices otherwise.
    pub jobs: Option<JobDuals>,
}

/// Optimal allocation for a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// Value of the objective.
    pub objective: f64,
    /// Share of time of each job alone on each type.
    pub allocation: Shares,
    /// Speed of each job over its mean speed, thr/P.
    pub normalised: Vec<f64>,
    /// Dual price of each type: improvement of the objective per additional GPU.
    pub prices: Vec<f64>,
    /// Binding constraints.
    pub bottleneck: Bottleneck,
    /// Shares of time in pairs, where jobs share GPUs.
    pub pairs: Vec<PairShare>,
    /// Deadlines that cannot be met.
    pub shortfalls: Vec<Shortfall>,
    /// Proof of optimality.
    pub certificate: Certificate,
}

impl Solution {
    /// Whether all numbers are finite.
    pub(crate) fn is_finite(&self) -> bool {
        let shares = self.allocation.rows().flatten().chain(self.pairs.iter().flat_map(|pair| &pair.shares));
        let all = shares.chain(&self.normalised).chain(&self.prices).chain([&self.objective]);
        all.into_iter().all(|number| number.is_finite())
    }

    /// Solution of an instance without jobs.
    pub(crate) fn empty(types: usize) -> Self {
        Self {
            objective: 0.0,
            allocation: Shares::new(types, Vec::new()),
            normalised: Vec::new(),
            prices: vec![0.0; types],
            bottleneck: Bottleneck { jobs: Vec::new(), binding: 0, scarce: None },
            pairs: Vec::new(),
            shortfalls: Vec::new(),
            certificate: Certificate::Rule,
        }
    }
}
