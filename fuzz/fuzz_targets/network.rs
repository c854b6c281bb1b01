//! The weights of the learned planner.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpyard_dag::learned::Network;

fuzz_target!(|data: &[u8]| {
    if let Ok(network) = Network::from_safetensors(data) {
        let _written = network.to_safetensors();
    }
});
