//! Policies and their parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A policy of the registry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyView {
    /// Name.
    pub name: String,
    /// Summary, in a line.
    pub summary: String,
    /// What to choose it for, in a line.
    #[serde(default)]
    pub when: String,
    /// Heading it is listed under.
    #[serde(default)]
    pub group: String,
    /// Publication or system it comes from.
    pub source: String,
    /// Parameters.
    pub params: Vec<ParamView>,
    /// Whether it is in force.
    pub active: bool,
}

/// The order of the queue under a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyPreview {
    /// Policy, with its parameters.
    pub policy: String,
    /// First tasks of the queue, in their new order.
    pub order: Vec<QueueMove>,
}

/// A queued task's positions before and after a change of policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueMove {
    /// Task, as a selector: `412.train[3]`.
    pub task: String,
    /// Name of the job.
    pub name: String,
    /// User it belongs to.
    pub user: String,
    /// Present position, counted from 1.
    pub before: Option<u64>,
    /// Position under the policy.
    pub after: Option<u64>,
    /// Whether the policy would start it immediately.
    pub starts_now: bool,
}

/// A parameter of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParamView {
    /// Name.
    pub name: String,
    /// Summary, in a line.
    pub summary: String,
    /// Default value.
    pub default: ParamValue,
    /// Present value, where the policy is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<ParamValue>,
}

/// Value of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a parameter is true or false, a number or a text")]
pub enum ParamValue {
    /// A boolean.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A word or a duration.
    Text(String),
}

impl From<&str> for ParamValue {
    /// Parses a value as written on a command line: a number where it looks like one.
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
/// let policy: PolicySpec = "short-first:beta=2,keep=1".parse()?;
/// assert_eq!(policy.params["beta"], 2.0.into());
/// assert_eq!(policy.to_string(), "short-first:beta=2,keep=1");
/// # Ok::<(), warpyard_api::wire::PolicySpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicySpec {
    /// Name of the policy.
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

/// Why a text is not a policy with parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicySpecError {
    /// The name is missing.
    #[error("no policy is named; write name:key=value,key=value")]
    NoName,
    /// A parameter has no value.
    #[error("'{0}' is not a parameter; write key=value")]
    NoValue(String),
    /// A parameter is given twice.
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
