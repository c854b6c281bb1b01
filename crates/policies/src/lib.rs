//! Every policy there is, one file each, and the registry they are found in.
//!
//! Most of them are an [`Order`](warpyard_core::ordered::Order) over what waits; what may start behind the first in
//! line, and where a task goes, are choices shared by all of them. The conformance suite beside this crate holds every
//! entry of [`POLICIES`] to what the core expects of a policy. Adding one is a file and a line here.

mod all_at_once;
mod backfill;
mod by_goal;
mod drf;
mod fair_share;
mod fifo;
mod giving_way;
mod gmin;
mod heft;
mod hybrid;
mod las;
mod priority_serial;
mod short_first;
mod sjf;
mod srtf;
mod wsjf;

use warpyard_core::place::Fit;
use warpyard_core::policy::{Param, word};
use warpyard_core::{PolicyChoice, PolicyDef};

/// Every policy, the default first.
pub const POLICIES: &[PolicyDef] = &[
    backfill::DEF,
    fifo::DEF,
    priority_serial::DEF,
    all_at_once::DEF,
    sjf::DEF,
    short_first::DEF,
    wsjf::DEF,
    srtf::DEF,
    las::DEF,
    hybrid::DEF,
    gmin::DEF,
    drf::DEF,
    fair_share::DEF,
    heft::DEF,
    by_goal::MAX_MIN,
    by_goal::MAX_MIN_FILL,
    by_goal::HIERARCHICAL,
    by_goal::FINISH_TIME,
    by_goal::MAKESPAN,
    by_goal::THROUGHPUT,
    by_goal::COST,
    by_goal::STRATEGY_PROOF,
    by_goal::ALLOX,
    by_goal::GANDIVA,
    by_goal::FIFO_HETERO,
    by_goal::ISOLATED,
];

/// The policy in force where nobody chose one.
///
/// ```
/// assert_eq!(warpyard_policies::default_policy().to_string(), "backfill");
/// ```
pub fn default_policy() -> PolicyChoice {
    PolicyChoice { name: POLICIES[0].name.to_owned(), ..PolicyChoice::default() }
}

/// The parameter of every policy that leaves open which of several fitting places is taken.
const FIT: Param = word("fit", Fit::WORDS, "which of several fitting places is taken");
