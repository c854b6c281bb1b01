//! The interface of policies, and their definitions in the registry.
//!
//! A policy is pure: what it knows comes from the [`View`], what it keeps is a cache. A policy built afresh from the
//! view must plan exactly what one that observed every event plans; the conformance suite checks it for all of them.

use crate::cluster::{Effects, View};
use crate::command::{Code, Command, Rejection};
use crate::explain::Explanation;
use crate::ids::{NodeId, TaskId};
use crate::plan::Plan;
use crate::queue::Key;
use crate::spec::JobSpec;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Policy: decides what runs next.
pub trait Policy: Send + Sync {
    /// Updates the cache after an event was applied. Has no other meaning.
    fn observe(&mut self, view: View<'_>, effects: &Effects) {
        let _ = (view, effects);
    }

    /// Plan of what should happen now.
    fn plan(&mut self, view: View<'_>, now: Time) -> Plan;

    /// Explanation of why a task does not run.
    fn explain(&self, view: View<'_>, task: TaskId, now: Time) -> Explanation;

    /// Ready tasks in the order they would be considered now, at most `most` of them.
    fn queue_order(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId>;

    /// Queue positions of ready nodes. Where positions do not depend on keys alone, one walk along the queue finds
    /// all of them.
    fn positions(&self, view: View<'_>, nodes: &[NodeId], now: Time) -> BTreeMap<NodeId, QueuePosition> {
        positions_by_walk(self, view, nodes, now)
    }

    /// Ready nodes, each once, in the order their first task would be considered: `most` of them after a position, or
    /// from the start. Where positions depend on keys alone, continuing from the last position finds every node that
    /// was behind it and still is, whatever happened meanwhile; elsewhere it continues behind that task, or at the
    /// position it had.
    fn positions_after(
        &self,
        view: View<'_>,
        after: Option<QueuePosition>,
        most: usize,
        now: Time,
    ) -> Vec<QueuePosition> {
        positions_after_by_walk(self, view, after, most, now)
    }

    /// Tasks that could start next, whichever running task ends: the first `most` in the queue, and the first few of
    /// other needs behind them, which may backfill. This is all a forecast has to know of the queue.
    fn contenders(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId> {
        self.queue_order(view, most, now)
    }

    /// Formula of the queue order, for people: "P = priority − timeout; the largest P goes first".
    fn formula(&self) -> &'static str;

    /// Formula with the values of a ready task: "P = 3 − 600 = −597".
    fn formula_values(&self, view: View<'_>, task: TaskId, now: Time) -> Option<String>;

    /// Solver run that takes too long for a turn, to be done in the background on a copy of its input. None if there
    /// is nothing to solve, or the view already has the result.
    fn background_solve(&self, view: View<'_>, now: Time) -> Option<BackgroundSolve> {
        let _ = (view, now);
        None
    }

    /// Rejects a job this policy would never run.
    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejection> {
        let _ = (view, job);
        Ok(())
    }
}

/// Number of tasks up to which positions are counted where that takes a walk along the queue.
pub(crate) const MAX_COUNTED: usize = 10_000;

/// Queue positions of nodes, found by one walk along the queue.
pub(crate) fn positions_by_walk<P: Policy + ?Sized>(
    policy: &P,
    view: View<'_>,
    nodes: &[NodeId],
    now: Time,
) -> BTreeMap<NodeId, QueuePosition> {
    if nodes.is_empty() {
        return BTreeMap::new();
    }
    let mut near = BTreeMap::new();
    for (task, before) in policy.queue_order(view, MAX_COUNTED, now).into_iter().zip(0u64..) {
        near.entry(task.node_id()).or_insert(QueuePosition { key: None, task, before: Some(before) });
    }
    let far = |node| Some(QueuePosition { key: None, task: view.ready(node).next()?.task, before: None });
    let place = |node: &NodeId| Some((*node, near.get(node).copied().or_else(|| far(*node))?));
    nodes.iter().filter_map(place).collect()
}

/// Ready nodes after a position, found by a walk along the queue.
pub(crate) fn positions_after_by_walk<P: Policy + ?Sized>(
    policy: &P,
    view: View<'_>,
    after: Option<QueuePosition>,
    most: usize,
    now: Time,
) -> Vec<QueuePosition> {
    let line = policy.queue_order(view, MAX_COUNTED, now);
    let at = |after: QueuePosition| {
        let now_at = line.iter().position(|task| *task == after.task);
        now_at.map_or(after.before.map_or(usize::MAX, |before| before as usize), |at| at + 1)
    };
    let mut seen = BTreeSet::new();
    let places = line.iter().zip(0u64..).filter(|(task, _)| seen.insert(task.node_id()));
    let places: Vec<_> =
        places.map(|(task, before)| QueuePosition { key: None, task: *task, before: Some(before) }).collect();
    // Behind the nodes that are near enough to have a counted position, the rest in order of id.
    let rest = view.ready_nodes().filter(|node| !seen.contains(node));
    let rest = rest.filter_map(|node| view.ready(node).next()).map(|ready| ready.task);
    let rest = rest.map(|task| QueuePosition { key: None, task, before: None });
    let from = after.map_or(0, at) as u64;
    let far = after.filter(|after| after.before.is_none()).map(|after| after.task);
    let behind = places.into_iter().filter(|place| place.before >= Some(from) && far.is_none());
    behind.chain(rest.filter(|place| far.is_none_or(|far| place.task > far))).take(most).collect()
}

/// Position of a node in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueuePosition {
    /// Key, if the position depends on it alone.
    pub key: Option<Key>,
    /// First of the node's tasks.
    pub task: TaskId,
    /// Number of tasks considered before it; none if it is too far back to count.
    pub before: Option<u64>,
}

impl QueuePosition {
    /// Whether it is behind another position, however long ago that one was found.
    pub fn is_behind(&self, other: &QueuePosition) -> bool {
        match (self.key, other.key) {
            (Some(key), Some(of_other)) => (key, self.task) > (of_other, other.task),
            _ => {
                (self.before.is_none(), self.before, self.task)
                    > (other.before.is_none(), other.before, other.task)
            }
        }
    }
}

/// Background solver run. Its result is a command like any other, however late it comes.
pub type BackgroundSolve = Box<dyn FnOnce() -> Command + Send>;

/// Definition of a policy in the registry.
pub struct PolicyDef {
    /// Name, as configuration and interfaces use it.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Group it is listed in.
    pub group: PolicyGroup,
    /// When to choose it, in one line: "for tasks of mixed sizes".
    pub when: &'static str,
    /// Publication or origin.
    pub source: &'static str,
    /// Parameters.
    pub params: &'static [Param],
    /// Builds the policy, with an empty cache.
    pub build: fn(&Params) -> Box<dyn Policy>,
}

/// Group of policies with the same aim, in the order of listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyGroup {
    /// Order by priority and arrival.
    Arrival,
    /// Order by expected or attained run time.
    RunTime,
    /// Order by the shares users have had.
    Users,
    /// Order by dependencies between tasks.
    Graphs,
    /// Shares of GPU time, computed by a solver and carried out in rounds.
    Shares,
}

impl PolicyGroup {
    /// Heading of the group.
    pub fn title(self) -> &'static str {
        match self {
            PolicyGroup::Arrival => "Priority and order of arrival",
            PolicyGroup::RunTime => "Short tasks first",
            PolicyGroup::Users => "Fair between users",
            PolicyGroup::Graphs => "Task graphs",
            PolicyGroup::Shares => "Shares of GPU time, computed in rounds",
        }
    }
}

/// Parameter of a policy.
pub struct Param {
    /// Name of the parameter.
    pub name: &'static str,
    /// Type and default value.
    pub default: ParamType,
    /// Description.
    pub help: &'static str,
    /// Lower bound of a number.
    pub least: Option<f64>,
    /// Validates a text: says what is wrong with it, if anything.
    pub fault: fn(&str) -> Option<String>,
}

/// Type of a parameter, with its default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamType {
    /// A number.
    Number(f64),
    /// One of several words, the first of which is the default.
    Word(&'static [&'static str]),
    /// A text of its own form, empty by default.
    Text,
}

/// Numeric parameter.
pub const fn number(name: &'static str, default: f64, help: &'static str) -> Param {
    Param { name, default: ParamType::Number(default), help, least: None, fault: no_fault }
}

/// Parameter with a lower bound.
pub const fn at_least(least: f64, param: Param) -> Param {
    Param { least: Some(least), ..param }
}

/// Parameter with several possible words; the first is the default.
pub const fn word(name: &'static str, words: &'static [&'static str], help: &'static str) -> Param {
    Param { name, default: ParamType::Word(words), help, least: None, fault: no_fault }
}

/// Text parameter with its validation.
pub const fn text(name: &'static str, fault: fn(&str) -> Option<String>, help: &'static str) -> Param {
    Param { name, default: ParamType::Text, help, least: None, fault }
}

fn no_fault(_: &str) -> Option<String> {
    None
}

/// Choice of a policy: its name and parameters, as in `short-first:beta=2,gamma=0.5`.
///
/// ```
/// use warpyard_core::PolicyChoice;
/// let choice: PolicyChoice = "short-first:beta=2,gamma=0.5".parse().unwrap();
/// assert_eq!(choice.name, "short-first");
/// assert_eq!(choice.to_string(), "short-first:beta=2,gamma=0.5");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PolicyChoice {
    /// Name of the policy.
    pub name: String,
    /// Parameters that are set, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
}

impl FromStr for PolicyChoice {
    type Err = Rejection;

    fn from_str(s: &str) -> Result<Self, Rejection> {
        let (name, rest) = s.split_once(':').unwrap_or((s, ""));
        let mut params = BTreeMap::new();
        for pair in rest.split(',').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                Rejection::new(Code::BadParameter, format!("'{pair}' is not of the form key=value"))
            })?;
            params.insert(key.trim().to_owned(), value.trim().to_owned());
        }
        Ok(PolicyChoice { name: name.trim().to_owned(), params })
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.params.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// Parameters of a policy, validated against its definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    numbers: BTreeMap<&'static str, f64>,
    words: BTreeMap<&'static str, &'static str>,
    texts: BTreeMap<&'static str, String>,
}

impl Params {
    /// Value of a numeric parameter.
    pub fn number(&self, name: &str) -> f64 {
        *self.numbers.get(name).expect("the definition names every number asked for")
    }

    /// Value of a word parameter.
    pub fn word(&self, name: &str) -> &'static str {
        self.words.get(name).expect("the definition names every word asked for")
    }

    /// Value of a text parameter.
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).expect("the definition names every text asked for")
    }
}

impl PolicyDef {
    /// Validates a choice's parameters against this definition.
    pub fn params(&self, choice: &PolicyChoice) -> Result<Params, Rejection> {
        let mut params = Params::default();
        for p in self.params {
            match p.default {
                ParamType::Number(n) => drop(params.numbers.insert(p.name, n)),
                ParamType::Word(words) => drop(params.words.insert(p.name, words[0])),
                ParamType::Text => drop(params.texts.insert(p.name, String::new())),
            }
        }
        for (key, text) in &choice.params {
            let refuse =
                |why: String| Rejection::new(Code::BadParameter, why).at(format!("{}.{key}", self.name));
            let Some(param) = self.params.iter().find(|p| p.name == *key) else {
                let known: Vec<_> = self.params.iter().map(|p| p.name).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(refuse(format!("policy '{}' has no parameter '{key}'", self.name))
                    .help(format!("its parameters: {known}")));
            };
            match param.default {
                ParamType::Number(_) => {
                    let n: f64 = text.parse().map_err(|_| refuse(format!("'{text}' is not a number")))?;
                    if !n.is_finite() {
                        return Err(refuse(format!("'{text}' is not a finite number")));
                    }
                    if let Some(least) = param.least.filter(|least| n < *least) {
                        return Err(refuse(format!("'{text}' is less than {least}")));
                    }
                    params.numbers.insert(param.name, n);
                }
                ParamType::Word(words) => {
                    let known = words.iter().find(|w| *w == text);
                    let word = known
                        .ok_or_else(|| refuse(format!("'{text}' is not one of {}", words.join(", "))))?;
                    params.words.insert(param.name, word);
                }
                ParamType::Text => {
                    if let Some(fault) = (param.fault)(text) {
                        return Err(refuse(fault));
                    }
                    params.texts.insert(param.name, text.clone());
                }
            }
        }
        Ok(params)
    }

    /// Builds the policy that a choice names, from a registry.
    pub fn build_from(defs: &[PolicyDef], choice: &PolicyChoice) -> Result<Box<dyn Policy>, Rejection> {
        Self::checked(defs, choice).map(|(def, params)| (def.build)(&params))
    }

    /// Definition and parameters of a choice. If it sets a parameter that this policy lacks, the rejection names
    /// policies that have it.
    pub fn checked<'a>(
        defs: &'a [PolicyDef],
        choice: &PolicyChoice,
    ) -> Result<(&'a PolicyDef, Params), Rejection> {
        let def = Self::find(defs, &choice.name)?;
        let params = def.params(choice).map_err(|refused| {
            let has = |def: &PolicyDef, key: &str| def.params.iter().any(|param| param.name == key);
            let strange = choice.params.keys().find(|key| !has(def, key));
            let others = |key: &String| defs.iter().filter(|other| has(other, key)).map(|d| d.name).collect();
            let others: Vec<&str> = strange.map(others).unwrap_or_default();
            match (others.is_empty(), refused.help.clone()) {
                (false, Some(help)) => {
                    refused.help(format!("{help}; policies that have it: {}", others.join(", ")))
                }
                _ => refused,
            }
        })?;
        Ok((def, params))
    }

    /// Definition with this name.
    pub fn find<'a>(defs: &'a [PolicyDef], name: &str) -> Result<&'a PolicyDef, Rejection> {
        defs.iter().find(|d| d.name == name).ok_or_else(|| {
            let names: Vec<_> = defs.iter().map(|d| d.name).collect();
            Rejection::new(Code::NoSuchPolicy, format!("no policy is called '{name}'"))
                .at("policy")
                .help(format!("there are: {}", names.join(", ")))
        })
    }
}
