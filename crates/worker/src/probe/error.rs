//! What can go wrong when looking at GPUs.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use nvml_wrapper::error::NvmlError;

/// Why a probe could not be opened, or could not say what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The GPU is not there any more: it fell off the bus, was taken away, or needs a reset before it works again.
    #[error("GPU {uuid} is lost")]
    Lost {
        /// The GPU that was asked about.
        uuid: String,
        /// What the driver or the file system said, if anything did.
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// NVML cannot be loaded or will not start.
    #[error("cannot start NVML from {library}")]
    NvmlStart {
        /// The library's path, or its name where the loader searches for it.
        library: String,
        /// What the loader or the driver said.
        source: NvmlError,
    },
    /// The driver's library lacks a function every driver from 510 on has.
    #[error("NVIDIA driver {driver} is too old: it does not offer {call}, which came with driver 510")]
    DriverTooOld {
        /// The driver's version, or `of unknown version`.
        driver: String,
        /// The missing function.
        call: &'static str,
        /// What the loader said.
        source: NvmlError,
    },
    /// An NVML call failed for another reason.
    #[error("{call} failed for {device}")]
    Nvml {
        /// The call.
        call: &'static str,
        /// The GPU, by uuid or index, or the machine.
        device: String,
        /// What the driver said.
        source: NvmlError,
    },
    /// A file of sysfs cannot be read.
    #[error("cannot read {}", path.display())]
    Sysfs {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file of sysfs holds something other than a number.
    #[error("{} should hold a number but holds {found:?}", path.display())]
    NotANumber {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
}

impl ProbeError {
    /// Whether this says that the device itself is gone.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}
