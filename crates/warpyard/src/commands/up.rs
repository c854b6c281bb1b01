//! `up`: the server and a worker on this machine.

use crate::context::Context;
use crate::exit::Exit;
use clap::Args;
use std::path::PathBuf;
use warpyard_api::client::data_dir;
use warpyard_api::quantity::{ByteSize, MilliCpus};
use warpyard_api::wire::PolicySet;

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Where to listen [default: 127.0.0.1:7700]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// How tasks are ordered and placed: name, or name:key=value,key=value [default: backfill]
    #[arg(long, value_name = "NAME[:K=V,..]")]
    policy: Option<PolicySet>,
    /// A file with these settings and more
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The GPUs: auto, none, or such as fake:4xV100:16GiB,2xK80:12GiB to declare some [default: auto]
    #[arg(long, value_name = "SPEC")]
    gpus: Option<String>,
    /// CPUs that tasks may have [default: all]
    #[arg(long, value_name = "N")]
    cpus: Option<MilliCpus>,
    /// Memory of each GPU that tasks may have together [default: all of it]
    #[arg(long, value_name = "SIZE")]
    gpu_budget: Option<ByteSize>,
    /// How many tasks may share one GPU [default: as many as fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tasks_per_gpu: Option<u32>,
    /// Fill the server with a small varied workload on fake GPUs
    #[arg(long)]
    demo: bool,
    /// Start no worker beside the server
    #[arg(long)]
    no_worker: bool,
}

impl Up {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let data = data_dir(context.global.data.as_deref(), |name| std::env::var(name).ok());
        anyhow::bail!("cannot serve {}: this build has no server in it", data.display())
    }
}
