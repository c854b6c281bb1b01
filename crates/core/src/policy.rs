//! The interface every policy has, and how it is described to people.
//!
//! A policy is pure: what it knows comes from the [`View`], what it keeps is a cache. One built afresh from the view
//! must plan exactly what one that lived through the events plans; the conformance suite holds all of them to it.

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

/// Decides what runs next.
pub trait Policy: Send + Sync {
    /// Keeps a cache warm after an event was applied. It has no meaning of its own.
    fn observe(&mut self, view: View<'_>, effects: &Effects) {
        let _ = (view, effects);
    }

    /// Says what should happen now.
    fn plan(&mut self, view: View<'_>, now: Time) -> Plan;

    /// Says why a task does not run.
    fn explain(&self, view: View<'_>, task: TaskId, now: Time) -> Explanation;

    /// The tasks that are ready, in the order they would be considered now, `most` of them.
    fn line(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId>;

    /// Where nodes that are ready stand in line; all of them from one look along it where their places do not go by keys.
    fn places(&self, view: View<'_>, nodes: &[NodeId], now: Time) -> BTreeMap<NodeId, QueuePosition> {
        places_along(self, view, nodes, now)
    }

    /// Every node that is ready, once, in the order its first task would be considered: `most` of them behind a place, or from
    /// the start. Going on from the last place finds every node that was behind it and still is, whatever happened meanwhile,
    /// as far as places go by keys; elsewhere it goes on behind the task, or as far back as that was.
    fn line_after(
        &self,
        view: View<'_>,
        after: Option<QueuePosition>,
        most: usize,
        now: Time,
    ) -> Vec<QueuePosition> {
        along(self, view, after, most, now)
    }

    /// The tasks that could start next, whatever ends: the first `most` in line, and the first few of those behind that need
    /// something else and may overtake them. What a forecast has to know of the queue.
    fn contenders(&self, view: View<'_>, most: usize, now: Time) -> Vec<TaskId> {
        self.line(view, most, now)
    }

    /// What places in line go by, in a line: "P = priority − timeout; the largest P goes first".
    fn formula(&self) -> &'static str;

    /// The same with the numbers of a task that is ready filled in: "P = 3 − 600 = −597".
    fn numbers(&self, view: View<'_>, task: TaskId, now: Time) -> Option<String>;

    /// Something that takes too long to be done while everyone waits, to be done beside the loop on a copy of what it
    /// needs. None where there is nothing, or the view already has what would come of it.
    fn errand(&self, view: View<'_>, now: Time) -> Option<BackgroundSolve> {
        let _ = (view, now);
        None
    }

    /// Refuses a job this policy would never run.
    fn accept(&self, view: View<'_>, job: &JobSpec) -> Result<(), Rejection> {
        let _ = (view, job);
        Ok(())
    }
}

/// How far back in line it is counted where that means going along it.
pub(crate) const FAR: usize = 10_000;

/// Where nodes stand, found by going along the line once.
pub(crate) fn places_along<P: Policy + ?Sized>(
    policy: &P,
    view: View<'_>,
    nodes: &[NodeId],
    now: Time,
) -> BTreeMap<NodeId, QueuePosition> {
    if nodes.is_empty() {
        return BTreeMap::new();
    }
    let mut near = BTreeMap::new();
    for (task, before) in policy.line(view, FAR, now).into_iter().zip(0u64..) {
        near.entry(task.node_id()).or_insert(QueuePosition { key: None, task, before: Some(before) });
    }
    let far = |node| Some(QueuePosition { key: None, task: view.ready(node).next()?.task, before: None });
    let place = |node: &NodeId| Some((*node, near.get(node).copied().or_else(|| far(*node))?));
    nodes.iter().filter_map(place).collect()
}

/// Every node that is ready behind a place, found by going along the line.
pub(crate) fn along<P: Policy + ?Sized>(
    policy: &P,
    view: View<'_>,
    after: Option<QueuePosition>,
    most: usize,
    now: Time,
) -> Vec<QueuePosition> {
    let line = policy.line(view, FAR, now);
    let at = |after: QueuePosition| {
        let now_at = line.iter().position(|task| *task == after.task);
        now_at.map_or(after.before.map_or(usize::MAX, |before| before as usize), |at| at + 1)
    };
    let mut seen = BTreeSet::new();
    let places = line.iter().zip(0u64..).filter(|(task, _)| seen.insert(task.node_id()));
    let places: Vec<_> =
        places.map(|(task, before)| QueuePosition { key: None, task: *task, before: Some(before) }).collect();
    // Behind those that are near enough to have a place, the rest by number.
    let rest = view.ready_nodes().filter(|node| !seen.contains(node));
    let rest = rest.filter_map(|node| view.ready(node).next()).map(|ready| ready.task);
    let rest = rest.map(|task| QueuePosition { key: None, task, before: None });
    let from = after.map_or(0, at) as u64;
    let far = after.filter(|after| after.before.is_none()).map(|after| after.task);
    let behind = places.into_iter().filter(|place| place.before >= Some(from) && far.is_none());
    behind.chain(rest.filter(|place| far.is_none_or(|far| place.task > far))).take(most).collect()
}

/// Where a node stands in line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueuePosition {
    /// What its place goes by, where that is a key alone.
    pub key: Option<Key>,
    /// The first of its tasks.
    pub task: TaskId,
    /// How many tasks are considered before it, if it is not too far back to say.
    pub before: Option<u64>,
}

impl QueuePosition {
    /// Whether it comes later in line than another, however long ago that one was found.
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

/// Work to be done beside the loop: what comes of it is a command like any other, however late it comes.
pub type BackgroundSolve = Box<dyn FnOnce() -> Command + Send>;

/// A policy as the registry lists it.
pub struct PolicyDef {
    /// What it is called everywhere.
    pub name: &'static str,
    /// One line of what it does.
    pub summary: &'static str,
    /// The group it is listed in.
    pub group: PolicyGroup,
    /// One line on what to choose it for: "for tasks of mixed sizes".
    pub when: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// What can be set.
    pub params: &'static [Param],
    /// Makes one, with an empty cache.
    pub build: fn(&Params) -> Box<dyn Policy>,
}

/// A group of policies with the same aim; lists of policies are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyGroup {
    /// Priority and arrival.
    Arrival,
    /// Expected or attained run time.
    RunTime,
    /// Users' shares of what was used.
    Users,
    /// Dependencies between tasks.
    Graphs,
    /// Shares of GPU time, computed by a solver and carried out in rounds.
    Shares,
}

impl PolicyGroup {
    /// The heading it is listed under.
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

/// A parameter of a policy.
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it is unless set.
    pub default: ParamType,
    /// What it does.
    pub help: &'static str,
    /// The least a number may be.
    pub least: Option<f64>,
    /// What is wrong with a text, if anything is.
    pub fault: fn(&str) -> Option<String>,
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamType {
    /// A number.
    Number(f64),
    /// One of a few words, the first of which is the default.
    Word(&'static [&'static str]),
    /// A text of a form of its own; nothing is the default.
    Text,
}

/// A numeric parameter.
pub const fn number(name: &'static str, default: f64, help: &'static str) -> Param {
    Param { name, default: ParamType::Number(default), help, least: None, fault: no_fault }
}

/// The same, no less than this.
pub const fn at_least(least: f64, param: Param) -> Param {
    Param { least: Some(least), ..param }
}

/// A parameter that is one of a few words; the first is the default.
pub const fn word(name: &'static str, words: &'static [&'static str], help: &'static str) -> Param {
    Param { name, default: ParamType::Word(words), help, least: None, fault: no_fault }
}

/// A parameter that is a text, and what is wrong with one.
pub const fn text(name: &'static str, fault: fn(&str) -> Option<String>, help: &'static str) -> Param {
    Param { name, default: ParamType::Text, help, least: None, fault }
}

fn no_fault(_: &str) -> Option<String> {
    None
}

/// The name of a policy and the parameters set for it, as in `short-first:beta=2,gamma=0.5`.
///
/// ```
/// use warpyard_core::PolicyChoice;
/// let choice: PolicyChoice = "short-first:beta=2,gamma=0.5".parse().unwrap();
/// assert_eq!(choice.name, "short-first");
/// assert_eq!(choice.to_string(), "short-first:beta=2,gamma=0.5");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PolicyChoice {
    /// The policy's name.
    pub name: String,
    /// What is set, as text.
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

/// The parameters of a policy, checked against its definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    numbers: BTreeMap<&'static str, f64>,
    words: BTreeMap<&'static str, &'static str>,
    texts: BTreeMap<&'static str, String>,
}

impl Params {
    /// A number that the definition names.
    pub fn number(&self, name: &str) -> f64 {
        *self.numbers.get(name).expect("the definition names every number asked for")
    }

    /// A word that the definition names.
    pub fn word(&self, name: &str) -> &'static str {
        self.words.get(name).expect("the definition names every word asked for")
    }

    /// A text that the definition names.
    pub fn text(&self, name: &str) -> &str {
        self.texts.get(name).expect("the definition names every text asked for")
    }
}

impl PolicyDef {
    /// Checks a choice's parameters against this definition.
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

    /// Makes the policy a choice names, from a registry.
    pub fn build_from(defs: &[PolicyDef], choice: &PolicyChoice) -> Result<Box<dyn Policy>, Rejection> {
        Self::checked(defs, choice).map(|(def, params)| (def.build)(&params))
    }

    /// The policy a choice names and what it sets; where it sets what this one does not have and others do, those are named.
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

    /// The definition of that name.
    pub fn find<'a>(defs: &'a [PolicyDef], name: &str) -> Result<&'a PolicyDef, Rejection> {
        defs.iter().find(|d| d.name == name).ok_or_else(|| {
            let names: Vec<_> = defs.iter().map(|d| d.name).collect();
            Rejection::new(Code::NoSuchPolicy, format!("no policy is called '{name}'"))
                .at("policy")
                .help(format!("there are: {}", names.join(", ")))
        })
    }
}
