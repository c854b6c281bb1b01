//! The AMD probe on a made-up sysfs.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use warpyard_worker::probe::{
    Amd, BusyReason, Choice, GpuProcess, OwnUse, Probe, ProbePaths, ProcessKind, Thresholds, Vendor, find,
    foreign, visible_env,
};

/// A tree with the files the kernel would have.
struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn card(&self, n: u32, pci: &str, files: &[(&str, &str)]) {
        self.write(
            &format!("sys/class/drm/card{n}/device/uevent"),
            &format!("DRIVER=amdgpu\nPCI_SLOT_NAME={pci}"),
        );
        for (file, text) in files {
            self.write(&format!("sys/class/drm/card{n}/device/{file}"), text);
        }
    }

    fn card_directory(&self, n: u32) -> PathBuf {
        self.path().join(format!("sys/class/drm/card{n}"))
    }

    fn node(&self, n: u32, gpu_id: u32, chip: &str, location: u32) {
        let node = format!("sys/class/kfd/kfd/topology/nodes/{n}");
        self.write(&format!("{node}/gpu_id"), &gpu_id.to_string());
        self.write(&format!("{node}/name"), chip);
        self.write(
            &format!("{node}/properties"),
            &format!("simd_count 440\nlocation_id {location}\ndomain 0"),
        );
    }
}

/// Two server GPUs, whose cards are numbered against ROCm's order, one desktop GPU ROCm does not know, a connector,
/// and another vendor's card.
fn machine() -> Tree {
    let tree = Tree::new();
    tree.card(
        1,
        "0000:c1:00.0",
        &[
            ("vendor", "0x1002"),
            ("unique_id", "18f68e602b8a790f"),
            ("product_name", "AMD Instinct MI210"),
            ("mem_info_vram_total", "68702699520"),
            ("mem_info_vram_used", "10000000"),
            ("gpu_busy_percent", "0"),
            ("hwmon/hwmon4/temp1_input", "41000"),
            ("hwmon/hwmon4/power1_average", "42000000"),
        ],
    );
    tree.card(
        2,
        "0000:83:00.0",
        &[
            ("vendor", "0x1002"),
            ("unique_id", "0000000000c0ffee"),
            ("product_name", "AMD Instinct MI100"),
            ("mem_info_vram_total", "34342961152"),
            ("mem_info_vram_used", "5010000000"),
            ("gpu_busy_percent", "88"),
            ("hwmon/hwmon5/power1_input", "250600000"),
        ],
    );
    tree.card(
        3,
        "0000:0a:00.0",
        &[
            ("vendor", "0x1002"),
            ("device", "0x744c"),
            ("revision", "0xc8"),
            ("mem_info_vram_total", "25753026560"),
            ("mem_info_vram_used", "900000000"),
        ],
    );
    tree.card(0, "0000:04:00.0", &[("vendor", "0x1a03"), ("mem_info_vram_total", "1")]);
    tree.write("sys/class/drm/card1-DP-1/device/vendor", "0x1002");
    tree.write("sys/class/drm/card1-DP-1/device/mem_info_vram_total", "1");
    tree.write(
        "usr/share/libdrm/amdgpu.ids",
        "# ids\n1.0.0\n744C,\tC9,\tanother\n744C,\tC8,\tAMD Radeon RX 7900 XTX",
    );
    tree.node(0, 0, "", 0);
    tree.node(1, 51_234, "arcturus", 0x8300);
    tree.node(2, 60_001, "aldebaran", 0xc100);
    tree
}

#[test]
fn cards_are_found_in_the_order_rocm_counts() {
    let tree = machine();
    let mut amd = Amd::at(tree.path());
    let gpus = amd.gpus().unwrap();
    let seen: Vec<_> = gpus.iter().map(|g| (g.index, g.uuid.as_str(), g.type_name.as_str())).collect();
    assert_eq!(
        seen,
        [
            (0, "GPU-0000000000c0ffee", "MI100"),
            (1, "GPU-18f68e602b8a790f", "MI210"),
            (2, "amd-0000:0a:00.0", "RX7900XTX"),
        ]
    );
    assert_eq!((gpus[1].memory_bytes, gpus[1].pci.as_deref()), (68_702_699_520, Some("0000:c1:00.0")));
    let env = visible_env(&[&gpus[0], &gpus[2]], amd.vendor());
    assert_eq!(env, [("ROCR_VISIBLE_DEVICES".to_owned(), "GPU-0000000000c0ffee,2".to_owned())]);
}

#[test]
fn an_index_stays_rocms_when_a_card_before_it_vanishes() {
    let tree = machine();
    fs::remove_dir_all(tree.card_directory(2)).unwrap();
    let indices: Vec<_> = Amd::at(tree.path()).gpus().unwrap().iter().map(|gpu| gpu.index).collect();
    assert_eq!(indices, [1, 2]);
}

#[test]
fn a_reading_has_what_the_files_say_and_no_more() {
    let tree = machine();
    let mut amd = Amd::at(tree.path());
    let mi210 = amd.read("GPU-18f68e602b8a790f").unwrap();
    assert_eq!((mi210.used_bytes, mi210.utilisation_percent), (10_000_000, Some(0)));
    assert_eq!((mi210.temperature_c, mi210.power_w), (Some(41), Some(42)));
    let mi100 = amd.read("GPU-0000000000c0ffee").unwrap();
    assert_eq!((mi100.temperature_c, mi100.power_w), (None, Some(250)));
    let desktop = amd.read("amd-0000:0a:00.0").unwrap();
    assert_eq!((desktop.used_bytes, desktop.utilisation_percent, desktop.power_w), (900_000_000, None, None));
}

#[test]
fn a_process_is_on_the_gpus_it_holds_memory_or_queues_of() {
    let tree = machine();
    for (file, text) in [
        // Every process that opened the driver has a file for every GPU.
        ("4242/vram_51234", "5000000000"),
        ("4242/vram_60001", "0"),
        ("4300/vram_51234", "0"),
        ("4300/vram_60001", "0"),
        ("4300/queues/2/gpuid", "60001"),
    ] {
        tree.write(&format!("sys/class/kfd/kfd/proc/{file}"), text);
    }
    let mut amd = Amd::at(tree.path());
    let on = |pid, bytes| GpuProcess { pid, bytes: Some(bytes), kind: ProcessKind::Compute };
    let mi100 = amd.read("GPU-0000000000c0ffee").unwrap();
    assert_eq!(mi100.processes, [on(4242, 5_000_000_000)]);
    assert_eq!(amd.read("GPU-18f68e602b8a790f").unwrap().processes, [on(4300, 0)]);

    let busy = foreign(&mi100, &OwnUse::none(), &Thresholds::default()).unwrap();
    assert_eq!((busy.because, busy.bytes), (BusyReason::Process { pid: 4242 }, 5_010_000_000));
}

#[test]
fn a_card_that_vanishes_is_lost() {
    let tree = machine();
    let mut amd = Amd::at(tree.path());
    fs::remove_file(tree.card_directory(2).join("device/mem_info_vram_used")).unwrap();
    assert!(amd.read("GPU-0000000000c0ffee").unwrap_err().is_lost(), "its files go first");
    fs::remove_dir_all(tree.card_directory(2)).unwrap();
    assert!(amd.read("GPU-0000000000c0ffee").unwrap_err().is_lost());
    amd.read("GPU-18f68e602b8a790f").expect("the others go on");
    assert_eq!(amd.gpus().unwrap().len(), 2);
}

#[test]
fn nonsense_in_a_file_is_shown_and_is_not_a_loss() {
    let tree = machine();
    tree.write("sys/class/drm/card1/device/mem_info_vram_used", "much");
    let error = Amd::at(tree.path()).read("GPU-18f68e602b8a790f").unwrap_err();
    assert!(
        error.to_string().ends_with("mem_info_vram_used should hold a number but holds \"much\""),
        "{error}"
    );
    assert!(!error.is_lost());
}

#[test]
fn a_card_without_a_name_anywhere_still_has_a_type() {
    let tree = Tree::new();
    let files = [("vendor", "0x1002"), ("device", "0x7590"), ("mem_info_vram_total", "17095983104")];
    tree.card(0, "0000:03:00.0", &files);
    let gpus = Amd::at(tree.path()).gpus().unwrap();
    assert_eq!((gpus[0].name.as_str(), gpus[0].type_name.as_str()), ("AMD GPU 0x7590", "0x7590"));
}

#[test]
fn auto_finds_amd_where_there_is_no_nvidia() {
    let tree = machine();
    let places = ProbePaths { nvml_library: None, root: tree.path().to_owned() };
    let mut found = find(&Choice::Auto, &places).unwrap();
    if found.vendor() == Vendor::Nvidia {
        eprintln!("skipped: this machine has NVIDIA GPUs, which come first");
        return;
    }
    assert_eq!((found.vendor(), found.gpus().unwrap().len()), (Vendor::Amd, 3));
}
