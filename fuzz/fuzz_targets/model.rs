//! Model files as they lie on a disk: archives of `torch.export`, ONNX, safetensors and GGUF. What is read can be estimated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpyard_fuzz::model;

fuzz_target!(|data: &[u8]| model::read_and_estimate(data));
