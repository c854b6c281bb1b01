//! The NVML probe against a library of our own making, whose world changes while it is loaded.

#[path = "fake-nvml/mod.rs"]
mod fake_nvml;

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use fake_nvml::FakeNvml;
use warpyard_worker::probe::{
    BusyReason, Choice, GpuProcess, Nvidia, OwnPids, OwnUse, Probe, ProbeError, ProbePaths, ProcessKind,
    Thresholds, Vendor, bytes_of, find, foreign,
};

const TWO: &str = "
driver 550.54.15
gpu GPU-aaaa
name Tesla V100-SXM2-16GB
pci 00000000:3B:00.0
memory 17179869184
reserved 268435456
used 4000000
utilisation 0
temperature 34
power 41700
gpu GPU-bbbb
name NVIDIA A100-SXM4-40GB
pci 00000000:AF:00.0
memory 42949672960
used 3120000000
utilisation 63
temperature 61
power 243499
compute 4242 3100000000
";

fn open(fake: &FakeNvml) -> Nvidia {
    Nvidia::open(Some(&fake.library())).expect("the fake NVML starts")
}

#[test]
fn every_gpu_is_found_with_what_the_driver_says_of_it() {
    let fake = FakeNvml::new(TWO);
    let mut nvidia = open(&fake);
    let gpus = nvidia.gpus().unwrap();
    let seen: Vec<_> = gpus
        .iter()
        .map(|g| (g.uuid.as_str(), g.index, g.type_name.as_str(), g.memory_bytes >> 30, g.pci.as_deref()))
        .collect();
    assert_eq!(
        seen,
        [
            ("GPU-aaaa", 0, "V100", 16, Some("0000:3b:00.0")),
            ("GPU-bbbb", 1, "A100", 40, Some("0000:af:00.0"))
        ]
    );
    assert_eq!(gpus[0].name, "Tesla V100-SXM2-16GB");
    assert_eq!(nvidia.vendor(), Vendor::Nvidia);
    assert!(nvidia.describe().ends_with("libnvidia-ml.so, driver 550.54.15"), "{}", nvidia.describe());

    let reading = nvidia.read("GPU-bbbb").unwrap();
    assert_eq!((reading.used_bytes, reading.utilisation_percent), (3_120_000_000, Some(63)));
    assert_eq!((reading.temperature_c, reading.power_w), (Some(61), Some(243)));
    let process = GpuProcess { pid: 4242, bytes: Some(3_100_000_000), kind: ProcessKind::Compute };
    assert_eq!(reading.processes, [process]);
}

#[test]
fn memory_the_driver_keeps_does_not_make_an_idle_gpu_busy() {
    let fake = FakeNvml::new(TWO);
    let reading = open(&fake).read("GPU-aaaa").unwrap();
    assert_eq!(reading.used_bytes, 4_000_000);
    assert_eq!(foreign(&reading, &OwnUse::none(), &Thresholds::default()), None);
}

#[test]
fn a_foreign_process_comes_and_goes_while_the_library_is_loaded() {
    let fake = FakeNvml::new(TWO);
    let mut nvidia = open(&fake);
    let mut judge = |ours: &OwnUse| {
        let reading = nvidia.read("GPU-aaaa").unwrap();
        foreign(&reading, ours, &Thresholds::default()).map(|found| (found.because, found.bytes))
    };
    assert_eq!(judge(&OwnUse::none()), None);

    let both = "gpu GPU-aaaa\nmemory 17179869184\nused 9005000000\nutilisation 97\n\
                compute 700 8000000000\ncompute 31337 1000000000\n";
    fake.set(both);
    let ours = OwnUse { tasks: 1, pids: OwnPids::Known(BTreeSet::from([700])), bytes: 0 };
    assert_eq!(judge(&ours), Some((BusyReason::Process { pid: 31337 }, 1_005_000_000)));

    fake.set(&both.replace("compute 31337 1000000000\n", "").replace("9005000000", "8005000000"));
    assert_eq!(judge(&ours), None);
    let found = judge(&OwnUse::none());
    assert_eq!(found, Some((BusyReason::Process { pid: 700 }, 8_005_000_000)));
}

#[test]
fn a_process_in_both_lists_is_one_process() {
    let fake = FakeNvml::new(
        "gpu GPU-a\nmemory 1000000000\nused 90000000\n\
         compute 5 30000000\ncompute 9 10000000\ncompute 9 5000000\ncompute 6 -\n\
         graphics 5 30000000\ngraphics 1 20000000\n",
    );
    let reading = open(&fake).read("GPU-a").unwrap();
    let seen: Vec<_> = reading.processes.iter().map(|p| (p.pid, p.bytes, p.kind)).collect();
    use ProcessKind::{Both, Compute, Graphics};
    assert_eq!(
        seen,
        [
            (1, Some(20_000_000), Graphics),
            (5, Some(30_000_000), Both),
            (6, None, Compute),
            (9, Some(15_000_000), Compute),
        ]
    );
    assert_eq!(bytes_of(&reading, &BTreeSet::from([5, 9, 77])), Some(45_000_000));
    assert_eq!(bytes_of(&reading, &BTreeSet::from([5, 6])), None);
    assert_eq!((reading.utilisation_percent, reading.temperature_c, reading.power_w), (None, None, None));
}

#[test]
fn a_gpu_that_falls_off_is_lost_and_the_others_go_on() {
    let fake = FakeNvml::new(TWO);
    let mut nvidia = open(&fake);
    nvidia.read("GPU-aaaa").unwrap();

    fake.set(&TWO.replace("gpu GPU-aaaa", "gpu GPU-aaaa\nlost"));
    let error = nvidia.read("GPU-aaaa").unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    assert_eq!(error.to_string(), "GPU GPU-aaaa is lost");
    assert!(error.source().unwrap().to_string().contains("fell off the bus"));
    let left: Vec<_> = nvidia.gpus().unwrap().into_iter().map(|gpu| gpu.uuid).collect();
    assert_eq!(left, ["GPU-bbbb"]);
    nvidia.read("GPU-bbbb").unwrap();

    fake.set(TWO);
    nvidia.read("GPU-aaaa").expect("a GPU that came back can be read again");
}

#[test]
fn a_gpu_nobody_lists_any_more_is_lost_too() {
    let fake = FakeNvml::new(TWO);
    let mut nvidia = open(&fake);
    fake.set(TWO.split("gpu GPU-bbbb").next().unwrap());
    assert!(nvidia.read("GPU-bbbb").unwrap_err().is_lost());
}

#[test]
fn another_failure_is_not_a_loss() {
    let fake = FakeNvml::new(TWO);
    let mut nvidia = open(&fake);
    fake.set(&TWO.replace("gpu GPU-aaaa", "gpu GPU-aaaa\nerror 999"));
    let error = nvidia.read("GPU-aaaa").unwrap_err();
    assert_eq!(error.to_string(), "nvmlDeviceGetMemoryInfo_v2 failed for GPU GPU-aaaa");
    assert!(!error.is_lost());
    assert!(nvidia.gpus().is_err());
}

#[test]
fn without_a_library_or_a_driver_it_fails_cleanly() {
    let missing = Nvidia::open(Some(Path::new("/nonexistent/libnvidia-ml.so"))).unwrap_err();
    assert_eq!(missing.to_string(), "cannot start NVML from /nonexistent/libnvidia-ml.so");

    let fake = FakeNvml::new("init 18");
    let mismatch = Nvidia::open(Some(&fake.library())).unwrap_err();
    assert!(mismatch.source().unwrap().to_string().contains("version mismatch"));

    std::fs::remove_file(fake.world()).unwrap();
    let no_driver = Nvidia::open(Some(&fake.library())).unwrap_err();
    assert_eq!(no_driver.source().unwrap().to_string(), "NVIDIA driver is not loaded");
}

#[test]
fn a_driver_from_before_510_is_named_as_too_old() {
    let fake =
        FakeNvml::built_with(&["-DOLD_DRIVER", "-Wno-unused-function"], &TWO.replace("550.54.15", "470.82"));
    let error = open(&fake).gpus().unwrap_err();
    assert!(matches!(error, ProbeError::DriverTooOld { .. }), "{error:?}");
    assert!(error.to_string().starts_with("NVIDIA driver 470.82 is too old"), "{error}");
}

fn places(library: Option<PathBuf>, root: &Path) -> ProbePaths {
    ProbePaths { nvml_library: library, root: root.to_owned() }
}

#[test]
fn auto_takes_nvidia_where_it_has_gpus() {
    let fake = FakeNvml::new(TWO);
    let empty = tempfile::tempdir().unwrap();
    let mut found = find(&Choice::Auto, &places(Some(fake.library()), empty.path())).unwrap();
    assert_eq!((found.vendor(), found.gpus().unwrap().len()), (Vendor::Nvidia, 2));
}

#[test]
fn auto_without_any_gpu_says_what_it_looked_for() {
    let fake = FakeNvml::new("driver 550.54.15");
    let empty = tempfile::tempdir().unwrap();
    let mut found = find(&Choice::Auto, &places(Some(fake.library()), empty.path())).unwrap();
    assert_eq!(found.vendor(), Vendor::None);
    assert_eq!(found.gpus().unwrap(), []);
    let said = found.describe();
    for part in ["no GPU found", "libnvidia-ml.so, driver 550.54.15: none there", "sys/class/drm: none there"]
    {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_library_that_was_named_and_cannot_be_used_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let library = empty.path().join("libnvidia-ml.so");
    assert!(find(&Choice::Auto, &places(Some(library), empty.path())).is_err());
}

#[test]
fn none_and_fake_need_no_machine() {
    let nowhere = places(Some(PathBuf::from("/nonexistent")), Path::new("/nonexistent"));
    let mut none = find(&"none".parse().unwrap(), &nowhere).unwrap();
    assert_eq!((none.vendor(), none.gpus().unwrap().len()), (Vendor::None, 0));
    let mut fake = find(&"fake:4xV100:16GiB,2xK80:12GiB".parse().unwrap(), &nowhere).unwrap();
    assert_eq!((fake.vendor(), fake.gpus().unwrap().len()), (Vendor::Declared, 6));
    assert!(fake.read("fake-6-K80").unwrap_err().is_lost());
    let refused = "nvidia".parse::<Choice>().unwrap_err().to_string();
    assert_eq!(
        refused,
        "'nvidia' is not a choice of GPUs; write auto, none, or fake:4xV100:16GiB,2xK80:12GiB"
    );
}

#[test]
#[ignore = "run by the next test in a process of its own, where the environment names the world"]
fn reads_the_world_the_environment_names() {
    let library = std::env::var_os("PROBE_TEST_LIBRARY").expect("the library's path");
    let mut nvidia = Nvidia::open(Some(Path::new(&library))).unwrap();
    println!("uuid {}", nvidia.gpus().unwrap()[0].uuid);
}

#[test]
fn a_whole_program_can_be_run_on_the_fake() {
    let elsewhere = tempfile::tempdir().unwrap();
    let library = elsewhere.path().join("libnvidia-ml.so.1");
    fake_nvml::build(&library, &[]);
    let world = elsewhere.path().join("world.txt");
    std::fs::write(&world, "gpu GPU-from-the-environment\nname Tesla T4\nmemory 1\n").unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "reads_the_world_the_environment_names", "--nocapture", "--ignored"])
        .env("PROBE_TEST_LIBRARY", &library)
        .env("WARPYARD_FAKE_NVML", &world)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(said.contains("uuid GPU-from-the-environment"), "{said}");
}
