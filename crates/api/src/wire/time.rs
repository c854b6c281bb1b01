//! Timestamps.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// A timestamp in UTC, to the millisecond: "2026-11-15T20:45:20.120Z".
///
/// ```
/// use warpyard_api::wire::Timestamp;
/// let moment = Timestamp::from_micros(1_500_000_120_999).unwrap();
/// assert_eq!(moment.to_string(), "1970-01-18T08:40:00.120Z");
/// assert_eq!(moment.as_millis(), 1_500_000_120);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// From microseconds since 1970, truncated to the millisecond; `None` outside the years that can be written.
    pub fn from_micros(micros: i64) -> Option<Self> {
        Self::from_millis(micros.div_euclid(1000))
    }

    /// From milliseconds since 1970; `None` outside the years that can be written.
    pub fn from_millis(millis: i64) -> Option<Self> {
        jiff::Timestamp::from_millisecond(millis).ok().map(Self)
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.0)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        let millis = text.parse::<jiff::Timestamp>()?.as_nanosecond().div_euclid(1_000_000);
        jiff::Timestamp::from_millisecond(millis as i64).map(Self)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Timestamp")
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A moment in UTC, to the millisecond.",
            "examples": ["2026-11-15T20:45:20.120Z"],
            "type": "string",
            "format": "date-time"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn printed_moments_parse_to_themselves(millis in -62_000_000_000_000i64..250_000_000_000_000) {
            let moment = Timestamp::from_millis(millis).expect("a year that can be written");
            prop_assert_eq!(moment.as_millis(), millis);
            prop_assert_eq!(moment.to_string().parse::<Timestamp>().expect("RFC 3339"), moment);
        }
    }

    #[test]
    fn finer_moments_are_cut_and_other_zones_turned_to_utc() {
        let moment: Timestamp = "2026-11-15T21:45:20.1239+01:00".parse().unwrap();
        assert_eq!(serde_json::to_string(&moment).unwrap(), "\"2026-11-15T20:45:20.123Z\"");
    }
}
