//! The environment that makes a task see the GPUs it was granted and no others.

use super::{Gpu, Vendor};

/// Every variable that narrows what a program sees of the GPUs.
///
/// A task must not inherit the worker's own: an index in `HIP_VISIBLE_DEVICES`, say, counts within what
/// `ROCR_VISIBLE_DEVICES` leaves. Clear these, then set what [`visible_env`] returns.
pub const VISIBILITY_VARIABLES: &[&str] = &[
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "WARPYARD_GPUS",
];

/// The variables that leave just the granted GPUs visible to a task.
///
/// NVIDIA's are named by uuid, so that no order of counting can go wrong, and are counted in PCI order by programs
/// that count. AMD's are named by uuid where the device has one and else by index, which is what ROCm knows it by.
/// Declared devices are named the way NVIDIA's are, which hides every real device from CUDA (it stops at the first
/// name it does not know), and again in `WARPYARD_GPUS` for programs that want to know what they were given.
///
/// A task that was granted nothing sees nothing: CUDA and ROCm both show *no* device when the variable is set but
/// empty, and *all* of them when it is not set, so both are set to the empty string whatever the vendor.
///
/// ```
/// # use warpyard_worker::probe::{visible_env, Vendor};
/// assert_eq!(visible_env(&[], Vendor::Nvidia)[0], ("CUDA_VISIBLE_DEVICES".to_owned(), String::new()));
/// ```
pub fn visible_env(granted: &[&Gpu], vendor: Vendor) -> Vec<(String, String)> {
    let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    if granted.is_empty() {
        return vec![set("CUDA_VISIBLE_DEVICES", ""), set("ROCR_VISIBLE_DEVICES", "")];
    }
    let uuids = join(granted, |gpu| gpu.uuid.clone());
    match vendor {
        Vendor::Nvidia => {
            vec![set("CUDA_VISIBLE_DEVICES", &uuids), set("CUDA_DEVICE_ORDER", "PCI_BUS_ID")]
        }
        Vendor::Amd => vec![set("ROCR_VISIBLE_DEVICES", &join(granted, rocm_name))],
        Vendor::Declared | Vendor::None => vec![
            set("CUDA_VISIBLE_DEVICES", &uuids),
            set("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
            set("WARPYARD_GPUS", &uuids),
        ],
    }
}

/// ROCm takes a uuid only in its own form; a device without a unique id has no such uuid and goes by its index.
fn rocm_name(gpu: &Gpu) -> String {
    if gpu.uuid.starts_with("GPU-") { gpu.uuid.clone() } else { gpu.index.to_string() }
}

fn join(gpus: &[&Gpu], name: impl Fn(&Gpu) -> String) -> String {
    gpus.iter().map(|gpu| name(gpu)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(uuid: &str, index: u32) -> Gpu {
        Gpu {
            nodes: Vec::new(),
            uuid: uuid.to_owned(),
            index,
            name: String::new(),
            type_name: String::new(),
            memory_bytes: 1,
            pci: None,
        }
    }

    fn env(uuids: &[(&str, u32)], vendor: Vendor) -> String {
        let gpus: Vec<_> = uuids.iter().map(|&(uuid, index)| gpu(uuid, index)).collect();
        let set = visible_env(&gpus.iter().collect::<Vec<_>>(), vendor);
        set.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_what_was_granted_is_named() {
        let two = [("GPU-b", 1), ("GPU-d", 3)];
        assert_eq!(
            env(&two, Vendor::Nvidia),
            "CUDA_VISIBLE_DEVICES=GPU-b,GPU-d CUDA_DEVICE_ORDER=PCI_BUS_ID"
        );
        assert_eq!(env(&two, Vendor::Amd), "ROCR_VISIBLE_DEVICES=GPU-b,GPU-d");
        assert_eq!(
            env(&[("fake-0-V100", 0)], Vendor::Declared),
            "CUDA_VISIBLE_DEVICES=fake-0-V100 CUDA_DEVICE_ORDER=PCI_BUS_ID WARPYARD_GPUS=fake-0-V100"
        );
    }

    #[test]
    fn an_amd_gpu_without_a_unique_id_goes_by_its_index() {
        let mixed = [("GPU-00c0ffee00c0ffee", 0), ("amd-0000:0a:00.0", 1)];
        assert_eq!(env(&mixed, Vendor::Amd), "ROCR_VISIBLE_DEVICES=GPU-00c0ffee00c0ffee,1");
    }

    #[test]
    fn a_task_without_gpus_sees_none_on_any_machine() {
        for vendor in [Vendor::Nvidia, Vendor::Amd, Vendor::Declared, Vendor::None] {
            assert_eq!(env(&[], vendor), "CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES=");
        }
    }

    #[test]
    fn whatever_is_set_is_among_those_to_clear_first() {
        for vendor in [Vendor::Nvidia, Vendor::Amd, Vendor::Declared] {
            for (name, _) in visible_env(&[&gpu("u", 0)], vendor) {
                assert!(VISIBILITY_VARIABLES.contains(&name.as_str()), "{name}");
            }
        }
    }
}
