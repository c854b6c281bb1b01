//! Estimates against published and measured figures: parameters and multiply-adds of torchvision's models, peaks from first
//! principles, and NVML peaks of real trainings. Reads exports that `scripts/export-models` made, and the data beside the checkout.

mod cache;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use warpyard_estimate::conformal::{Outcome, bound_ratio};
use warpyard_estimate::graph::{Arg, Node};
use warpyard_estimate::{
    Estimate, Graph, Mode, Model, Optimizer, Request, Shapes, ZeroGrad, activation_peak, estimate, read,
    training_peaks,
};

/// A file of the data beside the checkout, or nothing and a notice.
fn data(name: &str) -> Option<String> {
    let path =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/gpu-memory")).join(name);
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        println!("SKIPPED: no {name} beside the checkout");
    }
    text.ok()
}

/// Where exports are cached.
fn models() -> Option<PathBuf> {
    cache::folder("models", "resnet50.eval.pt2")
}

fn graph(models: &std::path::Path, name: &str, batch: u64) -> Graph {
    let mut file = File::open(models.join(format!("{name}.pt2"))).unwrap_or_else(|e| panic!("{name}: {e}"));
    match read(&mut file, &Shapes { batch: Some(batch), inputs: vec![] }) {
        Ok(Model::Graph(graph)) => graph,
        other => panic!("{name}: {other:?}"),
    }
}

fn request(mode: Mode, optimizer: Optimizer) -> Request {
    Request::new(mode, optimizer)
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
            wrong.push(format!(
                "{name}: {} parameters, {macs:.4} G; {} and {published}",
                estimate.parameters, oracle["params"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Bytes that PyTorch keeps and the oracle does not count: results and masks of dropout, and the clones that clamps in place make
/// of their input.
fn not_in_oracle(graph: &Graph) -> u64 {
    let bytes = |node: &Node| match node.operator.as_str() {
        "dropout" if node.arg("p") != Some(&Arg::Float(0.0)) => graph.tensor(node.outputs[0]).elements() * 5,
        "dropout_" | "hardtanh_" => graph.tensor(node.outputs[0]).bytes(),
        _ => 0,
    };
    graph.nodes.iter().map(bytes).sum()
}

#[test]
fn peaks_from_first_principles_are_within_a_hundredth() {
    let Some((models, oracles)) = oracles() else { return };
    let mut compared = 0;
    let mut wrong = Vec::new();
    for (name, oracle) in oracles["models"].as_object().expect("models") {
        let Some(oracle) = oracle.get("first_principles_batch1_fp32") else { continue };
        let expected = |field: &str| oracle[field].as_f64().expect("a number");
        let inference = activation_peak(&graph(&models, &format!("{name}.eval"), 1)) as f64;
        let graph = graph(&models, &format!("{name}.train"), 1);
        let saved = training_peaks(&graph, &request(Mode::Train, Optimizer::Sgd)).saved as f64;
        let saved = saved - not_in_oracle(&graph) as f64;
        for (what, ours, theirs) in [
            ("inference", inference, expected("peak_inference_activation_bytes")),
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
        if std::env::var_os("WARPYARD_ROWS").is_some() {
            let [model, batch, gpu] = ["model", "batch_size", "gpu"].map(|column| &row[column]);
            let error = 100.0 * (peaks.reserved as f64 / measured - 1.0);
            println!(
                "{model} {optimizer} {batch} {gpu}: {} for {measured} measured, {error:+.2} %",
                peaks.reserved
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

/// The 95 % conformal factor of rows.
fn conformal_ratio<'a>(rows: impl Iterator<Item = &'a Measured>) -> f64 {
    let outcomes = rows.map(|row| Outcome { estimated: row.estimated as u64, measured: row.measured as u64 });
    bound_ratio(outcomes, 0.95).expect("enough rows")
}

#[test]
fn measured_trainings_are_met_and_bounded() {
    let Some(rows) = measured() else { return };
    for (kind, count, target) in [("cnn", 100, 0.018), ("transformer", 56, 0.010)] {
        let of_kind = || rows.iter().filter(|row| row.kind == kind);
        let error = median(of_kind().map(|row| (row.estimated / row.measured - 1.0).abs()).collect());
        println!("{kind}: {} rows, median error {:.2} %", of_kind().count(), 100.0 * error);
        let names: BTreeSet<_> = of_kind().map(|row| row.model.as_str()).collect();
        for name in names {
            let errors =
                of_kind().filter(|row| row.model == name).map(|row| row.estimated / row.measured - 1.0);
            println!(
                "  {name}: {} rows, median {:+.2} %",
                errors.clone().count(),
                100.0 * median(errors.collect())
            );
        }
        assert_eq!(of_kind().count(), count, "{kind}: rows went missing");
        assert!(error <= target, "{kind}: median error {error}");
    }
    // Each row is bounded by what the other models' rows show.
    let bounds = rows.iter().map(|row| {
        let ratio = conformal_ratio(rows.iter().filter(|other| other.model != row.model));
        row.estimated * ratio / row.measured
    });
    let bounds: Vec<f64> = bounds.collect();
    let covered = bounds.iter().filter(|bound| **bound >= 1.0).count() as f64 / bounds.len() as f64;
    let width = median(bounds);
    let all = conformal_ratio(rows.iter());
    println!(
        "bound: covers {:.1} %, median bound/measured {width:.3}, ratio over all rows {all:.3}",
        100.0 * covered
    );
    assert!(covered >= 0.92 && width <= 1.15, "covers {covered} at {width}");
}

/// A row of SchedTune's table: mebibytes that a training with Adam took of a GPU, the CUDA context included.
#[derive(serde::Deserialize)]
struct Observation {
    model: String,
    batchsize: u64,
    #[serde(rename = "peak mem usage")]
    measured: f64,
    #[serde(rename = "Pipelines/CUDA cores")]
    cores: u32,
}

#[test]
fn trainings_of_schedtune_are_met_once_the_context_is_calibrated() {
    let (Some(text), Some(models)) = (data("schedtune_model_stats.csv"), models()) else { return };
    let rows = csv::Reader::from_reader(text.as_bytes()).into_deserialize();
    let rows: Vec<Observation> = rows.collect::<Result<_, _>>().expect("rows");
    let mut graphs: BTreeMap<(&str, u64), f64> = BTreeMap::new();
    for row in &rows {
        graphs.entry((&row.model, row.batchsize)).or_insert_with(|| {
            let graph = graph(&models, &format!("{}.train", row.model), row.batchsize);
            training_peaks(&graph, &request(Mode::Train, Optimizer::Adam)).reserved as f64 / (1 << 20) as f64
        });
    }
    let estimated = |row: &Observation| graphs[&(row.model.as_str(), row.batchsize)];
    let mut met = 0;
    for (gpu, cores) in [("K80", 2496), ("T4", 2560), ("RTX3070", 5888), ("V100", 5120), ("RTX3090", 10496)] {
        let of_gpu: Vec<_> = rows.iter().filter(|row| row.cores == cores).collect();
        assert_eq!(of_gpu.len(), 48, "{gpu}");
        // The context is the same for every model: each row is predicted with the one the other models show.
        let errors = of_gpu.iter().map(|row| {
            let others = of_gpu.iter().filter(|other| other.model != row.model);
            let context = median(others.map(|other| other.measured - estimated(other)).collect());
            (estimated(row) + context) / row.measured - 1.0
        });
        let errors: Vec<f64> = errors.collect();
        if std::env::var_os("WARPYARD_ROWS").is_some() {
            for (row, error) in of_gpu.iter().zip(&errors) {
                let (name, batch, peak) = (&row.model, row.batchsize, estimated(row));
                println!(
                    "{gpu} {name} {batch}: {peak:.0} for {} measured, {:+.2} %",
                    row.measured,
                    100.0 * error
                );
            }
        }
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        let context = median(of_gpu.iter().map(|row| row.measured - estimated(row)).collect());
        println!("{gpu}: mean error {:.2} %, median context {context:.0} MiB", 100.0 * mean);
        met += usize::from(mean <= 0.07);
    }
    assert!(met >= 4, "within 7 % on {met} of five GPUs");
}
