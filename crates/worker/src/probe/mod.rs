//! The machine's GPUs: their identity, their current readings, and whether their load is ours.
//!
//! A [`Probe`] lists the devices and reads one of them; [`find`] picks the probe for a machine (NVML, AMD's sysfs,
//! or devices that are only declared). [`foreign`] judges a reading, [`ProcessTable`] knows which processes descend
//! from ours, and [`visible_env`] makes a task see just what it was granted. Who gets which device, and what is done
//! about a lost one, is decided elsewhere.

mod amd;
mod busy;
mod declared;
mod error;
mod find;
mod kfd;
mod models;
mod nodes;
mod nvml;
mod processes;
mod visible;

pub use amd::Amd;
pub use busy::{BusyReason, ForeignUse, OwnPids, OwnUse, Thresholds, bytes_of, foreign};
pub use declared::{Declared, DeclaredError};
pub use error::ProbeError;
pub use find::{Choice, ChoiceError, NoProbe, ProbePaths, find};
pub use models::{nominal_memory, type_name};
pub use nvml::Nvidia;
pub use processes::{Process, ProcessTable, in_own_pid_namespace};
pub use visible::{VISIBILITY_VARIABLES, visible_env};

use crate::supervise::DeviceNode;

/// One GPU, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The name that stays with the device: `GPU-…` for a real one, `fake-0-V100` for a declared one.
    pub uuid: String,
    /// Its place, from 0, in the order its vendor counts: PCI order for NVIDIA, ROCm's for AMD.
    pub index: u32,
    /// The product name as the driver says it, such as `Tesla V100-SXM2-16GB`.
    pub name: String,
    /// The short type that jobs ask for, such as `V100`.
    pub type_name: String,
    /// All of its memory, including what the driver keeps for itself.
    pub memory_bytes: u64,
    /// Its PCI address, such as `0000:3b:00.0`; a declared device has none.
    pub pci: Option<String>,
    /// The device nodes by which this GPU alone is used, as far as they are known.
    pub nodes: Vec<DeviceNode>,
}

/// A driver's reading of a GPU at one moment. A value the driver does not report is `None`, which is not zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// Memory in use, without what the driver keeps for itself where it tells the two apart.
    pub used_bytes: u64,
    /// How much of the last sampling period (up to a second) some kernel ran.
    pub utilisation_percent: Option<u32>,
    /// Core temperature in degrees Celsius.
    pub temperature_c: Option<i32>,
    /// Power drawn, in watts.
    pub power_w: Option<u32>,
    /// The processes that use it, each once, by ascending pid.
    pub processes: Vec<GpuProcess>,
}

/// A process that uses a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its pid as the driver sees it: the host's, not that of a container.
    pub pid: u32,
    /// Memory of the device it holds, where the driver says.
    pub bytes: Option<u64>,
    /// What it uses the device for.
    pub kind: ProcessKind,
}

/// What a process uses a GPU for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProcessKind {
    /// Only compute: CUDA, HIP.
    Compute,
    /// Only drawing: a display server.
    Graphics,
    /// Both, as browsers and compositors do on a desktop.
    Both,
}

/// The vendor whose driver a probe reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// NVIDIA, through NVML.
    Nvidia,
    /// AMD, through sysfs.
    Amd,
    /// Nobody: the devices are only declared.
    Declared,
    /// There are no devices.
    None,
}

/// A source of GPU identities and readings.
pub trait Probe: Send {
    /// The vendor, which decides the variables of [`visible_env`].
    fn vendor(&self) -> Vendor;

    /// One line for people: where this probe reads, or why there is nothing to read.
    fn describe(&self) -> String;

    /// The GPUs that are there now. One that fell off the bus is left out.
    fn gpus(&mut self) -> Result<Vec<Gpu>, ProbeError>;

    /// The current reading of a GPU; [`ProbeError::Lost`] if it is gone.
    fn read(&mut self, uuid: &str) -> Result<Reading, ProbeError>;
}
