//! GPUs with a driver: a fake NVML whose world the test changes while the server has it loaded.

use crate::support::{Server, eventually, wait_at};
use serde_json::{Value, json};

#[path = "../../../worker/tests/fake-nvml/mod.rs"]
mod fake_nvml;
pub(crate) use fake_nvml::FakeNvml;

const SIZE: u64 = 16 << 30;

/// A world of GPUs `GPU-0`, `GPU-1` and so on, with more lines for each.
pub(crate) fn world(gpus: &[&str]) -> String {
    let gpu = |(at, more): (usize, &&str)| {
        format!(
            "gpu GPU-{at}\nname Tesla V100-SXM2-16GB\npci 00000000:{at:02}:00.0\nmemory {SIZE}\nutilisation 0\ntemperature 40\n{more}\n"
        )
    };
    format!("driver 550.54.15\n{}", gpus.iter().enumerate().map(gpu).collect::<String>())
}

pub(crate) const FREE: &str = "used 0";
/// A process that is not ours and computes.
pub(crate) const FOREIGN: &str = "used 3000000000\ncompute 4194303 3000000000";

pub(crate) fn up(fake: &FakeNvml) -> Server {
    let mut server = Server::down(&["--config", "warpyard.toml"]);
    server.write("warpyard.toml", &format!("nvml_library = \"{}\"\n", fake.library().display()));
    server.start();
    server
}

pub(crate) fn gpu(server: &Server, at: usize) -> Value {
    server.json(&["gpus"])[at].clone()
}

#[test]
fn nothing_starts_on_a_gpu_someone_else_uses_until_it_is_free() {
    let fake = FakeNvml::new(&world(&[FREE]));
    let server = up(&fake);
    assert_eq!(gpu(&server, 0)["uuid"], "GPU-0");
    // Before the server looks around again by itself: what counts is the look just before the start.
    fake.set(&world(&[FOREIGN]));
    let job = server.script(&["--gpus", "1"], "echo ran >> ran; echo $CUDA_VISIBLE_DEVICES");
    eventually("it is seen", || gpu(&server, 0)["unavailable"] == "in use by someone else");
    assert_eq!((server.state(&job).as_str(), server.read("ran").as_str()), ("ready", ""));
    assert_eq!(gpu(&server, 0)["foreign_bytes"], 3_000_000_000u64);
    let table = server.said(&["gpus"]);
    assert!(table.contains("not ours: pid 4194303 2.8G") && table.contains("V100"), "{table}");
    fake.set(&world(&[FREE]));
    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!((server.read("ran").as_str(), server.said(&["logs", &job]).as_str()), ("ran\n", "GPU-0\n"));
    assert_eq!(gpu(&server, 0)["unavailable"], Value::Null);
}

#[test]
fn memory_and_utilisation_that_are_nobodys_count_too_as_far_as_set() {
    let fake = FakeNvml::new(&world(&["used 60000000", FREE]));
    let server = up(&fake);
    eventually("60 MB of someone's are seen", || gpu(&server, 0)["unavailable"] != Value::Null);
    let job = server.script(&["--gpus", "1"], "echo $CUDA_VISIBLE_DEVICES");
    assert_eq!(server.outcome(&job), "succeeded");
    assert_eq!(server.said(&["logs", &job]), "GPU-1\n");
    drop(server);

    let mut desktop = Server::down(&["--config", "warpyard.toml"]);
    let config = format!("nvml_library = \"{}\"\nbusy_memory = \"100MB\"\n", fake.library().display());
    desktop.write("warpyard.toml", &config);
    desktop.start();
    let job = desktop.script(&["--gpus", "2"], "echo $CUDA_VISIBLE_DEVICES");
    assert_eq!(desktop.outcome(&job), "succeeded");
    assert_eq!(desktop.said(&["logs", &job]), "GPU-0,GPU-1\n");
}

#[test]
fn what_our_own_tasks_use_is_not_foreign_and_is_measured() {
    let fake = FakeNvml::new(&world(&[FREE]));
    let server = up(&fake);
    let gate = server.path("gate");
    let sharing = ["--gpus", "1", "--gpu-memory", "4GiB"];
    let job = server.script(&sharing, &format!("echo $$; echo started; {}", wait_at(&gate)));
    server.printed(&job, "started");
    let pid = server.said(&["logs", &job]).lines().next().unwrap().to_owned();
    fake.set(&world(&[&format!("used 3000000000\ncompute {pid} 3000000000\nutilisation 90")]));
    eventually("its utilisation is read", || gpu(&server, 0)["utilisation_percent"] == 90);
    let now = gpu(&server, 0);
    assert_eq!((&now["unavailable"], &now["foreign_bytes"]), (&Value::Null, &json!(0)), "{now}");
    let beside = server.submit(&[&sharing[..], &["--", "true"]].concat());
    assert_eq!(server.outcome(&beside), "succeeded", "another may share the device");
    server.open("gate");
    assert_eq!(server.outcome(&job), "succeeded");
    let shown = server.json(&["show", &job]);
    assert_eq!(shown["tasks"][0]["attempts"][0]["peak_gpu_memory_bytes"], 3_000_000_000u64, "{shown}");
}

#[test]
fn a_gpu_that_falls_off_is_not_used() {
    let fake = FakeNvml::new(&world(&[FREE, FREE]));
    let server = up(&fake);
    let gate = server.path("gate");
    fake.set(&world(&["lost", FREE]));
    eventually("it is seen", || gpu(&server, 0)["unavailable"] == "the driver no longer knows it");
    assert!(server.said(&["gpus"]).contains("the driver no longer knows it"));
    let first = server.script(&["--gpus", "1"], &format!("echo $CUDA_VISIBLE_DEVICES; {}", wait_at(&gate)));
    let second = server.script(&["--gpus", "1"], "echo $CUDA_VISIBLE_DEVICES");
    server.printed(&first, "GPU-1");
    assert_eq!(server.state(&second), "ready", "there is one GPU left");
    fake.set(&world(&[FREE, FREE]));
    assert_eq!(server.outcome(&second), "succeeded");
    assert_eq!(server.said(&["logs", &second]), "GPU-0\n", "it came back");
    server.open("gate");
}

#[test]
fn a_gpu_that_is_held_and_not_used_is_pointed_out_and_taken_back_if_that_is_configured() {
    let fake = FakeNvml::new(&world(&[FREE, FREE]));
    let mut server = Server::down(&["--config", "warpyard.toml"]);
    let config =
        |more: &str| format!("nvml_library = \"{}\"\nidle_after = \"1s\"\n{more}", fake.library().display());
    server.write("warpyard.toml", &config(""));
    server.start();
    let job = server.script(&["--gpus", "1", "--gpu-scope", "0"], "echo $$; sleep 600");
    eventually("it never used it", || {
        gpu(&server, 0)["tasks"][0]["note"].as_str().is_some_and(|note| note.starts_with("never used, for"))
    });
    let doctor = server.ask(&["doctor"]).out;
    let remedy = format!("cancel it: `warpyard cancel {job}`");
    assert!(doctor.contains("never used, for") && doctor.contains(&remedy), "{doctor}");
    let pid = server.said(&["logs", &job]).trim().to_owned();
    let busy = format!("used 3000000000\nutilisation 50\ncompute {pid} 3000000000");
    fake.set(&world(&[&busy, FREE]));
    eventually("it does", || gpu(&server, 0)["tasks"][0]["note"] == Value::Null);
    // On one that it was not given it is flagged, and its own is idle again.
    fake.set(&world(&[FREE, &busy]));
    eventually("it is elsewhere", || {
        gpu(&server, 1)["unavailable"].as_str().is_some_and(|why| why.contains("which was not given it"))
    });
    eventually("its own is idle", || {
        server.json(&["show", &job])["why"].as_str().is_some_and(|why| why.starts_with("its GPU is idle for"))
    });
    assert!(server.said(&["gpus"]).contains("[idle for"), "{}", server.said(&["gpus"]));

    server.end_by(nix::sys::signal::Signal::SIGTERM);
    fake.set(&world(&[FREE, FREE]));
    server.write("warpyard.toml", &config("idle_release = \"3s\"\n"));
    server.start();
    assert_eq!(server.outcome(&job), "cancelled");
    // Whoever had it is told why, for nobody cancelled it.
    let shown = server.said(&["show", &job]);
    assert!(shown.contains("ended by the server: its GPUs did nothing for"), "{shown}");
}
