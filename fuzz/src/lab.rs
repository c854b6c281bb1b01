//! The readers that live in the binary, which has no library to link to: their sources, with as much of their
//! surroundings as they name.

#[expect(dead_code, reason = "the binary uses more of it")]
#[path = "../../crates/warpyard/src/lab/cluster.rs"]
mod cluster;
#[path = "../../crates/warpyard/src/lab/json.rs"]
mod json;

use crate::wrong::Wrong;
use serde::de::DeserializeOwned;
use warpyard_core::event::WorkerInfo;

mod formats {
    #[derive(Default)]
    pub struct Open;

    impl Open {
        /// As the command line has it where nothing is said.
        pub fn whole_gpu(&self) -> u64 {
            16 << 30
        }
    }
}

fn text_of(file: &str) -> Result<String, Wrong> {
    std::fs::read_to_string(file).map_err(Wrong::UnreadableFile)
}

fn bad_file(_file: &str, source: impl std::error::Error + Send + Sync + 'static) -> Wrong {
    Wrong::BadFile(Box::new(source))
}

/// The servers a line or a file describes.
pub fn cluster(given: &str) -> Result<Vec<WorkerInfo>, String> {
    cluster::cluster(given).map_err(|e| format!("{e:?}"))
}

/// JSON as the command line reads it.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    json::parse("input.json", text).map_err(|e| format!("{e:?}"))
}
