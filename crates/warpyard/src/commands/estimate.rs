//! `estimate`: a model's GPU memory and run time, from its file.

use crate::context::Context;
use crate::exit::Exit;
use crate::input::{bad_file, help_list};
use crate::show::estimate::{EstimateSubject, text};
use crate::usage_error::UsageError;
use clap::Args;
use std::fs::File;
use std::path::PathBuf;
use warpyard_api::quantity::ByteSize;
use warpyard_api::text::escape_controls;
use warpyard_estimate::{GPUS, Gpu, Method, Mode, Optimizer, Request, Shapes, estimate, read};

/// Arguments of `estimate`.
#[derive(Debug, Args)]
pub(crate) struct Estimate {
    /// The model: a torch.export archive (.pt2), an ONNX model, or weights as safetensors or GGUF
    file: PathBuf,
    /// Size of the first dimension, where the model leaves it open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    batch: Option<u64>,
    /// Shape of an input, such as 32x3x224x224; again for each further input
    #[arg(long, value_name = "AxBxC", value_parser = shape, conflicts_with = "batch")]
    input: Vec<InputShape>,
    /// What the model is run for
    #[arg(long, value_parser = ["infer", "train"], default_value = "infer")]
    mode: String,
    /// The optimiser of training: sgd, momentum, adam, adamw, rmsprop or adagrad [default: adam]
    #[arg(long, value_name = "NAME")]
    optimizer: Option<Optimizer>,
    /// The type of GPU, such as RTX3060 or A100-40GB
    #[arg(long, value_name = "NAME", value_parser = gpu)]
    gpu: Option<&'static Gpu>,
    /// Tokens of context of a language model [default: what it was trained for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    context: Option<u64>,
    /// How the bound is computed: by replaying operators and allocator, or by counting floats
    #[arg(long, value_parser = ["replay", "float-count"], default_value = "replay")]
    method: String,
}

/// Sizes of an input's dimensions.
#[derive(Debug, Clone)]
struct InputShape(Vec<u64>);

fn shape(text: &str) -> Result<InputShape, String> {
    let sizes: Result<Vec<u64>, _> = text.split('x').map(str::parse).collect();
    match sizes {
        Ok(sizes) if sizes.iter().all(|size| *size > 0) => Ok(InputShape(sizes)),
        _ => Err("is no shape; write sizes with x between them, such as 32x3x224x224".to_owned()),
    }
}

fn gpu(text: &str) -> Result<&'static Gpu, String> {
    text.parse::<&'static Gpu>().map_err(|error| error.to_string())
}

/// The list of GPU types, for the help.
pub(crate) fn gpus() -> String {
    let about = |gpu: &Gpu| {
        let (memory, rate) = (ByteSize(gpu.memory).rounded(), gpu.bandwidth / 1e9);
        let tflops = gpu.flops.map(|flops| format!("{:.1} TFLOPS, ", flops / 1e12)).unwrap_or_default();
        format!("{memory}, {tflops}{rate:.0} GB/s")
    };
    help_list("GPU types", GPUS.iter().map(|gpu| (gpu.name, about(gpu))))
}

impl Estimate {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let name = escape_controls(&self.file.to_string_lossy()).into_owned();
        let unreadable = |source| UsageError::UnreadableFile { file: name.clone(), source };
        let mut file = File::open(&self.file).map_err(unreadable)?;
        let inputs = self.input.iter().map(|InputShape(sizes)| sizes.clone()).collect();
        let shapes = Shapes { batch: self.batch, inputs };
        let model = read(&mut file, &shapes).map_err(|error| bad_file(&name, error))?;
        let request = self.request();
        let estimate = estimate(&model, &request);
        context.answer(&estimate, |estimate, screen| {
            text(estimate, &EstimateSubject { name: &name, request: &request }, screen)
        })
    }

    fn request(&self) -> Request {
        let mode = if self.mode == "train" { Mode::Train } else { Mode::Infer };
        Request {
            gpu: self.gpu,
            context: self.context,
            method: if self.method == "float-count" { Method::FloatCount } else { Method::Replay },
            ..Request::new(mode, self.optimizer.unwrap_or(Optimizer::Adam))
        }
    }
}
