//! Human-readable quantities: sizes ("6GiB"), durations ("1h30m"), CPU counts ("0.5") and array indices ("1-100%8").
//! Each type parses and prints its text, and serialises as it. What a quantity means for scheduling is not here.

mod array;
mod cpus;
mod decimal;
mod duration;
mod size;
mod span;

pub use array::{ArraySpec, MAX_ARRAY_RANGES, MAX_ARRAY_TASKS, intersect_ranges};
pub use cpus::MilliCpus;
pub use duration::Micros;
pub use size::ByteSize;
pub use span::{format_span, format_span_secs};

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty.
    #[error("nothing is written here")]
    Empty,
    /// The number is negative.
    #[error("'{0}' is negative")]
    Negative(String),
    /// Not a number.
    #[error("'{0}' is not a number")]
    NotANumber(String),
    /// A number without its unit.
    #[error("'{0}' has no unit")]
    NoUnit(String),
    /// A size without its unit: 6 probably means gigabytes, and not six bytes.
    #[error("'{text}' has no unit; did you mean {}?", size::likely(text))]
    NoSizeUnit {
        /// The text.
        text: String,
    },
    /// An unknown unit.
    #[error("'{0}' is not a unit")]
    UnknownUnit(String),
    /// A unit with two common meanings.
    #[error("'{0}' could mean powers of 1000 or of 1024")]
    AmbiguousUnit(String),
    /// More precise than the smallest step.
    #[error("'{text}' is finer than {finest}")]
    TooFine {
        /// The text.
        text: String,
        /// The smallest step.
        finest: &'static str,
    },
    /// Too large to represent.
    #[error("'{0}' is too large")]
    TooLarge(String),
    /// Units of a duration out of order.
    #[error("the units of '{0}' do not go from large to small")]
    UnitsOutOfOrder(String),
    /// A range that ends before it starts.
    #[error("the range '{0}' ends before it starts")]
    Reversed(String),
    /// A number without quotes, which could mean an index or a number of tasks.
    #[error("{0} could mean {0} tasks or the one with index {0}")]
    NotARange(u64),
    /// A range whose step is 0.
    #[error("the step of '{0}' is 0")]
    ZeroStep(String),
    /// A limit of 0 running tasks.
    #[error("'%0' lets no task run")]
    NoneAtOnce,
    /// An index listed twice.
    #[error("index {0} is listed twice")]
    DuplicateIndex(u32),
    /// More ranges than an array may have.
    #[error("more ranges than an array may list ({MAX_ARRAY_RANGES})")]
    TooManyRanges,
    /// Too many overlapping ranges.
    #[error("too many ranges with steps reach into each other to look for indices listed twice")]
    TooInterleaved,
    /// More tasks than an array may have.
    #[error("{0} tasks are more than an array may have ({MAX_ARRAY_TASKS})")]
    TooManyTasks(u64),
}

/// Implements serde by `FromStr` and `Display`; `$integer` converts a plain integer.
macro_rules! human_serde {
    ($name:ident, $expecting:literal, $integer:expr) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Human;
                impl serde::de::Visitor<'_> for Human {
                    type Value = $name;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$name, E> {
                        let from_integer: fn(u64) -> Result<$name, QuantityError> = $integer;
                        from_integer(number).map_err(E::custom)
                    }
                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$name, E> {
                        let number = u64::try_from(number)
                            .map_err(|_| E::custom(QuantityError::Negative(number.to_string())))?;
                        self.visit_u64(number)
                    }
                }
                deserializer.deserialize_any(Human)
            }
        }
    };
}
use human_serde;
