//! What allocation reads: instances, which are validated, and tables of throughputs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpyard_allocate::{Instance, Profile, ThroughputTable};
use warpyard_fuzz::binary;

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    if let Ok(instance) = binary::json::<Instance>(text) {
        let _refused = instance.validate();
    }
    let _profile = Profile::parse(text);
    let Ok(table) = binary::json::<ThroughputTable>(text) else { return };
    for kind in table.types() {
        for profile in table.profiles(kind) {
            let _speed = table.alone(kind, profile);
        }
        table.pairs(kind).for_each(drop);
    }
});
