//! Declared devices: GPUs without hardware, so that everything can be tried where there is no GPU.
//!
//! `4xV100:16GiB,2xK80` declares four V100s and two K80s. Their names are made up but stable: the same declaration
//! gives the same uuids on every start.

use std::str::FromStr;

use super::{Gpu, Probe, ProbeError, Reading, Vendor, nominal_memory};

/// More than this in one declaration is taken for a slip of the finger.
const MOST_DEVICES: u32 = 10_000;

/// Declared devices. They are never in use.
///
/// ```
/// # use warpyard_worker::probe::{Declared, Probe};
/// let mut declared: Declared = "4xV100:16GiB,2xk80".parse()?;
/// let gpus = declared.gpus()?;
/// assert_eq!(gpus.len(), 6);
/// assert_eq!((gpus[4].uuid.as_str(), gpus[4].memory_bytes), ("fake-4-K80", 12 << 30));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    gpus: Vec<Gpu>,
}

/// What is wrong with a declaration of devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclaredError {
    /// There is nothing to declare, or nothing between two commas.
    #[error(
        "a group of devices is empty in '{all}'; write COUNTxTYPE:MEMORY, such as 4xV100:16GiB,2xK80:12GiB"
    )]
    Empty {
        /// The whole declaration.
        all: String,
    },
    /// A number of devices that cannot be meant.
    #[error(
        "'{group}' declares {count} devices; write a number from 1 to {MOST_DEVICES} in all, such as 4xV100:16GiB"
    )]
    Count {
        /// The group.
        group: String,
        /// Its count, as written.
        count: String,
    },
    /// A type with letters no GPU type has, or none at all.
    #[error("'{group}' has no usable GPU type ('{found}'); write letters and digits, such as 4xV100:16GiB")]
    Type {
        /// The group.
        group: String,
        /// What stands where the type should.
        found: String,
    },
    /// No memory is given and the type is not one whose memory is known.
    #[error(
        "'{group}' gives no memory and that of {type_name} is not known; write it, such as {group}:16GiB"
    )]
    UnknownMemory {
        /// The group.
        group: String,
        /// Its type.
        type_name: String,
    },
    /// A memory size that is not one.
    #[error(
        "'{found}' in '{group}' is not a memory size; write a number above 0 and MiB, GiB, TiB, MB, GB or TB, \
         such as 16GiB"
    )]
    Memory {
        /// The group.
        group: String,
        /// What stands where the size should.
        found: String,
    },
}

impl FromStr for Declared {
    type Err = DeclaredError;

    /// Reads `COUNTxTYPE:MEMORY,…`; a count of 1 and the memory of a well-known type may be left out.
    fn from_str(all: &str) -> Result<Self, DeclaredError> {
        let mut gpus = Vec::new();
        for group in all.split(',').map(str::trim) {
            if group.is_empty() {
                return Err(DeclaredError::Empty { all: all.to_owned() });
            }
            let (count, type_name, memory_bytes) = parse_group(group)?;
            let first = gpus.len() as u32;
            if first + count > MOST_DEVICES {
                return Err(DeclaredError::Count {
                    group: group.to_owned(),
                    count: (first + count).to_string(),
                });
            }
            gpus.extend((first..first + count).map(|index| Gpu {
                nodes: Vec::new(),
                uuid: format!("fake-{index}-{type_name}"),
                index,
                name: type_name.clone(),
                type_name: type_name.clone(),
                memory_bytes,
                pci: None,
            }));
        }
        Ok(Self { gpus })
    }
}

/// The count, type and memory of one group such as `4xV100:16GiB`.
fn parse_group(group: &str) -> Result<(u32, String, u64), DeclaredError> {
    let (device, memory) = match group.split_once(':') {
        Some((device, memory)) => (device.trim(), Some(memory.trim())),
        None => (group, None),
    };
    let (count, written_type) = parse_count(group, device)?;
    if written_type.is_empty()
        || !written_type.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    {
        return Err(DeclaredError::Type { group: group.to_owned(), found: written_type.to_owned() });
    }
    let known = nominal_memory(written_type);
    let type_name = known.map_or(written_type, |(usual, _)| usual).to_owned();
    let memory_bytes = match (memory, known) {
        (Some(text), _) => parse_size(text)
            .ok_or_else(|| DeclaredError::Memory { group: group.to_owned(), found: text.to_owned() })?,
        (None, Some((_, nominal))) => nominal,
        (None, None) => return Err(DeclaredError::UnknownMemory { group: group.to_owned(), type_name }),
    };
    Ok((count, type_name, memory_bytes))
}

/// Splits `4xV100` into 4 and `V100`; a group without a count declares one device.
fn parse_count<'a>(group: &str, device: &'a str) -> Result<(u32, &'a str), DeclaredError> {
    let wrong = |count: &str| DeclaredError::Count { group: group.to_owned(), count: count.to_owned() };
    let after_sign = device.strip_prefix('-').unwrap_or(device);
    let digits = after_sign.len() - after_sign.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, rest) = device.split_at(device.len() - after_sign.len() + digits);
    if count.is_empty() {
        return Ok((1, device));
    }
    let Some(type_name) = rest.trim_start().strip_prefix(['x', 'X']) else {
        return Err(DeclaredError::Type { group: group.to_owned(), found: device.to_owned() });
    };
    match count.parse::<u32>() {
        Ok(n) if (1..=MOST_DEVICES).contains(&n) => Ok((n, type_name.trim())),
        _ => Err(wrong(count)),
    }
}

/// Bytes of `16GiB`, `1.5 TiB`, `16000MB`; `None` for anything else, so that nobody has to guess what `16G` is.
fn parse_size(text: &str) -> Option<u64> {
    let number_ends = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(number_ends);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit)?,
        Err(_) => (number.parse::<f64>().ok()? * unit as f64) as u64,
    };
    (1..=1 << 50).contains(&bytes).then_some(bytes)
}

impl Probe for Declared {
    fn vendor(&self) -> Vendor {
        Vendor::Declared
    }

    fn describe(&self) -> String {
        format!("{} declared GPUs with nothing behind them", self.gpus.len())
    }

    fn gpus(&mut self) -> Result<Vec<Gpu>, ProbeError> {
        Ok(self.gpus.clone())
    }

    fn read(&mut self, uuid: &str) -> Result<Reading, ProbeError> {
        if self.gpus.iter().any(|gpu| gpu.uuid == uuid) {
            Ok(Reading::default())
        } else {
            Err(ProbeError::Lost { uuid: uuid.to_owned(), source: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(text: &str) -> String {
        text.parse::<Declared>().expect_err(text).to_string()
    }

    #[test]
    fn a_refusal_says_what_is_wrong_and_shows_the_right_form() {
        for (text, wrong, right) in [
            ("", "empty", "4xV100:16GiB"),
            ("4xV100:16GiB,,2xK80", "empty", "4xV100:16GiB"),
            ("0xV100:16GiB", "declares 0 devices", "from 1 to 10000"),
            ("-1xV100:16GiB", "declares -1 devices", "4xV100:16GiB"),
            ("99999999999xV100", "declares 99999999999 devices", "from 1 to 10000"),
            ("9000xV100,2000xV100", "declares 11000 devices", "from 1 to 10000 in all"),
            ("4x:16GiB", "no usable GPU type", "4xV100:16GiB"),
            ("4 V100", "no usable GPU type", "4xV100:16GiB"),
            ("4xV 100:16GiB", "no usable GPU type ('V 100')", "4xV100:16GiB"),
            ("2xX9000", "that of X9000 is not known", "2xX9000:16GiB"),
            ("2xV100:16G", "'16G' in '2xV100:16G' is not a memory size", "such as 16GiB"),
            ("2xV100:", "'' in '2xV100:' is not a memory size", "such as 16GiB"),
            ("2xV100:0GiB", "above 0", "such as 16GiB"),
            ("2xV100:1.2.3GiB", "'1.2.3GiB'", "such as 16GiB"),
            ("2xV100:16GiB:16GiB", "'16GiB:16GiB'", "such as 16GiB"),
            ("2xV100:99999999999999999999TiB", "not a memory size", "such as 16GiB"),
        ] {
            let said = refused(text);
            assert!(said.contains(wrong) && said.contains(right), "{text:?}: {said}");
        }
    }

    #[test]
    fn a_lower_case_type_is_the_same_type() {
        assert_eq!("2xrtx4090".parse::<Declared>(), "2xRTX4090:24GiB".parse());
        assert_eq!("v100".parse::<Declared>(), "1xV100:16GiB".parse());
    }

    #[test]
    fn sizes_may_have_fractions_and_spaces() {
        let gpus = "1xA100:1.5 GiB , 1xA100:500MB".parse::<Declared>().unwrap().gpus;
        assert_eq!(gpus.iter().map(|g| g.memory_bytes).collect::<Vec<_>>(), [3 << 29, 500_000_000]);
    }

    proptest! {
        #[test]
        fn what_is_declared_is_there(
            groups in prop::collection::vec((1u32..20, "[A-Z][A-Z0-9]{0,6}", 1u64..100_000), 1..6)
        ) {
            let text: Vec<_> = groups.iter().map(|(n, t, mib)| format!("{n}x{t}:{mib}MiB")).collect();
            let mut declared: Declared = text.join(",").parse().unwrap();
            let gpus = declared.gpus().unwrap();
            let wanted: Vec<_> = groups
                .iter()
                .flat_map(|(n, t, mib)| std::iter::repeat_n((t.to_ascii_uppercase(), mib << 20), *n as usize))
                .collect();
            let got: Vec<_> = gpus.iter().map(|g| (g.type_name.to_ascii_uppercase(), g.memory_bytes)).collect();
            prop_assert_eq!(got, wanted);
            for (n, gpu) in gpus.iter().enumerate() {
                prop_assert_eq!(gpu.index as usize, n);
                prop_assert_eq!(&gpu.uuid, &format!("fake-{n}-{}", gpu.type_name));
                prop_assert_eq!(declared.read(&gpu.uuid).unwrap().used_bytes, 0);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in r"[0-9xX:,.GMTiBbV \-é]{0,24}|.{0,24}") {
            if let Ok(declared) = text.parse::<Declared>() {
                prop_assert!(!declared.gpus.is_empty());
                prop_assert!(declared.gpus.iter().all(|g| g.memory_bytes > 0 && !g.type_name.is_empty()));
            }
        }
    }
}
