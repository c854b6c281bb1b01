//! The table of measured throughputs: steps a second by GPU type, profile and number of GPUs, alone and for two jobs
//! that share their GPUs. The shape is the published one, so that its files are read as they are.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::instance::{InstanceError, within_reach};

/// A profile at a number of GPUs; written `('ResNet-18 (batch size 64)', 2)`, or the bare name for one GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile {
    /// The profile's name.
    pub name: String,
    /// GPUs the job runs on.
    pub gpus: u32,
}

impl Profile {
    /// Reads either way of writing it.
    pub fn parse(text: &str) -> Self {
        let tuple = text.strip_prefix("('").and_then(|rest| rest.strip_suffix(')')).and_then(|rest| {
            let (name, gpus) = rest.rsplit_once("', ")?;
            Some(Self { name: name.to_owned(), gpus: gpus.parse().ok()? })
        });
        tuple.unwrap_or_else(|| Self { name: text.to_owned(), gpus: 1 })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "('{}', {})", self.name, self.gpus)
    }
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Profile;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a profile such as ('ResNet-18 (batch size 64)', 1)")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Profile, E> {
                Ok(Profile::parse(text))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// What one profile does on one type: alone, and beside others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Steps a second alone.
    #[serde(rename = "null", default)]
    pub alone: Option<f64>,
    /// Steps a second of this job and of the other when they share their GPUs; both 0 where they cannot.
    #[serde(flatten)]
    pub beside: BTreeMap<Profile, [f64; 2]>,
}

/// Steps a second by type and profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThroughputTable {
    types: BTreeMap<String, BTreeMap<Profile, Measured>>,
}

impl ThroughputTable {
    /// Steps a second alone, where that was measured.
    pub fn alone(&self, gpu_type: &str, profile: &Profile) -> Option<f64> {
        self.types.get(gpu_type)?.get(profile)?.alone
    }

    /// Steps a second of each of two jobs that share their GPUs; `None` where they cannot, or nobody measured it.
    pub fn together(&self, gpu_type: &str, a: &Profile, b: &Profile) -> Option<[f64; 2]> {
        let of = |a, b| self.types.get(gpu_type)?.get(a)?.beside.get(b).copied();
        let both = of(a, b).or_else(|| of(b, a).map(|[b, a]| [a, b]))?;
        (both[0] > 0.0 || both[1] > 0.0).then_some(both)
    }

    /// The types anything was measured on.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// The profiles measured on a type.
    pub fn profiles(&self, gpu_type: &str) -> impl Iterator<Item = &Profile> {
        self.types.get(gpu_type).into_iter().flat_map(BTreeMap::keys)
    }

    /// Pairs measured on a type, of equally many GPUs each: the two profiles and the steps a second of both; both 0 where
    /// they cannot share.
    pub fn pairs(&self, gpu_type: &str) -> impl Iterator<Item = (&Profile, &Profile, [f64; 2])> {
        let measured = self.types.get(gpu_type).into_iter().flatten();
        measured
            .flat_map(|(a, measured)| measured.beside.iter().map(move |(b, both)| (a, b, *both)))
            .filter(|(a, b, _)| a.gpus == b.gpus)
    }

    /// Notes what two jobs do when they share; the other order is implied.
    pub fn insert_pair(&mut self, gpu_type: &str, a: Profile, b: Profile, steps_per_second: [f64; 2]) {
        let profiles = self.types.entry(gpu_type.to_owned()).or_default();
        profiles.entry(a).or_default().beside.insert(b, steps_per_second);
    }

    pub(crate) fn validate(&self) -> Result<(), InstanceError> {
        for (name, profiles) in &self.types {
            for (a, measured) in profiles {
                sound(measured.alone.as_slice(), || format!("{a} alone"), name)?;
                for (b, both) in &measured.beside {
                    sound(both, || format!("{a} beside {b}"), name)?;
                }
            }
        }
        Ok(())
    }
}

/// Refuses what is no speed, on the type of this name.
fn sound(speeds: &[f64], whose: impl Fn() -> String, name: &str) -> Result<(), InstanceError> {
    for &value in speeds {
        if !value.is_finite() || value < 0.0 {
            return Err(InstanceError::Pair { pair: whose(), name: name.to_owned(), value });
        }
        within_reach(value, || format!("pair_throughputs: {} on {name}", whose()))?;
    }
    Ok(())
}
