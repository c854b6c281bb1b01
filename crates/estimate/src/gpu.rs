//! GPU types: nominal memory, arithmetic and bandwidth, found by name as people write it. The figures were written down without the
//! makers' data sheets at hand and are yet to be checked against them. Where boards of a name differ, the figures are of the SXM board, and of the PCIe board where there is no other.

use std::str::FromStr;

const GB: u64 = 1_000_000_000;
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// A type of GPU.
#[derive(Debug, PartialEq)]
pub struct Gpu {
    /// Name, as in `A100-40GB`.
    pub name: &'static str,
    /// Memory in bytes.
    pub memory: u64,
    /// Single-precision floating-point operations per second, without tensor cores. None where it is not known well enough.
    pub flops: Option<f64>,
    /// Bytes per second to its memory.
    pub bandwidth: f64,
    generation: Generation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Generation {
    /// cuBLAS workspaces of 8 MiB: all but Hopper and its successors in the data centre.
    Earlier,
    /// cuBLAS workspaces of 32 MiB.
    Hopper,
}

/// Memory that libraries hold beside tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workspaces {
    /// Workspace of one cuBLAS handle.
    pub blas: u64,
}

/// Bytes a process is assumed to take before its first tensor: driver context and loaded kernels. No data sheet has it, and it differs
/// by driver, library and which kernels are loaded: SchedTune's trainings of 2021 show 0.4 GiB on a K80 and 0.9 to 1.2 GiB on four
/// later types, workspaces included (`bench/RESULTS.md`), libraries that load kernels lazily less.
pub const ASSUMED_CONTEXT: u64 = 512 * MIB;

const fn gpu(name: &'static str, gib: u64, tflops: Option<f64>, gbps: u64, generation: Generation) -> Gpu {
    Gpu {
        name,
        memory: gib * GIB,
        flops: match tflops {
            Some(tflops) => Some(tflops * 1e12),
            None => None,
        },
        bandwidth: (gbps * GB) as f64,
        generation,
    }
}

/// Every type, oldest first. A board with two GPUs is listed as one of them.
pub const GPUS: &[Gpu] = &[
    gpu("K80", 12, Some(4.37), 240, Generation::Earlier),
    gpu("P100-16GB", 16, Some(10.6), 732, Generation::Earlier),
    gpu("V100-16GB", 16, Some(15.7), 900, Generation::Earlier),
    gpu("V100-32GB", 32, Some(15.7), 900, Generation::Earlier),
    gpu("T4", 16, Some(8.1), 320, Generation::Earlier),
    gpu("RTX2080Ti", 11, Some(13.4), 616, Generation::Earlier),
    gpu("RTX3060", 12, Some(12.7), 360, Generation::Earlier),
    gpu("RTX3070", 8, Some(20.3), 448, Generation::Earlier),
    gpu("RTX3080", 10, Some(29.8), 760, Generation::Earlier),
    gpu("RTX3090", 24, Some(35.6), 936, Generation::Earlier),
    gpu("A10", 24, Some(31.2), 600, Generation::Earlier),
    gpu("A30", 24, Some(10.3), 933, Generation::Earlier),
    gpu("A40", 48, Some(37.4), 696, Generation::Earlier),
    gpu("A100-40GB", 40, Some(19.5), 1555, Generation::Earlier),
    gpu("A100-80GB", 80, Some(19.5), 2039, Generation::Earlier),
    gpu("RTX4060", 8, Some(15.1), 272, Generation::Earlier),
    gpu("RTX4070", 12, Some(29.1), 504, Generation::Earlier),
    gpu("RTX4080", 16, Some(48.7), 716, Generation::Earlier),
    gpu("RTX4090", 24, Some(82.6), 1008, Generation::Earlier),
    gpu("L4", 24, Some(30.3), 300, Generation::Earlier),
    gpu("L40S", 48, Some(91.6), 864, Generation::Earlier),
    gpu("H100-80GB", 80, Some(66.9), 3350, Generation::Hopper),
    gpu("H200", 141, Some(66.9), 4800, Generation::Hopper),
    gpu("RTX5090", 32, Some(104.8), 1792, Generation::Earlier),
    gpu("B200", 180, None, 8000, Generation::Hopper),
];

impl Gpu {
    /// Workspaces of the libraries on this type.
    pub fn workspaces(&self) -> Workspaces {
        match self.generation {
            Generation::Earlier => Workspaces::default(),
            Generation::Hopper => Workspaces { blas: 32 * MIB },
        }
    }
}

impl Default for Workspaces {
    /// PyTorch's default for cuBLAS, `:4096:2:16:8`: two buffers of 4 MiB and eight of 16 KiB.
    fn default() -> Self {
        Self { blas: 2 * 4096 * 1024 + 8 * 16 * 1024 }
    }
}

/// A name that no type here has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is no GPU type known here (there are {})", names())]
pub struct UnknownGpu;

fn names() -> String {
    GPUS.iter().map(|gpu| gpu.name).collect::<Vec<_>>().join(", ")
}

/// Letters and digits alone, without maker and brand: `NVIDIA GeForce RTX 3060` is `rtx3060`.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let noise = [
        "nvidia", "geforce", "tesla", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "pcie", "laptop", "gpu", "hbm3",
        "quadro",
    ];
    words.filter(|word| !noise.contains(word)).collect()
}

impl FromStr for &'static Gpu {
    type Err = UnknownGpu;

    /// Finds a type by name as people write it: `RTX3060`, "RTX 3060", `a100-40gb`, `A100` (its smallest), as drivers report it.
    fn from_str(text: &str) -> Result<Self, UnknownGpu> {
        let asked = plain(text);
        let exact = GPUS.iter().find(|gpu| plain(gpu.name) == asked);
        let family = |gpu: &&Gpu| {
            let (family, memory) = gpu.name.split_once('-').unwrap_or((gpu.name, ""));
            plain(family) == asked
                || (memory.is_empty() && asked == format!("{}{}gb", plain(family), gpu.memory / GIB))
        };
        exact.or_else(|| GPUS.iter().find(family)).ok_or(UnknownGpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_people_and_drivers_write_them() {
        for (written, name) in [
            ("RTX3060", "RTX3060"),
            ("RTX 3060", "RTX3060"),
            ("NVIDIA GeForce RTX 3060", "RTX3060"),
            ("rtx-3060-12gb", "RTX3060"),
            ("A100-40GB", "A100-40GB"),
            ("a100", "A100-40GB"),
            ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
            ("Tesla V100-SXM2-16GB", "V100-16GB"),
            ("Tesla T4", "T4"),
            ("h100", "H100-80GB"),
        ] {
            assert_eq!(written.parse::<&Gpu>().map(|gpu| gpu.name), Ok(name), "{written}");
        }
        for unknown in ["", "RTX", "RTX 9999", "A100-41GB"] {
            assert_eq!(unknown.parse::<&Gpu>(), Err(UnknownGpu), "{unknown}");
        }
    }
}
