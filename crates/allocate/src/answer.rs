//! What a solver answers: shares, the objective, and the prices that prove it. How to believe it is `check`'s business.

use serde::ser::{Serialize, SerializeSeq, Serializer};

/// Shares of time, a row per job and a column per type.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    types: usize,
    flat: Vec<f64>,
}

impl Shares {
    /// From rows laid end to end.
    pub fn new(types: usize, flat: Vec<f64>) -> Self {
        assert!(types > 0 && flat.len().is_multiple_of(types), "a row per job, each with a share per type");
        Self { types, flat }
    }

    /// The shares of the job in this place.
    pub fn job(&self, job: usize) -> &[f64] {
        &self.flat[job * self.types..(job + 1) * self.types]
    }

    /// Every job's shares, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.flat.chunks_exact(self.types)
    }

    /// All rows end to end.
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

/// The share of time two jobs spend together on each type.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct PairShare {
    /// The two jobs' places in the instance.
    pub jobs: [usize; 2],
    /// Their share of time on each type.
    pub shares: Vec<f64>,
}

/// What keeps the objective from being better.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Bottleneck {
    /// The places of the jobs whose own constraint binds, at most [`Bottleneck::MOST_JOBS`] of them.
    pub jobs: Vec<usize>,
    /// How many jobs bind in all.
    pub binding: usize,
    /// The scarcest type, if any is scarce.
    pub scarce: Option<Scarce>,
}

impl Bottleneck {
    /// Jobs listed at most; at an optimum of a min-max goal nearly all of them bind.
    pub const MOST_JOBS: usize = 16;
}

/// A type one more GPU of which would help most.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Scarce {
    /// The type's place in the instance.
    pub gpu_type: usize,
    /// How much better the objective would get per GPU more.
    pub price: f64,
    /// The same as a part of `of`: 0.03 is 3 %.
    pub gain: f64,
    /// What gets better: the objective, or the level of those it stops first, where others are worse off for themselves.
    pub of: f64,
}

/// A deadline that cannot be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Shortfall {
    /// The job's place in the instance.
    pub job: usize,
    /// Steps a second it needs.
    pub needs: f64,
    /// Steps a second it gets.
    pub gets: f64,
}

/// What proves the objective, besides the prices of the types.
#[derive(Debug, Clone, PartialEq)]
pub enum Certificate {
    /// The goal is a rule and has no optimum to prove.
    Rule,
    /// The prices are proof enough.
    Prices,
    /// Levels found one after another: each stage's prices show why those it stopped can rise no further.
    Stages {
        /// The stages in order.
        stages: Vec<Stage>,
        /// The stage that stopped each job; `None` where only its own speed did.
        stopped: Vec<Option<usize>>,
    },
    /// Deadlines cannot all be kept: what a step a second towards one is worth once their total is as large as it can
    /// be, and the prices that prove that total.
    Deadlines {
        /// What a step a second is worth.
        kept: f64,
        /// The prices of the types under which no larger total can be paid for.
        prices: Vec<f64>,
    },
    /// The same where jobs share GPUs: everything kept is worth `kept`, and the answer's own prices are those of both
    /// objectives together.
    SharedDeadlines {
        /// What a step a second is worth.
        kept: f64,
        /// The prices of the types under which no larger total can be paid for.
        first_prices: Vec<f64>,
        /// What goes with them.
        first: JobWorth,
        /// What goes with the answer's prices.
        both: JobWorth,
    },
    /// The part of its shares that the harm it does the others leaves each job.
    Discounts(Vec<f64>),
    /// The part of its speed where jobs share GPUs: there the shares of those who share do not all shrink alike.
    SharedDiscounts {
        /// The part each job keeps.
        discounts: Vec<f64>,
        /// Each job's shares alone before.
        alone: Shares,
        /// Shares in pairs before.
        pairs: Vec<PairShare>,
        /// What goes with the answer's prices.
        worth: JobWorth,
    },
    /// Jobs run one after another: who runs when, and what proves that no such order has a lower average completion.
    Queues {
        /// Every job's turn.
        turns: Vec<Turn>,
        /// The proof, exact where every job needs one GPU; none where jobs share GPUs.
        proof: Option<Places>,
    },
    /// Sharing ties jobs to one another: the price of each job's target and of its time.
    Jobs {
        /// What a step a second more for each job would cost.
        speed: Vec<f64>,
        /// What each job's time is worth.
        time: Vec<f64>,
    },
}

/// A job's turn, or that of two that share, on GPUs of their own until both are done.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The places of the jobs in the instance, one or two.
    pub jobs: Vec<usize>,
    /// The type's place in the instance.
    pub gpu_type: usize,
    /// When it starts, in seconds from now.
    pub start_s: f64,
}

/// Worths and prices under which no job costs less in any place of a queue than its worth and the place's price. A job
/// k-th from the end of a GPU's queue costs k times its length there: that is by how much it delays completions.
#[derive(Debug, Clone, PartialEq)]
pub struct Places {
    /// What each job is worth.
    pub worth: Vec<f64>,
    /// Prices of each type's places, none above 0, the last of the queue first.
    pub prices: Vec<Vec<f64>>,
}

/// What jobs' speed and time are worth, where sharing ties jobs to one another.
#[derive(Debug, Clone, PartialEq)]
pub struct JobWorth {
    /// What a step a second more of each job is worth.
    pub speed: Vec<f64>,
    /// What each job's time is worth.
    pub time: Vec<f64>,
}

/// One stage of a filling: how far it went and the prices that stopped it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The prices of the types.
    pub prices: Vec<f64>,
    /// Every job's speed when the stage ended.
    pub speeds: Vec<f64>,
    /// What speed and time are worth at these prices, where jobs share GPUs; follows from the prices where they do not.
    pub jobs: Option<JobWorth>,
}

/// An allocation and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The goal's value.
    pub objective: f64,
    /// Each job's share of time on each type, alone.
    pub allocation: Shares,
    /// Each job's speed under the allocation over its mean speed, thr/P.
    pub normalised: Vec<f64>,
    /// How much better the objective would get per GPU of each type more.
    pub prices: Vec<f64>,
    /// What keeps it from being better.
    pub bottleneck: Bottleneck,
    /// Shares of time in pairs, where jobs share GPUs.
    pub pairs: Vec<PairShare>,
    /// Deadlines that cannot be kept.
    pub shortfalls: Vec<Shortfall>,
    /// What proves it.
    pub certificate: Certificate,
}

impl Answer {
    /// Whether all of it are numbers.
    pub(crate) fn is_of_numbers(&self) -> bool {
        let shares = self.allocation.rows().flatten().chain(self.pairs.iter().flat_map(|pair| &pair.shares));
        let all = shares.chain(&self.normalised).chain(&self.prices).chain([&self.objective]);
        all.into_iter().all(|number| number.is_finite())
    }

    /// The answer where there is no job.
    pub(crate) fn nobody(types: usize) -> Self {
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
