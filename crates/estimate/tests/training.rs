//! Training and inference of small graphs: which step needs what, and how it grows.

use warpyard_estimate::graph::{Arg, DType, Graph, Node, Role, Tensor, TensorId};
use warpyard_estimate::{
    Calls, Format, Mode, Model, Optimizer, Peaks, Request, Training, ZeroGrad, estimate, inference_peaks,
    training_peaks,
};

const WIDTH: u64 = 1024;
const WEIGHT: u64 = WIDTH * WIDTH * 4;

/// Linear layers with ReLU between them.
fn layers(count: u32, batch: u64) -> Graph {
    let mut tensors = vec![Tensor::dense("x", DType::F32, vec![batch, WIDTH], Role::Input)];
    let mut nodes = Vec::new();
    let mut last = TensorId(0);
    for _ in 0..count {
        let mut push = |shape: Vec<u64>, role| {
            tensors.push(Tensor::dense("t", DType::F32, shape, role));
            TensorId(tensors.len() as u32 - 1)
        };
        let (weight, linear) =
            (push(vec![WIDTH, WIDTH], Role::Parameter), push(vec![batch, WIDTH], Role::Activation));
        let relu = push(vec![batch, WIDTH], Role::Activation);
        let arg = |name: &str, id| (name.to_owned(), Arg::Tensor(id));
        let node = |operator: &str, args, output| Node {
            operator: operator.to_owned(),
            args,
            outputs: vec![output],
            detached: false,
        };
        nodes.push(node("linear", vec![arg("input", last), arg("weight", weight)], linear));
        nodes.push(node("relu", vec![arg("self", linear)], relu));
        last = relu;
    }
    Graph { format: Format::Pt2, tensors, nodes, outputs: vec![last], calls: Calls::default() }
}

fn request(optimizer: Optimizer) -> Request {
    Request::new(Mode::Train, optimizer)
}

fn trained(graph: &Graph, optimizer: Optimizer) -> Peaks {
    training_peaks(graph, &request(optimizer))
}

#[test]
fn optimiser_state_appears_in_the_first_step_and_stays() {
    // Activations are nothing beside the weights, so live bytes are weights, gradients, state and temporaries.
    let graph = layers(10, 1);
    let weights = 10 * WEIGHT;
    for (optimizer, copies) in [
        (Optimizer::Sgd, 2),
        (Optimizer::Momentum, 3),
        (Optimizer::RmsProp, 4),
        (Optimizer::Adam, 5),
        (Optimizer::AdamW, 5),
        (Optimizer::Adagrad, 5),
    ] {
        let live = trained(&graph, optimizer).live as f64 / weights as f64;
        assert!((live - copies as f64).abs() < 0.5, "{optimizer}: {live} times the weights");
    }
}

#[test]
fn inference_keeps_two_activations_and_training_all() {
    let batch = 65536;
    let activation = batch * WIDTH * 4;
    let graph = layers(8, batch);
    let infer = inference_peaks(&graph, &request(Optimizer::Sgd));
    // The batch and the last step's result stay; a layer has its operand and its result.
    assert_eq!(infer.live / activation, 4);
    let train = trained(&graph, Optimizer::Sgd);
    // Inputs of all layers; the results of their linear parts go, since ReLU keeps its own.
    assert_eq!(train.saved / activation, 9);
    assert!(train.live > 9 * activation && train.reserved >= train.live);
}

#[test]
fn a_second_step_never_needs_less_than_the_first() {
    for batch in [1, 300, 5000] {
        for (_, optimizer) in Optimizer::ALL {
            let peaks = trained(&layers(4, batch), *optimizer);
            assert!(peaks.reserved >= peaks.first_step_reserved, "{optimizer} at {batch}");
        }
    }
}

#[test]
fn gradients_dropped_early_make_room() {
    let graph = layers(10, 2000);
    let with = |zero_grad| {
        let training = Training { optimizer: Optimizer::Sgd, zero_grad };
        training_peaks(&graph, &Request { training, ..request(Optimizer::Sgd) }).live
    };
    assert!(with(ZeroGrad::BeforeForward) < with(ZeroGrad::BeforeBackward));
}

#[test]
fn the_bound_covers_the_peak_and_the_context() {
    let model = Model::Graph(layers(4, 300));
    let gpu = "A100".parse().expect("a GPU");
    let estimate = estimate(&model, &Request { gpu: Some(gpu), ..request(Optimizer::Adam) });
    let peak = estimate.training_peak_bytes.expect("it has a graph");
    assert!(estimate.upper_bytes > peak + estimate.context_bytes);
    assert!(estimate.seconds_by_gpu["A100-40GB"] < estimate.seconds_by_gpu["K80"]);
}
