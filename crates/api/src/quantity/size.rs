//! Sizes in bytes.

use super::decimal::{refuse_negative, scaled, split_number};
use super::{QuantityError, human_serde};
use std::fmt;
use std::str::FromStr;

/// Bytes, written as "6GiB", "512 MiB" or "16GB". The unit is required.
///
/// ```
/// use warpyard_api::quantity::ByteSize;
/// assert_eq!("1.5 GiB".parse(), Ok(ByteSize(1536 << 20)));
/// assert_eq!(ByteSize(16_000_000_000).to_string(), "16GB");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

const BINARY: [(&str, u64); 6] = [
    ("EiB", 1 << 60),
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
const DECIMAL: [(&str, u64); 6] = [
    ("EB", 1_000_000_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

impl ByteSize {
    /// Rounded for tables and messages, such as "11.4 GiB".
    ///
    /// ```
    /// assert_eq!(warpyard_api::quantity::ByteSize(12_240_656_794).rounded(), "11.4 GiB");
    /// ```
    pub fn rounded(self) -> String {
        match BINARY.iter().find(|(_, bytes)| self.0 >= *bytes) {
            None => format!("{} B", self.0),
            Some((unit, bytes)) if self.0.is_multiple_of(*bytes) => format!("{} {unit}", self.0 / bytes),
            Some((unit, bytes)) => format!("{:.1} {unit}", self.0 as f64 / *bytes as f64),
        }
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        refuse_negative(text)?;
        let (number, unit) = split_number(text);
        if number.is_empty() {
            return Err(QuantityError::NotANumber(text.to_owned()));
        }
        if unit.is_empty() && text != "0" {
            return Err(QuantityError::NoSizeUnit { text: text.to_owned() });
        }
        let (bytes, inexact) = scaled(number, bytes_in(unit)?, text)?;
        if inexact && bytes_in(unit)? == 1 {
            return Err(QuantityError::TooFine { text: text.to_owned(), finest: "one byte" });
        }
        Ok(Self(bytes))
    }
}

/// The probable meaning of a number without a unit: GPUs have some gibibytes, or some thousand mebibytes.
pub(super) fn likely(number: &str) -> String {
    match number.parse::<f64>() {
        Ok(n) if n < 1024.0 => format!("{number}GiB"),
        Ok(n) if n < 1024.0 * 1024.0 => format!("{number}MiB"),
        _ => format!("{number}B"),
    }
}

fn bytes_in(unit: &str) -> Result<u64, QuantityError> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("b") {
        return Ok(1);
    }
    if let Some((_, bytes)) = BINARY.iter().chain(&DECIMAL).find(|(name, _)| name.eq_ignore_ascii_case(unit))
    {
        return Ok(*bytes);
    }
    let prefix_alone = unit.len() == 1 && "kKmMgGtTpPeE".contains(unit);
    Err(if prefix_alone {
        QuantityError::AmbiguousUnit(unit.to_owned())
    } else {
        QuantityError::UnknownUnit(unit.to_owned())
    })
}

/// The shortest exact form; of two equally short ones the power of 1024.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = |units: &[(&'static str, u64)]| {
            units.iter().find(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes)).copied()
        };
        let (unit, bytes) = match (exact(&BINARY), exact(&DECIMAL)) {
            (Some(binary), Some(decimal)) if self.0 / decimal.1 < self.0 / binary.1 => decimal,
            (Some(binary), _) => binary,
            (None, Some(decimal)) => decimal,
            (None, None) => ("B", 1),
        };
        write!(f, "{}{unit}", self.0 / bytes)
    }
}

human_serde!(ByteSize, "a size such as \"6GiB\"", |number| match number {
    0 => Ok(ByteSize(0)),
    _ => Err(QuantityError::NoSizeUnit { text: number.to_string() }),
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_people_write() {
        let bytes = |text: &str| text.parse::<ByteSize>().map(|s| s.0);
        assert_eq!(bytes("6GiB"), Ok(6 << 30));
        assert_eq!(bytes(" 512 MiB "), Ok(512 << 20));
        assert_eq!(bytes("16GB"), Ok(16_000_000_000));
        assert_eq!(bytes("16gb"), Ok(16_000_000_000));
        assert_eq!(bytes("4096B"), Ok(4096));
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("0.1GiB"), Ok(107_374_182));
        assert_eq!(bytes("18446744073709551615 B"), Ok(u64::MAX));
    }

    #[test]
    fn sizes_refused() {
        let refusal = |text: &str| text.parse::<ByteSize>().unwrap_err().to_string();
        assert_eq!(refusal(""), "nothing is written here");
        assert_eq!(refusal("-1GiB"), "'-1GiB' is negative");
        assert_eq!(refusal("6G"), "'G' could mean powers of 1000 or of 1024");
        assert_eq!(refusal("6GiBs"), "'GiBs' is not a unit");
        assert_eq!(refusal("1.2.3GiB"), "'1.2.3GiB' is not a number");
        assert_eq!(refusal(".5GiB"), "'.5GiB' is not a number");
        assert_eq!(refusal("GiB"), "'GiB' is not a number");
        assert_eq!(refusal("1.5B"), "'1.5B' is finer than one byte");
        assert_eq!(refusal("6"), "'6' has no unit; did you mean 6GiB?");
        assert_eq!(refusal("1.5"), "'1.5' has no unit; did you mean 1.5GiB?");
        assert_eq!(refusal("16384"), "'16384' has no unit; did you mean 16384MiB?");
        assert_eq!(refusal("17179869184"), "'17179869184' has no unit; did you mean 17179869184B?");
        assert_eq!(refusal("16EiB"), "'16EiB' is too large");
        assert_eq!(refusal("18446744073709551616B"), "'18446744073709551616B' is too large");
        assert_eq!(refusal("1e3"), "'e3' is not a unit");
    }

    proptest! {
        #[test]
        fn printed_sizes_parse_to_themselves(number in any::<u64>(), unit in 0usize..12) {
            let scale = BINARY.iter().chain(&DECIMAL).nth(unit).expect("twelve units").1;
            for bytes in [number, number / scale * scale, number % 100 * (scale >> 7)] {
                prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
            }
        }

        #[test]
        fn no_text_panics(text in "[-0-9. a-zA-Z]{0,24}|\\PC{0,12}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
