//! Estimates against published and measured figures: parameters and multiply-adds of torchvision's models, peaks from first
//! principles, and NVML peaks of real trainings. Reads exports that `scripts/export-models` made, and the data beside the checkout.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use warpyard_estimate::{
    Estimate, Graph, Method, Mode, Model, Optimizer, Request, Shapes, Training, ZeroGrad, estimate, inference_peaks, read,
    training_peaks,
};

/// A file of the data beside the checkout, or nothing and a notice.
fn data(name: &str) -> Option<String> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gpu-memory")).join(name);
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        println!("SKIPPED: no {name} beside the checkout");
    }
    text.ok()
}

/// Where exports are cached.
fn models() -> Option<PathBuf> {
    let cache = std::env::var_os("WARPYARD_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("XDG_CACHE_HOME")?).join("warpyard")));
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/warpyard")))?;
    let models = cache.join("models");
    if !models.join("resnet50.eval.pt2").exists() {
        println!("SKIPPED: no exported models; scripts/export-models makes them");
        return None;
    }
    Some(models)
}

fn graph(models: &std::path::Path, name: &str, batch: u64) -> Graph {
    let mut file = File::open(models.join(format!("{name}.pt2"))).unwrap_or_else(|e| panic!("{name}: {e}"));
    match read(&mut file, &Shapes { batch: Some(batch), inputs: vec![] }) {
        Ok(Model::Graph(graph)) => graph,
        other => panic!("{name}: {other:?}"),
    }
}

fn request(mode: Mode, optimizer: Optimizer) -> Request {
    let training = Training { optimizer, zero_grad: ZeroGrad::default() };
    Request { mode, training, gpu: None, capacity: None, context: None, method: Method::Replay }
}

fn estimated(graph: Graph) -> Estimate {
    estimate(&Model::Graph(graph), &request(Mode::Infer, Optimizer::Sgd))
}

fn oracles() -> Option<(PathBuf, Value)> {
    let oracles = serde_json::from_str(&data("model_oracles.json")?).expect("JSON");
    Some((models()?, oracles))
}

#[test]
fn parameters_are_exact_and_multiply_adds_within_a_thousandth() {
    let Some((models, oracles)) = oracles() else { return };
    let all = oracles["models"].as_object().expect("models");
    assert_eq!(all.len(), 29);
    let mut wrong = Vec::new();
    for (name, oracle) in all {
        let estimate = estimated(graph(&models, &format!("{name}.eval"), 1));
        assert!(estimate.unknown_operators.is_empty(), "{name}: {:?}", estimate.unknown_operators);
        let macs = estimate.macs as f64 / 1e9;
        let published = oracle["gmacs"].as_f64().expect("a number");
        // Published figures have three decimals.
        let near = (macs - published).abs() <= published * 0.001 + 0.0005;
        if oracle["params"] != estimate.parameters || !near {
            wrong.push(format!("{name}: {} parameters, {macs:.4} G; {} and {published}", estimate.parameters, oracle["params"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn peaks_from_first_principles_are_within_a_hundredth() {
    let Some((models, oracles)) = oracles() else { return };
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, oracle) in oracles["models"].as_object().expect("models") {
        let Some(oracle) = oracle.get("first_principles_batch1_fp32") else { continue };
        let expected = |field: &str| oracle[field].as_f64().expect("a number");
        let inference = graph(&models, &format!("{name}.eval"), 1);
        let peaks = inference_peaks(&inference, &request(Mode::Infer, Optimizer::Sgd));
        let workspace = warpyard_estimate::Workspaces::default().blas;
        let activations = (peaks.live - inference.weights_bytes() - workspace) as f64;
        let training = graph(&models, &format!("{name}.train"), 1);
        let saved = training_peaks(&training, &request(Mode::Train, Optimizer::Sgd)).saved as f64;
        for (what, ours, theirs) in [
            ("inference", activations, expected("peak_inference_activation_bytes")),
            ("saved", saved, expected("saved_for_backward_bytes")),
        ] {
            println!("{name} {what}: {ours} {theirs} {:+.2} %", 100.0 * (ours / theirs - 1.0));
            if (ours / theirs - 1.0).abs() > 0.01 {
                wrong.push(format!("{name}, {what}: {ours}, and not {theirs}"));
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 18);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A measured training.
struct Measured {
    kind: String,
    model: String,
    estimated: f64,
    measured: f64,
}

fn export_of(model: &str) -> Option<&'static str> {
    Some(match model {
        "ConvNeXtBase" => "convnext_base.86.train",
        "MnasNet" => "mnasnet1_0.86.train",
        "MobeNetV3Large" => "mobilenet_v3_large.86.train",
        "MobileNetV2" => "mobilenet_v2.86.train",
        "RegNetX400MF" => "regnet_x_400mf.86.train",
        "ResNet101" => "resnet101.86.train",
        "VGG16" => "vgg16.86.train",
        "openai-community/gpt2" => "gpt2.train",
        "distilbert/distilgpt2" => "distilgpt2.train",
        "EleutherAI/gpt-neo-125M" => "gpt-neo-125m.train",
        "T5-small" => "t5-small.train",
        "t5-base" => "t5-base.train",
        _ => return None,
    })
}

fn measured() -> Option<Vec<Measured>> {
    let text = data("xmem_rows.csv")?;
    let models = models()?;
    let mut rows = Vec::new();
    for row in csv::Reader::from_reader(text.as_bytes()).deserialize::<BTreeMap<String, String>>() {
        let row = row.expect("a row");
        let (Some(export), "false") = (export_of(&row["model"]), row["real_oom"].as_str()) else { continue };
        let Ok(optimizer) = row["optimiser"].parse() else { continue };
        let graph = graph(&models, export, row["batch_size"].parse().expect("a number"));
        let zero_grad = match row["zero_grad_mode"].as_str() {
            "1" => ZeroGrad::BeforeBackward,
            "2" => ZeroGrad::AfterStep,
            _ => ZeroGrad::BeforeForward,
        };
        let mut request = request(Mode::Train, optimizer);
        request.training.zero_grad = zero_grad;
        request.gpu = Some(row["gpu"].parse().expect("a known GPU"));
        request.capacity = row["total_gpu_memory"].parse().ok();
        let peaks = training_peaks(&graph, &request);
        let measured: f64 = row["measured_peak_bytes"].parse().expect("a number");
        if std::env::var_os("ROWS").is_some() {
            let (r, l) = (peaks.reserved as f64, peaks.live as f64);
            println!(
                "ROW {} {} {} {} {} {:.0} {:.0} {:+.2} live {:.0}",
                row["model"], row["optimiser"], row["batch_size"], row["gpu"], row["zero_grad_mode"],
                r / 1e6, measured / 1e6, 100.0 * (r / measured - 1.0), l / 1e6
            );
        }
        rows.push(Measured {
            kind: row["kind"].clone(),
            model: row["model"].clone(),
            estimated: peaks.reserved as f64,
            measured,
        });
    }
    Some(rows)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn measured_trainings_are_met() {
    let Some(rows) = measured() else { return };
    for kind in ["cnn", "transformer"] {
        let of_kind = || rows.iter().filter(|row| row.kind == kind);
        let errors = of_kind().map(|row| (row.estimated / row.measured - 1.0).abs()).collect();
        println!("{kind}: {} rows, median error {:.2} %", of_kind().count(), 100.0 * median(errors));
        let mut names: Vec<_> = of_kind().map(|row| row.model.as_str()).collect();
        names.dedup();
        names.sort();
        names.dedup();
        for name in names {
            let of = of_kind().filter(|row| row.model == name).map(|row| row.estimated / row.measured - 1.0).collect::<Vec<_>>();
            println!("  {name}: {} rows, median {:+.2} %", of.len(), 100.0 * median(of.clone()));
        }
    }
}
