//! Machines to plan for: speeds, types and links.

use std::collections::HashSet;

use serde::Deserialize;

use super::ReadError;
use crate::instance::Links;

/// Machines and their links, from a TOML or JSON file.
///
/// ```
/// let machines = warpyard_dag::read::Machines::from_toml(r#"
///     bandwidth = 1e9                    # bytes per second between any two; or a table of rows
///     [[machine]]
///     name = "a100"
///     speed = 4.0
///     [[machine]]
///     name = "k80"
///     count = 2
/// "#)?;
/// assert_eq!(machines.names(), ["a100", "k80-0", "k80-1"]);
/// # Ok::<(), warpyard_dag::read::ReadError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machines {
    /// Machines, or groups of equal ones.
    #[serde(alias = "machine")]
    pub machines: Vec<Machine>,
    /// Data per unit of time. Without it, the data of an edge is its transfer time.
    #[serde(default)]
    pub bandwidth: Option<PerLink>,
    /// Fixed time per transfer; 0 when absent.
    #[serde(default)]
    pub latency: Option<PerLink>,
}

/// Machine, or a group of equal ones.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name; members of a group are numbered `name-0`, `name-1` and so on.
    pub name: String,
    /// Speed: a task of work `w` takes `w / speed`.
    #[serde(default = "one")]
    pub speed: f64,
    /// Type, to which costs of tasks may refer.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    /// Size of the group.
    #[serde(default = "single")]
    pub count: usize,
}

/// Property of links: one value for all, or one for each pair, a row per sending machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected one number for all links, or a row of numbers for each machine")]
pub enum PerLink {
    /// The same between any two machines.
    Uniform(f64),
    /// One per pair; the diagonal is ignored and may be null.
    Pairs(Vec<Vec<Option<f64>>>),
}

fn one() -> f64 {
    1.0
}

fn single() -> usize {
    1
}

impl Machines {
    /// Machines of speed 1 with uniform links.
    pub fn identical(count: usize) -> Self {
        let machine = |index: usize| Machine { name: index.to_string(), speed: 1.0, kind: None, count: 1 };
        Self { machines: (0..count).map(machine).collect(), bandwidth: None, latency: None }
    }

    /// Parses the text of a TOML file.
    ///
    /// # Errors
    /// Names the position of the error.
    pub fn from_toml(text: &str) -> Result<Self, ReadError> {
        Ok(toml::from_str(text)?)
    }

    /// Name of every single machine.
    pub fn names(&self) -> Vec<String> {
        self.each().map(|(_, name)| name).collect()
    }

    /// Every single machine with its name.
    pub(super) fn each(&self) -> impl Iterator<Item = (&Machine, String)> {
        self.machines.iter().flat_map(|machine| {
            let named = move |index: usize| match machine.count {
                1 => machine.name.clone(),
                _ => format!("{}-{index}", machine.name),
            };
            (0..machine.count).map(move |index| (machine, named(index)))
        })
    }

    pub(super) fn check(&self) -> Result<(), ReadError> {
        let mut seen = HashSet::new();
        for (machine, name) in self.each() {
            if !(machine.speed > 0.0 && machine.speed.is_finite()) {
                return Err(ReadError::BadSpeed { machine: name, speed: machine.speed });
            }
            if !seen.insert(name.clone()) {
                return Err(ReadError::DuplicateMachine(name));
            }
        }
        if seen.is_empty() { Err(ReadError::NoMachines) } else { Ok(()) }
    }

    /// Links, and the conversion of an edge's data to what they need: the identity, or a transfer time.
    pub(super) fn links(
        &self,
        data_is_bytes: bool,
    ) -> Result<(Links, impl Fn(f64) -> f64 + use<>), ReadError> {
        let count = self.each().count();
        let uniform = |link: &Option<PerLink>| match link {
            None => Some(None),
            Some(PerLink::Uniform(value)) => Some(Some(*value)),
            Some(PerLink::Pairs(_)) => None,
        };
        let (links, latency, bandwidth) = match (uniform(&self.latency), uniform(&self.bandwidth)) {
            (Some(latency), Some(bandwidth)) => {
                let unbounded = if data_is_bytes { f64::INFINITY } else { 1.0 };
                (Links::Uniform, latency.unwrap_or(0.0), bandwidth.unwrap_or(unbounded))
            }
            _ => {
                let none = if data_is_bytes { f64::INFINITY } else { 1.0 };
                let latency = table("latency", self.latency.as_ref(), count, 0.0)?;
                let bandwidth = table("bandwidth", self.bandwidth.as_ref(), count, none)?;
                (Links::Pairs { latency, bandwidth }, 0.0, 1.0)
            }
        };
        // Dividing by 1 and adding 0 changes nothing, so that whole numbers stay whole.
        Ok((links, move |data: f64| latency + data / bandwidth))
    }
}

fn table(
    name: &'static str,
    link: Option<&PerLink>,
    machines: usize,
    none: f64,
) -> Result<Vec<f64>, ReadError> {
    match link {
        None => Ok(vec![none; machines * machines]),
        Some(PerLink::Uniform(value)) => Ok(vec![*value; machines * machines]),
        Some(PerLink::Pairs(rows)) => {
            let bad = |row: usize, found: usize| ReadError::LinkRow { table: name, row, found, machines };
            if rows.len() != machines {
                return Err(ReadError::Instance(crate::InstanceError::LinkShape {
                    table: name,
                    found: rows.iter().map(Vec::len).sum(),
                    machines,
                }));
            }
            if let Some(row) = rows.iter().position(|row| row.len() != machines) {
                return Err(bad(row, rows[row].len()));
            }
            Ok(rows.iter().flatten().map(|value| value.unwrap_or(f64::NAN)).collect())
        }
    }
}
