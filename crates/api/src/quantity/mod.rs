//! Quantities people write and read: sizes ("6GiB"), lengths of time ("1h30m"), CPUs ("0.5") and array ranges
//! ("1-100%8"). Each is a type that parses the human form, prints it, and does both through serde, so that a document
//! says what a person would say. What a quantity means for scheduling is not here.

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

/// Why a text is not the quantity it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Nothing was written.
    #[error("nothing is written here")]
    Empty,
    /// Less than nothing.
    #[error("'{0}' is negative")]
    Negative(String),
    /// Not a number where one was needed.
    #[error("'{0}' is not a number")]
    NotANumber(String),
    /// A number with no unit, where the unit decides what it means.
    #[error("'{0}' has no unit")]
    NoUnit(String),
    /// A size with no unit: whoever writes 6 means gigabytes, and would get six bytes.
    #[error("'{text}' has no unit; did you mean {}?", size::likely(text))]
    NoSizeUnit {
        /// What was written.
        text: String,
    },
    /// A unit nobody knows.
    #[error("'{0}' is not a unit")]
    UnknownUnit(String),
    /// A unit that two groups of people read differently.
    #[error("'{0}' could mean powers of 1000 or of 1024")]
    AmbiguousUnit(String),
    /// Finer than the smallest step there is.
    #[error("'{text}' is finer than {finest}")]
    TooFine {
        /// What was written.
        text: String,
        /// The smallest step.
        finest: &'static str,
    },
    /// Larger than can be counted.
    #[error("'{0}' is too large")]
    TooLarge(String),
    /// Parts of a duration that do not go from large to small.
    #[error("the units of '{0}' do not go from large to small")]
    UnitsOutOfOrder(String),
    /// A range that ends before it starts.
    #[error("the range '{0}' ends before it starts")]
    Reversed(String),
    /// A number with no quotes, which some would take for how many tasks there are.
    #[error("{0} could mean {0} tasks or the one with index {0}")]
    NotARange(u64),
    /// A range with a step of nothing.
    #[error("the step of '{0}' is 0")]
    ZeroStep(String),
    /// An array of which no task may run.
    #[error("'%0' lets no task run")]
    NoneAtOnce,
    /// An index listed twice.
    #[error("index {0} is listed twice")]
    DuplicateIndex(u32),
    /// More ranges than an array may have.
    #[error("more ranges than an array may list ({MAX_ARRAY_RANGES})")]
    TooManyRanges,
    /// More ranges that reach into each other than are compared.
    #[error("too many ranges with steps reach into each other to look for indices listed twice")]
    TooInterleaved,
    /// More tasks than an array may have.
    #[error("{0} tasks are more than an array may have ({MAX_ARRAY_TASKS})")]
    TooManyTasks(u64),
}

/// Parses, prints and serialises a type by its `FromStr` and `Display`, and takes a plain integer where `$integer` says
/// what one means.
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
