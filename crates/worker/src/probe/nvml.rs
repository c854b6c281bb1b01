//! NVIDIA's GPUs through NVML, the library that `nvidia-smi` uses too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::nodes::drm_nodes;
use super::{Gpu, GpuProcess, Probe, ProbeError, ProcessKind, Reading, Vendor, type_name};
use crate::supervise::DeviceNode;

/// The major number of `/dev/nvidia0` and its like, whose minor numbers NVML tells. `/dev/nvidiactl` and `/dev/nvidia-uvm`
/// are for all GPUs.
const MAJOR: u32 = 195;

/// What the loader searches for when no path is given.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Attempts at reading a list of processes that may grow between asking for its size and reading it.
const LIST_ATTEMPTS: usize = 3;

/// A loaded and started NVML.
#[derive(Debug)]
pub struct Nvidia {
    nvml: Nvml,
    library: PathBuf,
}

impl Nvidia {
    /// Loads NVML from `library`, or from wherever the loader finds the driver's.
    ///
    /// Fails with [`ProbeError::NvmlStart`] where there is no library or no driver behind it.
    pub fn open(library: Option<&Path>) -> Result<Self, ProbeError> {
        let library = library.unwrap_or(Path::new(LIBRARY));
        let nvml = Nvml::builder()
            .lib_path(library.as_os_str())
            .init()
            .map_err(|source| ProbeError::NvmlStart { library: library.display().to_string(), source })?;
        Ok(Self { nvml, library: library.to_owned() })
    }

    fn describe_at(&self, index: u32) -> Result<Gpu, (&'static str, NvmlError)> {
        let device = self.nvml.device_by_index(index).map_err(during("nvmlDeviceGetHandleByIndex_v2"))?;
        let name = device.name().map_err(during("nvmlDeviceGetName"))?;
        let pci = device.pci_info().ok().map(|pci| short_pci(&pci.bus_id));
        let own = device.minor_number().ok().map(|minor| DeviceNode { major: MAJOR, minor });
        let drm = pci.as_ref().map(|pci| drm_nodes(&Path::new("/sys/bus/pci/devices").join(pci)));
        Ok(Gpu {
            nodes: own.into_iter().chain(drm.into_iter().flatten()).collect(),
            uuid: device.uuid().map_err(during("nvmlDeviceGetUUID"))?,
            index,
            type_name: type_name(&name),
            name,
            memory_bytes: device.memory_info().map_err(during("nvmlDeviceGetMemoryInfo_v2"))?.total,
            pci,
        })
    }

    fn read_one(&self, uuid: &str) -> Result<Reading, (&'static str, NvmlError)> {
        let device = self.nvml.device_by_uuid(uuid).map_err(during("nvmlDeviceGetHandleByUUID"))?;
        let memory = device.memory_info().map_err(during("nvmlDeviceGetMemoryInfo_v2"))?;
        let compute = list(|| device.running_compute_processes())
            .map_err(during("nvmlDeviceGetComputeRunningProcesses_v3"))?;
        let graphics = list(|| device.running_graphics_processes())
            .map_err(during("nvmlDeviceGetGraphicsRunningProcesses_v3"))?;
        Ok(Reading {
            used_bytes: memory.used,
            utilisation_percent: optional_reading(device.utilization_rates())?.map(|rates| rates.gpu),
            temperature_c: optional_reading(device.temperature(TemperatureSensor::Gpu))?
                .map(|degrees| degrees as i32),
            power_w: optional_reading(device.power_usage())?.map(|milliwatts| (milliwatts + 500) / 1000),
            processes: merge(compute, graphics),
        })
    }

    fn failed(&self, device: String, (call, source): (&'static str, NvmlError)) -> ProbeError {
        match source {
            NvmlError::FailedToLoadSymbol(_) => ProbeError::DriverTooOld {
                driver: self.nvml.sys_driver_version().unwrap_or_else(|_| "of unknown version".to_owned()),
                call,
                source,
            },
            source => ProbeError::Nvml { call, device, source },
        }
    }
}

impl Probe for Nvidia {
    fn vendor(&self) -> Vendor {
        Vendor::Nvidia
    }

    fn describe(&self) -> String {
        let driver = self.nvml.sys_driver_version().map(|version| format!(", driver {version}"));
        format!("NVIDIA GPUs through {}{}", self.library.display(), driver.unwrap_or_default())
    }

    fn gpus(&mut self) -> Result<Vec<Gpu>, ProbeError> {
        let count = self
            .nvml
            .device_count()
            .map_err(|source| self.failed("the machine".to_owned(), ("nvmlDeviceGetCount_v2", source)))?;
        let mut gpus = Vec::new();
        for index in 0..count {
            match self.describe_at(index) {
                Ok(gpu) => gpus.push(gpu),
                // The count includes what we may not touch; and one bad GPU must not hide the good ones.
                Err((_, error)) if is_lost(&error) || matches!(error, NvmlError::NoPermission) => {}
                Err(error) => return Err(self.failed(format!("GPU {index}"), error)),
            }
        }
        Ok(gpus)
    }

    fn read(&mut self, uuid: &str) -> Result<Reading, ProbeError> {
        self.read_one(uuid).map_err(|(call, error)| {
            // Of a uuid, "not found" and "invalid" both say that there is no such device any more.
            let unknown = call == "nvmlDeviceGetHandleByUUID" && matches!(error, NvmlError::InvalidArg);
            if is_lost(&error) || unknown {
                ProbeError::Lost { uuid: uuid.to_owned(), source: Some(Box::new(error)) }
            } else {
                self.failed(format!("GPU {uuid}"), (call, error))
            }
        })
    }
}

/// Names the call an error came from.
fn during(call: &'static str) -> impl Fn(NvmlError) -> (&'static str, NvmlError) {
    move |error| (call, error)
}

fn is_lost(error: &NvmlError) -> bool {
    matches!(error, NvmlError::GpuLost | NvmlError::NotFound | NvmlError::ResetRequired)
}

/// A value the driver need not report: only the loss of the device is an error.
fn optional_reading<T>(value: Result<T, NvmlError>) -> Result<Option<T>, (&'static str, NvmlError)> {
    match value {
        Ok(value) => Ok(Some(value)),
        Err(error @ (NvmlError::GpuLost | NvmlError::ResetRequired)) => Err(("reading a sensor", error)),
        Err(_) => Ok(None),
    }
}

/// A list of processes, asked for again when it outgrew its buffer; empty where the driver has none to give.
fn list(ask: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>) -> Result<Vec<ProcessInfo>, NvmlError> {
    let mut last = ask();
    for _ in 1..LIST_ATTEMPTS {
        if !matches!(last, Err(NvmlError::InsufficientSize(_))) {
            break;
        }
        last = ask();
    }
    match last {
        Err(NvmlError::NotSupported | NvmlError::NoPermission) => Ok(Vec::new()),
        other => other,
    }
}

/// Each process once. One that computes in several slices of a device is listed for each; one that both computes and
/// draws is in both lists with the same memory.
fn merge(compute: Vec<ProcessInfo>, graphics: Vec<ProcessInfo>) -> Vec<GpuProcess> {
    let computing = by_pid(compute);
    let drawing = by_pid(graphics);
    let mut merged: BTreeMap<u32, GpuProcess> = BTreeMap::new();
    for (&pid, &bytes) in &computing {
        merged.insert(pid, GpuProcess { pid, bytes, kind: ProcessKind::Compute });
    }
    for (&pid, &bytes) in &drawing {
        merged
            .entry(pid)
            .and_modify(|process| {
                process.kind = ProcessKind::Both;
                process.bytes = process.bytes.max(bytes);
            })
            .or_insert(GpuProcess { pid, bytes, kind: ProcessKind::Graphics });
    }
    merged.into_values().collect()
}

fn by_pid(processes: Vec<ProcessInfo>) -> BTreeMap<u32, Option<u64>> {
    let mut sums: BTreeMap<u32, Option<u64>> = BTreeMap::new();
    for process in processes {
        let bytes = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        sums.entry(process.pid)
            .and_modify(|sum| *sum = sum.zip(bytes).map(|(a, b)| a.saturating_add(b)))
            .or_insert(bytes);
    }
    sums
}

/// NVML writes an eight-digit domain in capitals, the rest of the machine four digits in small letters.
fn short_pci(bus_id: &str) -> String {
    let lower = bus_id.to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) if domain.len() == 8 && domain.starts_with("0000") => {
            format!("{}:{rest}", &domain[4..])
        }
        _ => lower,
    }
}
