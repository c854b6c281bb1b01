//! Jobs that name a model: the memory request is estimated from its file by whoever submits.

use crate::devices::{FREE, FakeNvml, gpu, up, world};
use crate::support::{Server, eventually, wait_at};
use serde_json::json;

const MIB: u64 = 1 << 20;

/// A safetensors file of one matrix of 256 MiB whose weights are a hole.
fn write_model(server: &Server, name: &str) {
    let header = r#"{"w": {"dtype": "F32", "shape": [8192, 8192], "data_offsets": [0, 268435456]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    let path = server.path(name);
    std::fs::write(&path, &bytes).expect("a model");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("the model");
    file.set_len(bytes.len() as u64 + 256 * MIB).expect("a hole for weights");
}

#[test]
fn the_estimate_of_a_model_is_its_memory_request_unless_one_is_given() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB"]);
    write_model(&server, "w.safetensors");
    let job = server.submit(&["--gpus", "1", "--model", "w.safetensors", "--", "true"]);
    let shown = server.json(&["show", &job]);
    let needs = &shown["tasks"][0]["needs"];
    let bound = needs["gpu_memory_bytes"].as_u64().expect("a memory request");
    // Weights with the margin of 15 %, and the context.
    assert_eq!(bound, (256.0 * 1.15 * MIB as f64).ceil() as u64 + 512 * MIB, "{needs}");
    assert_eq!(needs["estimate"]["peak_bytes"], 256 * MIB);
    assert_eq!(needs["estimate"]["request"], "bound");
    assert_eq!(shown["runs"][0]["model"], "w.safetensors, inference");
    for command in ["show", "why"] {
        let said = server.said(&[command, &job]);
        assert!(said.contains("estimated from the model's file"), "{said}");
    }

    let explicit = ["--gpus", "1", "--gpu-memory", "2GiB", "--model", "w.safetensors", "--", "true"];
    let job = server.submit(&explicit);
    let needs = &server.json(&["show", &job])["tasks"][0]["needs"];
    assert_eq!(needs["gpu_memory_bytes"], 2048 * MIB);
    assert_eq!(needs["estimate"]["request"], "explicit");

    server.write("job.toml", "command = 'true'\ngpus = 1\nmodel = 'w.safetensors'\n");
    let job = server.submit(&["job.toml"]);
    assert_eq!(server.json(&["show", &job])["tasks"][0]["needs"]["gpu_memory_bytes"], json!(bound));
}

#[test]
fn a_model_that_cannot_be_estimated_is_refused_with_its_file_and_a_remedy() {
    let server = Server::up(&["--gpus", "fake:1xV100:16GiB"]);
    write_model(&server, "w.safetensors");
    server.write("notes.txt", "no model");
    let refused = |args: &[&str], parts: &[&str]| {
        let answer = server.ask(&[&["submit", "--gpus", "1"], args, &["--", "true"]].concat());
        assert_ne!(answer.code, Some(0), "{answer:?}");
        for part in parts {
            assert!(answer.err.contains(part), "{part}: {}", answer.err);
        }
    };
    refused(&["--model", "none.pt2"], &["none.pt2", "No such file", "correct the path"]);
    refused(
        &["--model", "notes.txt"],
        &["notes.txt", "not a torch.export archive", "warpyard estimate notes.txt"],
    );
    refused(&["--model", "w.safetensors", "--mode", "train"], &["has no graph", "torch.export"]);
    refused(&["--batch-size", "3"], &["--batch-size", "names no model", "--model FILE"]);
}

#[test]
fn what_a_model_was_measured_to_take_corrects_its_next_estimate() {
    let fake = FakeNvml::new(&world(&[FREE]));
    let server = up(&fake);
    write_model(&server, "w.safetensors");
    let gate = server.path("gate");
    let model = ["--gpus", "1", "--model", "w.safetensors"];
    let job = server.script(&model, &format!("echo $$; echo started; {}", wait_at(&gate)));
    server.printed(&job, "started");
    let pid = server.said(&["logs", &job]).lines().next().expect("its pid").to_owned();
    // More than the bound of 806 MiB, so that the bound did not hold.
    fake.set(&world(&[&format!("used 1000000000\ncompute {pid} 1000000000\nutilisation 90")]));
    eventually("its utilisation is read", || gpu(&server, 0)["utilisation_percent"] == 90);
    server.open("gate");
    assert_eq!(server.outcome(&job), "succeeded");
    fake.set(&world(&[FREE]));

    let job = server.submit(&[&model[..], &["--", "true"]].concat());
    let needs = &server.json(&["show", &job])["tasks"][0]["needs"];
    assert_eq!(
        (&needs["estimate"]["basis"], &needs["estimate"]["measured"]),
        (&json!("same-model"), &json!(1))
    );
    assert_eq!(
        needs["gpu_memory_bytes"], 1_100_000_000,
        "the measured peak with a margin for repeats: {needs}"
    );
    let said = server.said(&["show", &job]);
    assert!(said.contains("by one measured run of this model"), "{said}");
}

#[test]
fn a_configured_command_estimates_in_place_of_the_client_and_blocks_nothing() {
    let needs = |command: &str| {
        let mut server = Server::down(&["--gpus", "fake:1xV100:16GiB", "--config", "warpyard.toml"]);
        server.write(
            "warpyard.toml",
            &format!("[estimate]\ncommand = ['sh', '-c', '{command}']\ntimeout = '2s'\n"),
        );
        server.start();
        write_model(&server, "w.safetensors");
        let answer = server.ask(&["submit", "--gpus", "1", "--model", "w.safetensors", "--", "true"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        (server.json(&["show", answer.out.trim()])["tasks"][0]["needs"]["estimate"].clone(), answer.err)
    };
    let (estimate, said) =
        needs(r#"grep -q w.safetensors && echo "{\"tasks\":{\"true\":{\"peak\":1048576}}}""#);
    assert_eq!((&estimate["source"], &estimate["peak_bytes"]), (&json!("command"), &json!(MIB)), "{said}");
    assert!(said.is_empty(), "{said}");
    for (command, part) in [
        ("echo no such thing >&2; exit 3", "no such thing"),
        ("sleep 60", "did not end within 2 s"),
        ("yes", "more than 1 MiB"),
        ("echo none", "did not write JSON"),
        (r#"echo "{\"tasks\":{\"true\":{}}}""#, "needs a peak"),
    ] {
        let (estimate, said) = needs(command);
        assert!(said.contains(part), "{command}: {said}");
        assert_eq!(estimate["source"], "submitter", "the estimate that came with the job stays");
    }
}
