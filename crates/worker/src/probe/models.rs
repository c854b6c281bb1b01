//! What a GPU's product name says: its short type, and how much memory that type is sold with.

/// Nominal memory in GiB of well-known GPUs, each the amount one *device* has: boards with several devices (K80, M60,
/// A16, MI250X) count for one of them. Of a type sold with several sizes this is the one it came with first.
const NOMINAL_GIB: &[(&str, u64)] = &[
    ("K80", 12),
    ("M40", 12),
    ("M60", 8),
    ("P4", 8),
    ("P40", 24),
    ("P100", 16),
    ("V100", 16),
    ("T4", 16),
    ("A2", 16),
    ("A10", 24),
    ("A10G", 24),
    ("A16", 16),
    ("A30", 24),
    ("A40", 48),
    ("A100", 40),
    ("H100", 80),
    ("H200", 141),
    ("L4", 24),
    ("L40", 48),
    ("L40S", 48),
    ("A4000", 16),
    ("A5000", 24),
    ("A6000", 48),
    ("RTX6000", 24),
    ("RTX8000", 48),
    ("RTX6000Ada", 48),
    ("TITANV", 12),
    ("TITANRTX", 24),
    ("GTX1080", 8),
    ("GTX1080Ti", 11),
    ("RTX2080", 8),
    ("RTX2080Ti", 11),
    ("RTX3090", 24),
    ("RTX4080", 16),
    ("RTX4090", 24),
    ("RTX5080", 16),
    ("RTX5090", 32),
    ("MI100", 32),
    ("MI210", 64),
    ("MI250X", 64),
    ("MI300A", 128),
    ("MI300X", 192),
    ("RX6900XT", 16),
    ("RX7900XTX", 24),
];

/// Words of a product name that say who made it or what family it is of, not which model.
const NOT_MODEL: &[&str] =
    &["NVIDIA", "AMD", "Tesla", "GeForce", "Quadro", "GRID", "Instinct", "Radeon", "Graphics", "GPU"];

/// Words after the model number that make it another model.
const SUFFIXES: &[&str] = &["Ti", "SUPER", "Super", "XT", "XTX", "GRE", "Ada", "Laptop", "Mobile"];

/// A well-known type's usual spelling and nominal memory in bytes, however it is capitalised.
///
/// ```
/// # use warpyard_worker::probe::nominal_memory;
/// assert_eq!(nominal_memory("v100"), Some(("V100", 16 << 30)));
/// assert_eq!(nominal_memory("abacus"), None);
/// ```
pub fn nominal_memory(type_name: &str) -> Option<(&'static str, u64)> {
    NOMINAL_GIB
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(type_name))
        .map(|&(known, gib)| (known, gib << 30))
}

/// The short type jobs ask for, from the product name the driver gives.
///
/// ```
/// # use warpyard_worker::probe::type_name;
/// assert_eq!(type_name("Tesla V100-SXM2-16GB"), "V100");
/// assert_eq!(type_name("NVIDIA A100 80GB PCIe"), "A100");
/// assert_eq!(type_name("NVIDIA GeForce RTX 4090"), "RTX4090");
/// ```
pub fn type_name(product: &str) -> String {
    let words: Vec<&str> = product
        .split_whitespace()
        .take_while(|word| !word.starts_with(['(', '[', '/']))
        .filter(|word| !NOT_MODEL.iter().any(|family| family.eq_ignore_ascii_case(word)))
        .map(|word| word.split('-').next().unwrap_or(word))
        .filter(|word| !word.is_empty())
        .collect();

    let Some(model) = words.iter().position(|word| word.contains(|c: char| c.is_ascii_digit())) else {
        return if words.is_empty() { product.split_whitespace().collect() } else { words.concat() };
    };
    // "RTX 4090" needs its RTX, "RTX A6000" does not: A6000 is a name of its own.
    let named_by_number = words[model].starts_with(|c: char| c.is_ascii_digit());
    let from = if named_by_number { 0 } else { model };
    let suffixes = words[model + 1..].iter().take_while(|word| SUFFIXES.contains(word)).count();
    words[from..=model + suffixes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_name_becomes_the_type_people_say() {
        for (product, short) in [
            ("Tesla K80", "K80"),
            ("Tesla T4", "T4"),
            ("Tesla P100-PCIE-16GB", "P100"),
            ("Tesla V100-SXM2-32GB", "V100"),
            ("GRID V100D-8Q", "V100D"),
            ("NVIDIA A100-SXM4-40GB", "A100"),
            ("NVIDIA A10G", "A10G"),
            ("NVIDIA H100 80GB HBM3", "H100"),
            ("NVIDIA L40S", "L40S"),
            ("NVIDIA GeForce RTX 3080 Laptop GPU", "RTX3080Laptop"),
            ("GeForce GTX 1080 Ti", "GTX1080Ti"),
            ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX4070TiSUPER"),
            ("NVIDIA RTX A6000", "A6000"),
            ("Quadro RTX 8000", "RTX8000"),
            ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
            ("NVIDIA TITAN V", "TITANV"),
            ("NVIDIA TITAN X (Pascal)", "TITANX"),
            ("NVIDIA TITAN RTX", "TITANRTX"),
            ("AMD Instinct MI250X / MI250", "MI250X"),
            ("AMD Radeon RX 7900 XTX", "RX7900XTX"),
            ("AMD Radeon PRO W7900", "W7900"),
        ] {
            assert_eq!(type_name(product), short, "{product}");
        }
    }

    #[test]
    fn a_name_of_family_words_only_is_kept_whole() {
        assert_eq!(type_name("AMD Radeon Graphics"), "AMDRadeonGraphics");
        assert_eq!(type_name(""), "");
    }

    #[test]
    fn a_known_type_is_listed_once() {
        for (n, (name, _)) in NOMINAL_GIB.iter().enumerate() {
            assert!(
                !NOMINAL_GIB[..n].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)),
                "{name} twice"
            );
        }
    }
}
