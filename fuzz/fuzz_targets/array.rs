//! Arrays: what is accepted reads back the same, has each index once, and finds each by its position and index. The values
//! two ranges have in common are those that are in both.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use warpyard_api::quantity::{ArraySpec, intersect_ranges};

/// So many indices are written out; what is larger is looked at where it begins and ends.
const WRITTEN_OUT: u32 = 2_000;

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    let Ok(array) = text.parse::<ArraySpec>() else { return };
    assert_eq!(array.to_string().parse::<ArraySpec>().as_ref(), Ok(&array));
    let last = array.len() - 1;
    for position in [0, 1, last / 2, last] {
        let index = array.index_at(position.min(last)).expect("it has that many");
        assert_eq!(array.position_of(index), Some(position.min(last)));
    }
    assert_eq!(array.index_at(array.len()), None);
    if array.len() <= WRITTEN_OUT {
        let indices: Vec<u32> = array.iter().collect();
        assert_eq!(indices.len(), array.len() as usize);
        assert_eq!(indices.iter().collect::<BTreeSet<_>>().len(), indices.len(), "an index is there twice");
    }
    for pair in array.ranges().windows(2) {
        assert_eq!(intersect_ranges(pair[0], pair[1]), None, "ranges of an array have nothing in common");
    }
    // With another range, which may have something in common with it.
    let (first, end, step) = array.ranges()[0];
    if end - first <= WRITTEN_OUT {
        let other = (first / 2, end.saturating_add(7), step % 5 + 1);
        let in_other = |value: &u32| (other.0..=other.1).contains(value) && (value - other.0) % other.2 == 0;
        let expected: Vec<u32> = (first..=end).step_by(step as usize).filter(in_other).collect();
        let found = intersect_ranges((first, end, step), other)
            .map_or_else(Vec::new, |(first, end, step)| (first..=end).step_by(step as usize).collect());
        assert_eq!(found, expected, "{:?} and {other:?}", (first, end, step));
    }
});
