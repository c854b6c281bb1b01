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

use warpyard_core::cluster::ReadyTask;
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

/// The length an order goes by, where some of it was done already with that written out.
fn expected_words(task: &ReadyTask<'_>) -> String {
    let (left, saved) = (task.expected().secs(), task.saved.secs());
    match task.spec.expected() {
        None => "T = a year, because nobody said".into(),
        Some(_) if saved == 0.0 => format!("T = {left:.0}"),
        Some(all) => format!("T = {:.0} − {saved:.0} = {left:.0}", all.secs()),
    }
}

/// The parameter of every policy that leaves open which of several fitting places is taken.
const FIT: Param = word("fit", Fit::WORDS, "which of several fitting places is taken");
