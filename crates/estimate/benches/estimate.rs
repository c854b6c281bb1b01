//! How long an estimate takes, from the file to both peaks: a model of today's size, a graph of 2,000 operators, a large file of
//! weights. Each as the median of many, in time on a core, and beside its target. Exported models are read where `scripts/export-models` put them.

use nix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use warpyard_estimate::graph::{Arg, DType, Graph, Node, Role, Tensor, TensorId};
use warpyard_estimate::{Calls, Format, Mode, Model, Optimizer, Request, Shapes, estimate, read};

fn request() -> Request {
    Request::new(Mode::Train, Optimizer::Adam)
}

/// Time this thread has had a core, which a busy machine does not inflate as it does the wall clock.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux counts it for every thread");
    time.into()
}

/// Median milliseconds of a task on a core.
fn median(mut task: impl FnMut()) -> f64 {
    let mut times: Vec<Duration> = (0..31)
        .map(|_| {
            let began = cpu_time();
            task();
            cpu_time() - began
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn report(what: &str, milliseconds: f64, target: f64) {
    let verdict = if milliseconds <= target { "met" } else { "missed" };
    println!("{what}: {milliseconds:.2} ms | target {target} ms | {verdict}");
}

fn of_file(path: &Path, batch: u64) -> f64 {
    let shapes = Shapes { batch: Some(batch), inputs: vec![] };
    median(|| {
        let model = read(&mut File::open(path).expect("an export"), &shapes).expect("a model");
        std::hint::black_box(estimate(&model, &request()));
    })
}

/// Linear layers and activations in turn, as long as asked for.
fn chain(operators: u32) -> Graph {
    let mut tensors = vec![Tensor::dense("x", DType::F32, vec![32, 1024], Role::Input)];
    let mut nodes = Vec::new();
    let mut last = TensorId(0);
    for at in 0..operators {
        let mut push = |name: &str, shape: Vec<u64>, role| {
            tensors.push(Tensor::dense(format!("{name}{at}"), DType::F32, shape, role));
            TensorId(tensors.len() as u32 - 1)
        };
        let (operator, args) = match at % 2 {
            0 => {
                let weight = push("weight", vec![1024, 1024], Role::Parameter);
                (
                    "linear",
                    vec![("input".to_owned(), Arg::Tensor(last)), ("weight".to_owned(), Arg::Tensor(weight))],
                )
            }
            _ => ("relu", vec![("self".to_owned(), Arg::Tensor(last))]),
        };
        last = push("result", vec![32, 1024], Role::Activation);
        nodes.push(Node { operator: operator.to_owned(), args, outputs: vec![last], detached: false });
    }
    Graph { format: Format::Pt2, tensors, nodes, outputs: vec![last], calls: Calls::default() }
}

/// A file that says it has 10 GB of weights, and has them as a hole.
fn large_weights(path: &Path) {
    let each = 25_000_000u64;
    let entry = |at: u64| {
        let (begin, end) = (at * each, (at + 1) * each);
        format!(
            r#""layers.{at}.weight": {{"dtype": "F16", "shape": [12500, 1000], "data_offsets": [{begin}, {end}]}}"#
        )
    };
    let header = format!("{{{}}}", (0..400).map(entry).collect::<Vec<_>>().join(","));
    let mut file = File::create(path).expect("a file");
    file.write_all(&(header.len() as u64).to_le_bytes()).expect("written");
    file.write_all(header.as_bytes()).expect("written");
    file.set_len(8 + header.len() as u64 + 400 * each).expect("a hole");
}

fn main() {
    let cache = std::env::var_os("WARPYARD_CACHE").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/warpyard"));
    let models = cache.or_else(home).unwrap_or_default().join("models");
    for (name, batch, target) in
        [("resnet50.eval", 32, 5.0), ("t5-small.train", 16, 10.0), ("efficientnet_b7.eval", 8, 10.0)]
    {
        let path = models.join(format!("{name}.pt2"));
        match path.exists() {
            true => {
                report(&format!("{name}, batch {batch}, read and both peaks"), of_file(&path, batch), target)
            }
            false => println!("SKIPPED: no {name}; scripts/export-models makes it"),
        }
    }
    let model = Model::Graph(chain(2_000));
    report(
        "2,000 operators, both peaks",
        median(|| drop(std::hint::black_box(estimate(&model, &request())))),
        50.0,
    );
    let path = std::env::temp_dir().join(format!("warpyard-bench-{}.safetensors", std::process::id()));
    large_weights(&path);
    let weights = || {
        let model = read(&mut File::open(&path).expect("a file"), &Shapes::default()).expect("weights");
        std::hint::black_box(estimate(&model, &request()));
    };
    report("10 GB of safetensors in 400 tensors", median(weights), 10.0);
    std::fs::remove_file(&path).expect("it was there");
    let junk = vec![0x50; 1 << 20];
    let refused = || assert!(read(&mut Cursor::new(&junk), &Shapes::default()).is_err());
    report("a mebibyte of junk, refused", median(refused), 10.0);
}
