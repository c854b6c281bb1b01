//! The graph inside an archive of `torch.export`; after a line of `--`, its list of weights. The archive is made here: its
//! checksums would otherwise refuse nearly every mutated graph before it is parsed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpyard_fuzz::model;

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    let (graph, weights) = match text.split_once("\n--\n") {
        Some((graph, weights)) => (graph, Some(weights)),
        None => (text, None),
    };
    model::read_and_estimate(&model::archive(graph, weights));
});
