//! Array indices.

use super::{QuantityError, human_serde};
use std::fmt;
use std::str::FromStr;

/// The most tasks one array may have.
pub const MAX_ARRAY_TASKS: u64 = 10_000_000;

/// The most ranges in one array, because finding a task searches them.
pub const MAX_ARRAY_RANGES: usize = 10_000;

/// The indices of an array, as ranges: "1-100%8" (at most 8 at once), "0-9:2%4" (every second), "1,3,5-7".
///
/// A million tasks take no more room than one. Tasks are numbered by their position, in the order written.
///
/// ```
/// use warpyard_api::quantity::ArraySpec;
/// let array: ArraySpec = "1,3,5-9:2%4".parse()?;
/// assert_eq!((array.len(), array.at_once()), (5, Some(4)));
/// assert_eq!(array.iter().collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
/// assert_eq!(array.index_at(3), Some(7));
/// # Ok::<(), warpyard_api::quantity::QuantityError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArraySpec {
    ranges: Vec<(u32, u32, u32)>,
    /// The position of each range's first task, for binary search.
    starts: Vec<u32>,
    len: u32,
    at_once: Option<u32>,
}

impl ArraySpec {
    /// An array of these ranges, each `(first, last, step)` with both ends included.
    pub fn new(
        ranges: impl IntoIterator<Item = (u32, u32, u32)>,
        at_once: Option<u32>,
    ) -> Result<Self, QuantityError> {
        if at_once == Some(0) {
            return Err(QuantityError::NoneAtOnce);
        }
        let (mut kept, mut starts, mut len) = (Vec::<(u32, u32, u32)>::new(), Vec::new(), 0u64);
        for (first, last, step) in ranges {
            if last < first {
                return Err(QuantityError::Reversed(format!("{first}-{last}")));
            }
            if step == 0 {
                return Err(QuantityError::ZeroStep(format!("{first}-{last}:0")));
            }
            let steps = (last - first) / step;
            let last = first + steps * step;
            match kept.last_mut() {
                // Indices listed one by one are a range.
                Some((_, before, 1)) if steps == 0 && before.checked_add(1) == Some(first) => *before = first,
                _ => {
                    kept.push((first, last, if steps == 0 { 1 } else { step }));
                    starts.push(len as u32);
                }
            }
            len += u64::from(steps) + 1;
            if len > MAX_ARRAY_TASKS {
                return Err(QuantityError::TooManyTasks(len));
            }
            if kept.len() > MAX_ARRAY_RANGES {
                return Err(QuantityError::TooManyRanges);
            }
        }
        if len == 0 {
            return Err(QuantityError::Empty);
        }
        refuse_duplicates(&kept)?;
        Ok(Self { ranges: kept, starts, len: len as u32, at_once })
    }

    /// The ranges, each `(first, last, step)`; `last` is itself an index of the array.
    pub fn ranges(&self) -> &[(u32, u32, u32)] {
        &self.ranges
    }

    /// The limit of tasks that run at once, if there is one.
    pub fn at_once(&self) -> Option<u32> {
        self.at_once
    }

    /// The number of tasks, at least one.
    #[expect(clippy::len_without_is_empty, reason = "an array is never empty")]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The index of the task at a position.
    pub fn index_at(&self, position: u32) -> Option<u32> {
        if position >= self.len {
            return None;
        }
        let range = self.starts.partition_point(|start| *start <= position) - 1;
        let (first, _, step) = self.ranges[range];
        Some(first + (position - self.starts[range]) * step)
    }

    /// The position of the task with an index.
    pub fn position_of(&self, index: u32) -> Option<u32> {
        let holds = |(first, last, step): &(u32, u32, u32)| {
            (*first..=*last).contains(&index) && (index - first).is_multiple_of(*step)
        };
        let range = self.ranges.iter().position(holds)?;
        let (first, _, step) = self.ranges[range];
        Some(self.starts[range] + (index - first) / step)
    }

    /// All indices, by position.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|(first, last, step)| (*first..=*last).step_by(*step as usize))
    }
}

/// The intersection of two ranges `(first, last, step)`, which is such a range itself.
///
/// ```
/// use warpyard_api::quantity::intersect_ranges;
/// assert_eq!(intersect_ranges((0, 20, 2), (3, 18, 3)), Some((6, 18, 6)));
/// assert_eq!(intersect_ranges((0, 20, 2), (1, 21, 2)), None);
/// ```
pub fn intersect_ranges(a: (u32, u32, u32), b: (u32, u32, u32)) -> Option<(u32, u32, u32)> {
    let [(first, last, step), (from, to, by)] =
        [a, b].map(|(first, last, step)| (i64::from(first), i64::from(last), i64::from(step)));
    let (low, high) = (first.max(from), last.min(to));
    // Bézout: `x * step` is `gcd` more than a multiple of `by`.
    let (mut gcd, mut x, mut rest, mut next) = (step, 1, by, 0);
    while rest != 0 {
        let n = gcd / rest;
        (gcd, rest) = (rest, gcd - n * rest);
        (x, next) = (next, x - n * next);
    }
    if low > high || (from - first) % gcd != 0 {
        return None;
    }
    let period = by / gcd;
    // So many steps from `first` is the first common value, in either direction; then up to where both have begun.
    let steps = i128::from((from - first) / gcd) * i128::from(x) % i128::from(period);
    let (common, both) =
        (i128::from(first) + steps * i128::from(step), i128::from(step) * i128::from(period));
    let least = common + (i128::from(low) - common).div_euclid(both) * both;
    let least = if least < i128::from(low) { least + both } else { least };
    if least > i128::from(high) {
        return None;
    }
    let most = least + (i128::from(high) - least) / both * both;
    let step = if least == most { 1 } else { both as u32 };
    Some((least as u32, most as u32, step))
}

/// The most pairs of overlapping ranges that are compared; arrays with more are rejected.
const MAX_INTERLEAVED: usize = 100_000;

/// Rejects indices listed twice, by comparing overlapping ranges, of which there are few in practice.
fn refuse_duplicates(ranges: &[(u32, u32, u32)]) -> Result<(), QuantityError> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let (mut open, mut compared): (Vec<(u32, u32, u32)>, usize) = (Vec::new(), 0);
    for range in sorted {
        open.retain(|other| other.1 >= range.0);
        compared += open.len();
        if compared > MAX_INTERLEAVED {
            return Err(QuantityError::TooInterleaved);
        }
        if let Some((index, _, _)) = open.iter().find_map(|other| intersect_ranges(*other, range)) {
            return Err(QuantityError::DuplicateIndex(index));
        }
        open.push(range);
    }
    Ok(())
}

impl FromStr for ArraySpec {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(QuantityError::Empty);
        }
        let (ranges, at_once) = match text.split_once('%') {
            None => (text, None),
            Some((ranges, limit)) => (ranges, Some(number(limit)?)),
        };
        let ranges: Vec<_> = ranges.split(',').map(range).collect::<Result<_, _>>()?;
        Self::new(ranges, at_once)
    }
}

fn range(text: &str) -> Result<(u32, u32, u32), QuantityError> {
    let text = text.trim();
    let (ends, step) = text.split_once(':').map_or((text, None), |(ends, step)| (ends, Some(step)));
    let (first, last) = match ends.split_once('-') {
        Some(("", _)) => return Err(QuantityError::Negative(ends.to_owned())),
        Some((first, last)) => (number(first)?, number(last)?),
        None if step.is_some() => return Err(QuantityError::NotANumber(text.to_owned())),
        None => (number(ends)?, number(ends)?),
    };
    Ok((first, last, step.map_or(Ok(1), number)?))
}

fn number(text: &str) -> Result<u32, QuantityError> {
    let text = text.trim();
    match text.parse() {
        // A sign is not a digit, though `parse` takes one.
        Ok(number) if !text.starts_with('+') => Ok(number),
        _ if text.starts_with('-') => Err(QuantityError::Negative(text.to_owned())),
        _ if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            Err(QuantityError::TooLarge(text.to_owned()))
        }
        _ => Err(QuantityError::NotANumber(text.to_owned())),
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (first, last, step)) in self.ranges.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            match (first == last, step) {
                (true, _) => write!(f, "{first}")?,
                (false, 1) => write!(f, "{first}-{last}")?,
                (false, _) => write!(f, "{first}-{last}:{step}")?,
            }
        }
        self.at_once.map_or(Ok(()), |limit| write!(f, "%{limit}"))
    }
}

human_serde!(ArraySpec, "array indices such as \"1-100%8\"", |number| Err(QuantityError::NotARange(number)));

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn arrays_refused() {
        let refusal = |text: &str| text.parse::<ArraySpec>().unwrap_err().to_string();
        assert_eq!(refusal(""), "nothing is written here");
        assert_eq!(refusal("5-1"), "the range '5-1' ends before it starts");
        assert_eq!(refusal("1-9:0"), "the step of '1-9:0' is 0");
        assert_eq!(refusal("1-9%0"), "'%0' lets no task run");
        assert_eq!(refusal("1-5,3"), "index 3 is listed twice");
        assert_eq!(refusal("0-8:2,4-10:3"), "index 4 is listed twice");
        assert_eq!(refusal("0-10000000"), "10000001 tasks are more than an array may have (10000000)");
        assert_eq!(
            refusal("0-4294967295,0-4"),
            "4294967296 tasks are more than an array may have (10000000)"
        );
        assert_eq!(refusal("-3"), "'-3' is negative");
        assert_eq!(refusal("1-"), "'' is not a number");
        assert_eq!(refusal("1,,2"), "'' is not a number");
        assert_eq!(refusal("+1"), "'+1' is not a number");
        assert_eq!(refusal("7:2"), "'7:2' is not a number");
        assert_eq!(refusal("4294967296"), "'4294967296' is too large");
    }

    #[test]
    fn interleaved_ranges_are_not_duplicates() {
        let array: ArraySpec = "0-8:2,1-9:2".parse().unwrap();
        assert_eq!(array.iter().collect::<Vec<_>>(), [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]);
    }

    #[test]
    fn the_largest_array_is_as_small_as_any() {
        let array: ArraySpec = "1-10000000%8".parse().unwrap();
        assert_eq!((array.len(), array.ranges()), (10_000_000, &[(1, 10_000_000, 1)][..]));
        assert_eq!(array.index_at(9_999_999), Some(10_000_000));
        assert_eq!(array.index_at(10_000_000), None);
    }

    #[test]
    fn ranges_that_reach_into_each_other_cost_no_more_than_others() {
        // Written out, these would be compared index by index, ten million of them.
        let many: Vec<String> = (0..5_000).map(|i| format!("{i}-{}:5000", 5_000 * 1_999 + i)).collect();
        assert_eq!(many.join(",").parse::<ArraySpec>(), Err(QuantityError::TooInterleaved));
        assert_eq!(
            "0-4999999,4999999-9999998".parse::<ArraySpec>(),
            Err(QuantityError::DuplicateIndex(4_999_999))
        );
        let listed: Vec<String> = (0..=10_000).map(|i| (2 * i).to_string()).collect();
        assert_eq!(listed.join(",").parse::<ArraySpec>(), Err(QuantityError::TooManyRanges));
        let in_order: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
        assert_eq!(in_order.join(",").parse::<ArraySpec>().unwrap().ranges(), [(0, 99_999, 1)]);
    }

    fn arrays() -> impl Strategy<Value = ArraySpec> {
        let gaps_and_ranges = prop::collection::vec((1u32..50, 0u32..200, 1u32..7), 1..6);
        (gaps_and_ranges, prop::option::of(1u32..20)).prop_map(|(parts, at_once)| {
            let mut next = 0;
            let ranges: Vec<_> = parts
                .into_iter()
                .map(|(gap, length, step)| {
                    let first = next + gap;
                    next = first + length;
                    (first, next, step)
                })
                .collect();
            ArraySpec::new(ranges, at_once).expect("ranges apart from each other")
        })
    }

    proptest! {
        #[test]
        fn printed_arrays_parse_to_themselves(array in arrays()) {
            prop_assert_eq!(array.to_string().parse(), Ok(array));
        }

        #[test]
        fn positions_and_indices_are_one_to_one(array in arrays()) {
            let by_position: Vec<_> = (0..array.len()).map(|p| array.index_at(p).expect("in range")).collect();
            prop_assert_eq!(&array.iter().collect::<Vec<_>>(), &by_position);
            for (position, index) in by_position.iter().enumerate() {
                prop_assert_eq!(array.position_of(*index), Some(position as u32));
            }
        }

        #[test]
        fn common_values_are_those_of_both(
            a in (0u32..40, 0u32..60, 1u32..9), b in (0u32..40, 0u32..60, 1u32..9), up in 0u32..2,
        ) {
            // Also where numbers are as large as they get.
            let up = up * (u32::MAX - 200);
            let [a, b] = [a, b].map(|(first, n, step)| (up + first, up + first + n / step * step, step));
            let values = |(first, last, step): (u32, u32, u32)| (first..=last).step_by(step as usize);
            let expected: Vec<u32> = values(a).filter(|v| values(b).any(|w| w == *v)).collect();
            let found: Vec<u32> = intersect_ranges(a, b).into_iter().flat_map(values).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_text_panics(text in "[-0-9,:% ]{0,24}|\\PC{0,12}") {
            let _ = text.parse::<ArraySpec>();
        }
    }
}
