//! CPU counts.

use super::QuantityError;
use super::decimal::{refuse_negative, scaled};
use serde::de::{Error, Visitor};
use std::fmt;
use std::str::FromStr;

/// Thousandths of a CPU, written as a decimal: 2, 0.5 or "0.25".
///
/// ```
/// use warpyard_api::quantity::MilliCpus;
/// assert_eq!("0.5".parse(), Ok(MilliCpus(500)));
/// assert_eq!(MilliCpus(2500).to_string(), "2.5");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MilliCpus(pub u32);

impl FromStr for MilliCpus {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        refuse_negative(text)?;
        let (milli, inexact) = scaled(text, 1000, text)?;
        if inexact {
            return Err(QuantityError::TooFine { text: text.to_owned(), finest: "a thousandth of a CPU" });
        }
        u32::try_from(milli).map(Self).map_err(|_| QuantityError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for MilliCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        if part == 0 {
            return write!(f, "{whole}");
        }
        let part = format!("{part:03}");
        write!(f, "{whole}.{}", part.trim_end_matches('0'))
    }
}

/// Serialises as a number; thousandths of this size are exact in a float.
impl serde::Serialize for MilliCpus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1000) {
            serializer.serialize_u32(self.0 / 1000)
        } else {
            serializer.serialize_f64(f64::from(self.0) / 1000.0)
        }
    }
}

impl<'de> serde::Deserialize<'de> for MilliCpus {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Decimal;
        impl Visitor<'_> for Decimal {
            type Value = MilliCpus;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of CPUs such as 0.5")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<MilliCpus, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<MilliCpus, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<MilliCpus, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<MilliCpus, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Decimal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpus_refused() {
        let refusal = |text: &str| text.parse::<MilliCpus>().unwrap_err().to_string();
        assert_eq!(refusal("-1"), "'-1' is negative");
        assert_eq!(refusal("0.0001"), "'0.0001' is finer than a thousandth of a CPU");
        assert_eq!(refusal("5000000"), "'5000000' is too large");
        assert_eq!(refusal("two"), "'two' is not a number");
        assert_eq!(refusal("inf"), "'inf' is not a number");
    }

    proptest! {
        #[test]
        fn printed_cpus_parse_to_themselves(milli in any::<u32>(), shift in 0u32..32) {
            let cpus = MilliCpus(milli >> shift);
            prop_assert_eq!(cpus.to_string().parse(), Ok(cpus));
            let json = serde_json::to_string(&cpus).expect("a number");
            prop_assert_eq!(serde_json::from_str::<MilliCpus>(&json).expect("the same number"), cpus);
        }
    }
}
