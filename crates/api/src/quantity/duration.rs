//! Durations.

use super::decimal::{refuse_negative, scaled, split_number};
use super::{QuantityError, human_serde};
use std::fmt;
use std::str::FromStr;

/// Microseconds, written as "10m", "1h30m", "90s", "1.5h" or "2d".
///
/// A number without a unit is rejected, because some would mean seconds and others minutes.
///
/// ```
/// use warpyard_api::quantity::Micros;
/// assert_eq!("1.5h".parse(), Ok(Micros(5_400_000_000)));
/// assert_eq!(Micros(5_400_000_000).to_string(), "1h30m");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub u64);

const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

impl Micros {
    /// From whole seconds, saturating.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// In seconds, for arithmetic that may round.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl From<Micros> for std::time::Duration {
    fn from(length: Micros) -> Self {
        Self::from_micros(length.0)
    }
}

impl FromStr for Micros {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        refuse_negative(text)?;
        if text == "0" {
            return Ok(Self(0));
        }
        let (mut total, mut previous, mut rest) = (0u64, u64::MAX, text);
        while !rest.is_empty() {
            let (number, after) = split_number(rest);
            if number.is_empty() {
                return Err(QuantityError::NotANumber(rest.to_owned()));
            }
            let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
            let scale = micros_in(&after[..end], text)?;
            if scale >= previous {
                return Err(QuantityError::UnitsOutOfOrder(text.to_owned()));
            }
            let (part, inexact) = scaled(number, scale, text)?;
            if inexact {
                return Err(QuantityError::TooFine { text: text.to_owned(), finest: "one microsecond" });
            }
            total = total.checked_add(part).ok_or_else(|| QuantityError::TooLarge(text.to_owned()))?;
            (previous, rest) = (scale, after[end..].trim_start());
        }
        Ok(Self(total))
    }
}

fn micros_in(unit: &str, text: &str) -> Result<u64, QuantityError> {
    match unit {
        "" => Err(QuantityError::NoUnit(text.to_owned())),
        "µs" | "μs" => Ok(1),
        _ => UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, micros)| *micros)
            .ok_or_else(|| QuantityError::UnknownUnit(unit.to_owned())),
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut left = self.0;
        for (unit, micros) in UNITS {
            if left >= micros {
                write!(f, "{}{unit}", left / micros)?;
                left %= micros;
            }
        }
        Ok(())
    }
}

human_serde!(Micros, "a length of time such as \"1h30m\"", |number| match number {
    0 => Ok(Micros(0)),
    _ => Err(QuantityError::NoUnit(number.to_string())),
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_people_write() {
        let micros = |text: &str| text.parse::<Micros>().map(|d| d.0);
        assert_eq!(micros("10m"), Ok(600_000_000));
        assert_eq!(micros("1h30m"), Ok(5_400_000_000));
        assert_eq!(micros("1h 30m"), Ok(5_400_000_000));
        assert_eq!(micros("90s"), Ok(90_000_000));
        assert_eq!(micros("1.5h"), Ok(5_400_000_000));
        assert_eq!(micros("2d"), Ok(172_800_000_000));
        assert_eq!(micros("250ms"), Ok(250_000));
        assert_eq!(micros("7µs"), Ok(7));
        assert_eq!(micros("0"), Ok(0));
    }

    #[test]
    fn lengths_refused() {
        let refusal = |text: &str| text.parse::<Micros>().unwrap_err().to_string();
        assert_eq!(refusal("600"), "'600' has no unit");
        assert_eq!(refusal("1h30"), "'1h30' has no unit");
        assert_eq!(refusal("-5m"), "'-5m' is negative");
        assert_eq!(refusal("5 fortnights"), "'fortnights' is not a unit");
        assert_eq!(refusal("30m1h"), "the units of '30m1h' do not go from large to small");
        assert_eq!(refusal("1h1h"), "the units of '1h1h' do not go from large to small");
        assert_eq!(refusal("0.0000001s"), "'0.0000001s' is finer than one microsecond");
        assert_eq!(refusal("213503983d"), "'213503983d' is too large");
        assert_eq!(refusal("soon"), "'soon' is not a number");
    }

    proptest! {
        #[test]
        fn printed_lengths_parse_to_themselves(micros in any::<u64>(), shift in 0u32..64) {
            let length = Micros(micros >> shift);
            prop_assert_eq!(length.to_string().parse(), Ok(length));
        }

        #[test]
        fn no_text_panics(text in "[-0-9. dhmsuµ]{0,24}|\\PC{0,12}") {
            let _ = text.parse::<Micros>();
        }
    }
}
