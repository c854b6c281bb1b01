//! GPU types: memory, arithmetic and bandwidth from the makers' public specifications, found by name as people write it.

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
    /// Single-precision floating-point operations per second, without tensor cores.
    pub flops: f64,
    /// Bytes per second to its memory.
    pub bandwidth: f64,
    /// Bytes a process is assumed to take before its first tensor: driver context and loaded kernels. An assumption by size of
    /// the GPU, not a measurement; it differs by driver and library.
    pub context: u64,
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

/// Context of a type that is not named.
pub const DEFAULT_CONTEXT: u64 = 512 * MIB;

const fn gpu(
    name: &'static str,
    gib: u64,
    tflops: f64,
    gbps: u64,
    context_mib: u64,
    generation: Generation,
) -> Gpu {
    Gpu {
        name,
        memory: gib * GIB,
        flops: tflops * 1e12,
        bandwidth: (gbps * GB) as f64,
        context: context_mib * MIB,
        generation,
    }
}

/// Every type, oldest first. A board with two GPUs is listed as one of them.
pub const GPUS: &[Gpu] = &[
    gpu("K80", 12, 4.1, 240, 192, Generation::Earlier),
    gpu("P100-16GB", 16, 9.5, 732, 320, Generation::Earlier),
    gpu("V100-16GB", 16, 15.7, 900, 384, Generation::Earlier),
    gpu("V100-32GB", 32, 15.7, 900, 384, Generation::Earlier),
    gpu("T4", 16, 8.1, 320, 256, Generation::Earlier),
    gpu("RTX2080Ti", 11, 13.4, 616, 256, Generation::Earlier),
    gpu("RTX3060", 12, 12.7, 360, 256, Generation::Earlier),
    gpu("RTX3070", 8, 20.3, 448, 256, Generation::Earlier),
    gpu("RTX3080", 10, 29.8, 760, 320, Generation::Earlier),
    gpu("RTX3090", 24, 35.6, 936, 384, Generation::Earlier),
    gpu("A10", 24, 31.2, 600, 384, Generation::Earlier),
    gpu("A30", 24, 10.3, 933, 384, Generation::Earlier),
    gpu("A40", 48, 37.4, 696, 448, Generation::Earlier),
    gpu("A100-40GB", 40, 19.5, 1555, 512, Generation::Earlier),
    gpu("A100-80GB", 80, 19.5, 2039, 512, Generation::Earlier),
    gpu("RTX4060", 8, 15.1, 272, 256, Generation::Earlier),
    gpu("RTX4070", 12, 29.1, 504, 256, Generation::Earlier),
    gpu("RTX4080", 16, 48.7, 716, 320, Generation::Earlier),
    gpu("RTX4090", 24, 82.6, 1008, 448, Generation::Earlier),
    gpu("L4", 24, 30.3, 300, 320, Generation::Earlier),
    gpu("L40S", 48, 91.6, 864, 448, Generation::Earlier),
    gpu("H100-80GB", 80, 66.9, 3350, 640, Generation::Hopper),
    gpu("H200", 141, 66.9, 4800, 640, Generation::Hopper),
    gpu("RTX5090", 32, 104.8, 1792, 512, Generation::Earlier),
    gpu("B200", 180, 75.0, 8000, 768, Generation::Hopper),
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
