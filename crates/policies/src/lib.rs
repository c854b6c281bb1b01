//! Every policy, one file each, and the registry.
//!
//! Most policies are an [`Order`](warpyard_core::ordered::Order) over the waiting tasks; the backfill rule and the
//! placement are choices shared by all of them. The conformance suite of this crate holds every entry of [`POLICIES`]
//! to what the core expects. Adding a policy is a file and a line in `ORDERED`.

mod all_at_once;
mod backfill;
mod by_goal;
mod drf;
mod fair_share;
mod fifo;
mod gmin;
mod heft;
mod hybrid;
mod las;
mod preemption;
mod priority_serial;
mod short_first;
mod sjf;
mod srtf;
mod wsjf;

use warpyard_allocate::GOALS;
use warpyard_core::cluster::ReadyTask;
use warpyard_core::place::Fit;
use warpyard_core::policy::{Param, word};
use warpyard_core::{PolicyChoice, PolicyDef};

/// Every policy, the default first: the ordered ones, then one per allocation goal.
pub const POLICIES: &[PolicyDef] = &{
    let mut all = [const { by_goal::policy(0) }; ORDERED.len() + GOALS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < ORDERED.len() { copy(&ORDERED[at]) } else { by_goal::policy(at - ORDERED.len()) };
        at += 1;
    }
    all
};

/// Policies that are an order over the waiting tasks, one file each.
const ORDERED: &[PolicyDef] = &[
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
];

/// Copies an entry at compile time.
const fn copy(def: &PolicyDef) -> PolicyDef {
    let &PolicyDef { name, summary, group, when, source, params, build } = def;
    PolicyDef { name, summary, group, when, source, params, build }
}

/// Policy in force when none is configured.
///
/// ```
/// assert_eq!(warpyard_policies::default_policy().to_string(), "backfill");
/// ```
pub fn default_policy() -> PolicyChoice {
    PolicyChoice { name: POLICIES[0].name.to_owned(), ..PolicyChoice::default() }
}

/// Expected length as an order uses it, with the saved progress deducted visibly.
fn expected_words(task: &ReadyTask<'_>) -> String {
    let (left, saved) = (task.expected().secs(), task.saved.secs());
    match task.spec.expected() {
        None => "T = a year, because nobody said".into(),
        Some(_) if saved == 0.0 => format!("T = {left:.0}"),
        Some(all) => format!("T = {:.0} − {saved:.0} = {left:.0}", all.secs()),
    }
}

/// Parameter for which of several fitting placements is chosen.
const FIT: Param = word("fit", Fit::WORDS, "which of several fitting places is taken");
