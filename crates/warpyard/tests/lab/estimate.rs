//! `estimate` by the real binary. How near its figures are to measurements is tested beside the estimator.

use super::{ask, files, keys};
use serde_json::{Value, json};

/// A safetensors file of one matrix; its weights are as many letters.
fn weights() -> String {
    let header = r#"{"w": {"dtype": "F16", "shape": [40, 10], "data_offsets": [0, 800]}}"#;
    let length = char::from(header.len() as u8);
    format!("{length}\0\0\0\0\0\0\0{header}{}", "w".repeat(800))
}

#[test]
fn the_json_has_the_documented_fields() {
    let (_dir, [file]) = files([("w.safetensors", &weights())]);
    let estimate = ask(&["estimate", &file, "--json"]).json();
    let mut fields = keys(&estimate);
    fields.sort_unstable();
    let mut documented = [
        "format",
        "graph",
        "parameters",
        "weights_bytes",
        "macs",
        "inference_peak_bytes",
        "training_peak_bytes",
        "context_bytes",
        "upper_bytes",
        "float_count_bytes",
        "operators",
        "unknown_operators",
        "largest",
        "seconds_by_gpu",
    ];
    documented.sort_unstable();
    assert_eq!(fields, documented);
    assert_eq!((&estimate["format"], &estimate["parameters"]), (&json!("safetensors"), &json!(400)));
    assert_eq!((&estimate["weights_bytes"], &estimate["float_count_bytes"]), (&json!(800), &json!(1600)));
    assert_eq!(
        (&estimate["inference_peak_bytes"], &estimate["training_peak_bytes"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(estimate["largest"], json!([{"name": "w", "bytes": 800}]));
}

#[test]
fn people_are_told_what_to_request() {
    let (_dir, [file]) = files([("w.safetensors", &weights())]);
    let answer = ask(&["estimate", &file, "--gpu", "NVIDIA GeForce RTX 3060"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    for part in ["safetensors file", "400 parameters", "request", "RTX3060", "not calibrated"] {
        assert!(answer.out.contains(part), "{part}: {}", answer.out);
    }
}

#[test]
fn what_cannot_be_estimated_is_said() {
    let (_dir, [text, cut]) = files([("model.txt", "layers: 3\n"), ("cut.safetensors", &weights()[..200])]);
    ask(&["estimate", &text]).refused(&["model.txt", "not a torch.export archive"]);
    ask(&["estimate", &cut]).refused(&["cut.safetensors", "cut short"]);
    ask(&["estimate", "/no/such/model.pt2"]).refused(&["cannot read /no/such/model.pt2"]);
    ask(&["estimate", &text, "--gpu", "RTX 9999"]).refused(&["--gpu", "RTX3060"]);
    ask(&["estimate", &text, "--optimizer", "lion"]).refused(&["--optimizer", "adamw"]);
    ask(&["estimate", &text, "--input", "3x-1"]).refused(&["--input", "32x3x224x224"]);
    ask(&["estimate", &text, "--batch", "0"]).refused(&["--batch"]);
}
