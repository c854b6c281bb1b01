//! AMD's GPUs through sysfs: no library is needed, the kernel's driver says it all in small files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::kfd::{self, KfdGpu};
use super::nodes::drm_nodes;
use super::{Gpu, Probe, ProbeError, Reading, Vendor, type_name};

const VENDOR_AMD: &str = "0x1002";

/// The AMD GPUs below a root directory, which is `/` outside tests.
#[derive(Debug)]
pub struct Amd {
    root: PathBuf,
}

/// A card's directory with what identifies it.
struct Card {
    device: PathBuf,
    uuid: String,
    pci: String,
    kfd: Option<(usize, KfdGpu)>,
}

impl Amd {
    /// Looks below `root`; [`Probe::gpus`] says whether there is anything.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn sys(&self) -> PathBuf {
        self.root.join("sys")
    }

    /// The cards amdgpu drives, in ROCm's order, those ROCm does not know last.
    fn cards(&self) -> Vec<Card> {
        let known = kfd::gpus(&self.sys());
        let entries = fs::read_dir(self.sys().join("class/drm")).into_iter().flatten().flatten();
        let mut cards: Vec<Card> = entries
            .filter(|entry| entry.file_name().to_str().is_some_and(is_card))
            .map(|entry| entry.path().join("device"))
            .filter(|device| text(&device.join("vendor")).is_some_and(|vendor| vendor == VENDOR_AMD))
            .filter(|device| device.join("mem_info_vram_total").exists())
            .filter_map(|device| card(device, &known))
            .collect();
        cards.sort_by_key(|card| {
            (card.kfd.as_ref().map_or(usize::MAX, |(place, _)| *place), card.pci.clone())
        });
        cards
    }

    fn product(&self, card: &Card) -> String {
        text(&card.device.join("product_name"))
            .filter(|name| !name.is_empty())
            .or_else(|| self.name_from_ids(card))
            .or_else(|| {
                card.kfd.as_ref().and_then(|(_, gpu)| gpu.chip.clone()).filter(|chip| chip != "ip discovery")
            })
            .unwrap_or_else(|| format!("AMD GPU {}", text(&card.device.join("device")).unwrap_or_default()))
    }

    /// Only server cards carry their product name; that of the others is in libdrm's list, by device and revision.
    fn name_from_ids(&self, card: &Card) -> Option<String> {
        let ids = fs::read_to_string(self.root.join("usr/share/libdrm/amdgpu.ids")).ok()?;
        let hex = |file: &str| {
            u32::from_str_radix(text(&card.device.join(file))?.trim_start_matches("0x"), 16).ok()
        };
        let wanted = (hex("device")?, hex("revision")?);
        ids.lines().find_map(|line| {
            let mut fields = line.splitn(3, ',').map(str::trim);
            let mut number = || u32::from_str_radix(fields.next()?, 16).ok();
            ((number()?, number()?) == wanted).then(|| fields.next().map(str::to_owned))?
        })
    }
}

impl Probe for Amd {
    fn vendor(&self) -> Vendor {
        Vendor::Amd
    }

    fn describe(&self) -> String {
        format!("AMD GPUs under {}", self.sys().join("class/drm").display())
    }

    fn gpus(&mut self) -> Result<Vec<Gpu>, ProbeError> {
        let mut gpus = Vec::new();
        let mut after_those_rocm_knows = kfd::gpus(&self.sys()).len()..;
        for card in self.cards() {
            let place = card.kfd.as_ref().map(|(place, _)| *place);
            let memory_bytes = match number(&card.device.join("mem_info_vram_total")) {
                Ok(bytes) => bytes,
                Err(ProbeError::Sysfs { source, .. }) if is_gone(&source) => continue,
                Err(error) => return Err(error),
            };
            let name = self.product(&card);
            gpus.push(Gpu {
                uuid: card.uuid,
                index: place.or_else(|| after_those_rocm_knows.next()).unwrap_or_default() as u32,
                type_name: type_name(&name),
                name,
                memory_bytes,
                pci: Some(card.pci),
                nodes: drm_nodes(&card.device),
            });
        }
        Ok(gpus)
    }

    fn read(&mut self, uuid: &str) -> Result<Reading, ProbeError> {
        let lost = |source: Option<io::Error>| ProbeError::Lost {
            uuid: uuid.to_owned(),
            source: source.map(|error| Box::new(error) as _),
        };
        let card = self.cards().into_iter().find(|card| card.uuid == uuid).ok_or_else(|| lost(None))?;
        let used_bytes = number(&card.device.join("mem_info_vram_used")).map_err(|error| match error {
            ProbeError::Sysfs { source, .. } if is_gone(&source) => lost(Some(source)),
            other => other,
        })?;
        let sensor = |names: &[&str]| names.iter().find_map(|name| sensor(&card.device, name));
        Ok(Reading {
            used_bytes,
            utilisation_percent: number(&card.device.join("gpu_busy_percent"))
                .ok()
                .map(|busy| busy.min(100) as u32),
            temperature_c: sensor(&["temp1_input"]).map(|millidegrees| (millidegrees / 1000) as i32),
            power_w: sensor(&["power1_average", "power1_input"])
                .map(|microwatts| (microwatts / 1_000_000) as u32),
            processes: card.kfd.map(|(_, gpu)| kfd::processes(&self.sys(), gpu.id)).unwrap_or_default(),
        })
    }
}

/// `card0`, but not its connectors such as `card0-HDMI-A-1`.
fn is_card(name: &str) -> bool {
    name.strip_prefix("card").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn card(device: PathBuf, known: &[KfdGpu]) -> Option<Card> {
    let slot = text(&device.join("uevent")).and_then(|uevent| {
        uevent.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME=").map(str::to_owned))
    });
    let pci = slot.or_else(|| Some(fs::canonicalize(&device).ok()?.file_name()?.to_str()?.to_owned()))?;
    let uuid = match text(&device.join("unique_id")).and_then(|id| u64::from_str_radix(&id, 16).ok()) {
        Some(id) if id != 0 => format!("GPU-{id:016x}"),
        _ => format!("amd-{pci}"),
    };
    let kfd = known.iter().cloned().enumerate().find(|(_, gpu)| gpu.pci == pci);
    Some(Card { device, uuid, pci, kfd })
}

/// A value of the card's hardware monitor.
fn sensor(device: &Path, name: &str) -> Option<i64> {
    let monitors = fs::read_dir(device.join("hwmon")).ok()?.flatten();
    monitors.into_iter().find_map(|monitor| text(&monitor.path().join(name))?.parse().ok())
}

/// Whether an error reading a card's file says that the card is not there any more.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO))
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn number(path: &Path) -> Result<u64, ProbeError> {
    let text =
        fs::read_to_string(path).map_err(|source| ProbeError::Sysfs { path: path.to_owned(), source })?;
    text.trim()
        .parse()
        .map_err(|_| ProbeError::NotANumber { path: path.to_owned(), found: text.trim().to_owned() })
}
