//! Estimates against real PyTorch on the CPU, and files of real exporters against each other: models of several families that
//! `scripts/export-models` exports, runs and writes as ONNX and GGUF.

mod cache;

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use warpyard_estimate::{
    Device, Graph, Mode, Model, Optimizer, Request, Shapes, activation_peak, estimate, inference_peaks, read,
    training_peaks,
};

/// What PyTorch did with a model: bytes of tensors that were alive at most.
#[derive(Deserialize)]
struct Reference {
    family: String,
    batch: u64,
    inference: u64,
    training: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct GgufReference {
    parameters: u64,
    weights: u64,
    kv_cache_per_token: u64,
}

fn references() -> Option<(PathBuf, BTreeMap<String, Reference>)> {
    let folder = cache::folder("references", "gguf.json")?;
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        if let Some(name) = name.strip_suffix(".json").filter(|name| *name != "gguf" && !name.contains('.')) {
            let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("a result");
            all.insert(name.to_owned(), serde_json::from_str(&text).expect("a result"));
        }
    }
    Some((folder, all))
}

fn model(path: &Path, batch: Option<u64>) -> Model {
    let mut file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    read(&mut file, &Shapes { batch, inputs: vec![] })
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn graph(path: &Path, batch: u64) -> Graph {
    match model(path, Some(batch)) {
        Model::Graph(graph) => graph,
        Model::Weights(_) => panic!("{}: no graph", path.display()),
    }
}

fn on_cpu(mode: Mode, optimizer: Optimizer) -> Request {
    Request { device: Device::Cpu, ..Request::new(mode, optimizer) }
}

/// Whether an estimate is as near as it should be; prints both.
fn is_near(what: &str, estimated: u64, real: u64, tolerance: f64) -> bool {
    let error = estimated as f64 / real as f64 - 1.0;
    println!("{what}: {estimated} for {real}, {:+.2} %", 100.0 * error);
    error.abs() <= tolerance
}

/// Models that are known to be further off: their tensors are small and held by a list, of which exports tell nothing.
const NOT_MET: &[&str] = &["recommender"];

#[test]
fn live_bytes_are_those_of_pytorch_on_the_cpu() {
    let Some((folder, references)) = references() else { return };
    let mut wrong = Vec::new();
    for (name, reference) in references.iter().filter(|(name, _)| !NOT_MET.contains(&name.as_str())) {
        let batch = reference.batch;
        let inference = graph(&folder.join(format!("{name}.eval.pt2")), batch);
        let estimated = inference_peaks(&inference, &on_cpu(Mode::Infer, Optimizer::Sgd)).live;
        if !is_near(&format!("{name} inference"), estimated, reference.inference, 0.05) {
            wrong.push(format!("{name} inference"));
        }
        let training = graph(&folder.join(format!("{name}.train.pt2")), batch);
        for (optimizer, real) in &reference.training {
            let request = on_cpu(Mode::Train, optimizer.parse().expect("an optimiser"));
            let estimated = training_peaks(&training, &request).live;
            if !is_near(&format!("{name} {optimizer}"), estimated, *real, 0.05) {
                wrong.push(format!("{name} {optimizer}"));
            }
        }
    }
    let families: BTreeSet<_> = references.values().map(|reference| &reference.family).collect();
    assert!(references.len() >= 20 && families.len() >= 10, "{} of {families:?}", references.len());
    assert!(wrong.is_empty(), "more than 5 % apart: {wrong:?}");
}

#[test]
fn onnx_of_the_same_model_says_the_same() {
    let Some((folder, references)) = references() else { return };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (name, reference) in &references {
        if !folder.join(format!("{name}.onnx.json")).exists() {
            continue;
        }
        compared += 1;
        let request = Request::new(Mode::Infer, Optimizer::Sgd);
        let graphs =
            ["onnx", "eval.pt2"].map(|kind| graph(&folder.join(format!("{name}.{kind}")), reference.batch));
        // An ONNX file tells nothing of Python's frames, so peaks are compared without them.
        let [of_onnx, of_export] = graphs.each_ref().map(activation_peak);
        let [onnx, exported] = graphs.map(|graph| estimate(&Model::Graph(graph), &request));
        if !onnx.unknown_operators.is_empty() {
            wrong.push(format!("{name}: unknown {:?}", onnx.unknown_operators));
        }
        for (what, ours, theirs, tolerance) in [
            // The exporter folds batch norms into convolutions.
            ("parameters", onnx.parameters, exported.parameters, 0.05),
            ("multiply-adds", onnx.macs, exported.macs, 0.01),
        ] {
            if !is_near(&format!("{name} {what}"), ours, theirs, tolerance) {
                wrong.push(format!("{name}: {what} {ours} and {theirs}"));
            }
        }
        // Weights that the exporter transposes or cuts and joins in the graph are laid out anew, and a bias that it adds on its
        // own makes a second result; nothing else comes to it.
        let copies = exported.weights_bytes + of_export;
        if !is_near(&format!("{name} activations"), of_onnx, of_export, 0.05)
            && !(of_export..=of_export + copies).contains(&of_onnx)
        {
            wrong.push(format!("{name}: activations {of_onnx} and {of_export}"));
        }
    }
    assert!(compared >= 10, "{compared}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn gguf_has_the_bytes_its_writer_counts() {
    let Some((folder, _)) = references() else { return };
    let text = std::fs::read_to_string(folder.join("gguf.json")).expect("a result");
    let reference: GgufReference = serde_json::from_str(&text).expect("a result");
    let Model::Weights(weights) = model(&folder.join("llama.gguf"), None) else { panic!("weights alone") };
    assert_eq!((weights.parameters, weights.bytes), (reference.parameters, reference.weights));
    let transformer = weights.transformer.expect("the metadata describes it");
    assert_eq!(transformer.kv_cache_bytes(1024), 1024 * reference.kv_cache_per_token);
}
