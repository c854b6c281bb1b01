//! Policies as they are listed and chosen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A policy that can be chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyView {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub summary: String,
    /// What to choose it for, in a line.
    #[serde(default)]
    pub when: String,
    /// The heading it is listed under.
    #[serde(default)]
    pub group: String,
    /// Where it comes from.
    pub source: String,
    /// Its parameters.
    pub params: Vec<ParamView>,
    /// Whether it is the one in use.
    pub active: bool,
}

/// The line as it would stand under a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyPreview {
    /// The policy, with its parameters.
    pub policy: String,
    /// The first of the line, in its new order.
    pub order: Vec<QueueMove>,
}

/// A task in line, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueMove {
    /// The task, as it is selected: `412.train[3]`.
    pub task: String,
    /// The job's name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Its place in line now, counted from 1.
    pub before: Option<u64>,
    /// Its place under the policy.
    pub after: Option<u64>,
    /// Whether the policy would start it at once.
    pub starts_now: bool,
}

/// A parameter of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParamView {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub summary: String,
    /// What it is unless set.
    pub default: ParamValue,
    /// What it is now, where the policy is in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ParamValue>,
}

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a parameter is true or false, a number or a text")]
pub enum ParamValue {
    /// Yes or no.
    Bool(bool),
    /// A number.
    Number(f64),
    /// Anything else, such as a length of time.
    Text(String),
}

impl From<&str> for ParamValue {
    /// As it is written on a command line: a number where it looks like one.
    fn from(text: &str) -> Self {
        match (text, text.parse::<f64>()) {
            ("true", _) => Self::Bool(true),
            ("false", _) => Self::Bool(false),
            (_, Ok(number)) if number.is_finite() => Self::Number(number),
            _ => Self::Text(text.to_owned()),
        }
    }
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A policy and its parameters, written as `name:key=value,key=value`.
///
/// ```
/// use warpyard_api::wire::PolicySpec;
/// let policy: PolicySet = "short-first:beta=2,keep=1".parse()?;
/// assert_eq!(policy.params["beta"], 2.0.into());
/// assert_eq!(policy.to_string(), "short-first:beta=2,keep=1");
/// # Ok::<(), warpyard_api::wire::PolicySpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicySpec {
    /// The policy's name.
    pub name: String,
    /// Parameters that differ from their defaults.
    #[serde(default)]
    pub params: BTreeMap<String, ParamValue>,
}

impl From<f64> for ParamValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

/// Why a text does not name a policy and its parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicySpecError {
    /// No name.
    #[error("no policy is named; write name:key=value,key=value")]
    NoName,
    /// A parameter with no value.
    #[error("'{0}' is not a parameter; write key=value")]
    NoValue(String),
    /// A parameter given twice.
    #[error("'{0}' is given twice")]
    Twice(String),
}

impl PolicySpec {
    /// A policy with parameters each written `key=value`.
    pub fn from_parts<'a>(
        name: &str,
        params: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, PolicySpecError> {
        if name.trim().is_empty() {
            return Err(PolicySpecError::NoName);
        }
        let mut set = Self { name: name.trim().to_owned(), params: BTreeMap::new() };
        for param in params {
            let (key, value) =
                param.split_once('=').ok_or_else(|| PolicySpecError::NoValue(param.to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            if key.is_empty() || value.is_empty() {
                return Err(PolicySpecError::NoValue(param.to_owned()));
            }
            if set.params.insert(key.to_owned(), value.into()).is_some() {
                return Err(PolicySpecError::Twice(key.to_owned()));
            }
        }
        Ok(set)
    }
}

impl FromStr for PolicySpec {
    type Err = PolicySpecError;

    fn from_str(text: &str) -> Result<Self, PolicySpecError> {
        match text.split_once(':') {
            None => Self::from_parts(text, []),
            Some((name, params)) => Self::from_parts(name, params.split(',')),
        }
    }
}

impl fmt::Display for PolicySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, (key, value)) in self.params.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_refused() {
        let refusal = |text: &str| text.parse::<PolicySpec>().unwrap_err().to_string();
        assert_eq!(refusal(""), "no policy is named; write name:key=value,key=value");
        assert_eq!(refusal("fifo:"), "'' is not a parameter; write key=value");
        assert_eq!(refusal("sjf:beta"), "'beta' is not a parameter; write key=value");
        assert_eq!(refusal("sjf:beta=1,beta=2"), "'beta' is given twice");
    }

    #[test]
    fn values_keep_their_kind() {
        let policy: PolicySpec = "short-first:alpha=1e9,short=10m,strict=true".parse().unwrap();
        let json = r#"{"name":"short-first","params":{"alpha":1000000000.0,"short":"10m","strict":true}}"#;
        assert_eq!(serde_json::to_string(&policy).unwrap(), json);
        assert_eq!(serde_json::from_str::<PolicySpec>(json).unwrap(), policy);
    }
}
