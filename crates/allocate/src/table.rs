//! Throughput table: measured steps per second by GPU type, profile and number of GPUs, alone and in pairs that share
//! GPUs. The format is the published one, so that its files can be read unchanged.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::instance::{InstanceError, check_magnitude};

/// Profile at a number of GPUs; written `('ResNet-18 (batch size 64)', 2)`, or the bare name for one GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// GPUs the job runs on.
    pub gpus: u32,
}

impl Profile {
    /// Parses either notation.
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

/// Throughputs of one profile on one type, alone and in pairs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileThroughputs {
    /// Steps per second alone.
    #[serde(rename = "null", default)]
    pub alone: Option<f64>,
    /// Steps per second of this job and of its partner when they share GPUs; both 0 where they cannot.
    #[serde(flatten)]
    pub paired_with: BTreeMap<Profile, [f64; 2]>,
}

/// Steps per second by type and profile.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ThroughputTable {
    types: BTreeMap<String, BTreeMap<Profile, ProfileThroughputs>>,
}

impl ThroughputTable {
    /// Steps per second alone, if measured.
    pub fn alone(&self, gpu_type: &str, profile: &Profile) -> Option<f64> {
        self.types.get(gpu_type)?.get(profile)?.alone
    }

    /// Steps per second of two jobs that share GPUs; `None` where they cannot or were not measured.
    pub fn paired(&self, gpu_type: &str, a: &Profile, b: &Profile) -> Option<[f64; 2]> {
        let of = |a, b| self.types.get(gpu_type)?.get(a)?.paired_with.get(b).copied();
        let both = of(a, b).or_else(|| of(b, a).map(|[b, a]| [a, b]))?;
        (both[0] > 0.0 || both[1] > 0.0).then_some(both)
    }

    /// Types with measurements.
    pub fn types(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }

    /// Profiles measured on a type.
    pub fn profiles(&self, gpu_type: &str) -> impl Iterator<Item = &Profile> {
        self.types.get(gpu_type).into_iter().flat_map(BTreeMap::keys)
    }

    /// Pairs of equal width measured on a type: both profiles and their steps per second, 0 where they cannot share.
    pub fn pairs(&self, gpu_type: &str) -> impl Iterator<Item = (&Profile, &Profile, [f64; 2])> {
        let measured = self.types.get(gpu_type).into_iter().flatten();
        measured
            .flat_map(|(a, measured)| measured.paired_with.iter().map(move |(b, both)| (a, b, *both)))
            .filter(|(a, b, _)| a.gpus == b.gpus)
    }

    /// Records the throughputs of a pair; the reverse order is implied.
    pub fn insert_pair(&mut self, gpu_type: &str, a: Profile, b: Profile, steps_per_second: [f64; 2]) {
        let profiles = self.types.entry(gpu_type.to_owned()).or_default();
        profiles.entry(a).or_default().paired_with.insert(b, steps_per_second);
    }

    pub(crate) fn validate(&self) -> Result<(), InstanceError> {
        for (name, profiles) in &self.types {
            for (a, measured) in profiles {
                validate_speeds(measured.alone.as_slice(), || format!("{a} alone"), name)?;
                for (b, both) in &measured.paired_with {
                    validate_speeds(both, || format!("{a} beside {b}"), name)?;
                }
            }
        }
        Ok(())
    }
}

/// Rejects invalid speeds on the named type.
fn validate_speeds(speeds: &[f64], whose: impl Fn() -> String, name: &str) -> Result<(), InstanceError> {
    for &value in speeds {
        if !value.is_finite() || value < 0.0 {
            return Err(InstanceError::Pair { pair: whose(), name: name.to_owned(), value });
        }
        check_magnitude(value, || format!("pair_throughputs: {} on {name}", whose()))?;
    }
    Ok(())
}
