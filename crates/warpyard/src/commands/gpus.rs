//! `gpus`: every device and who is on it.

use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::usage_error::UsageError;
use clap::Args;
use warpyard_api::job::DeviceRef;
use warpyard_api::wire::GpuView;

/// Arguments of `gpus`.
#[derive(Debug, Args)]
pub(crate) struct Gpus {
    /// Only these GPUs, by index or by worker and index: 2, 0,3, gpu1/0
    #[arg(long = "id", short = 'i', value_name = "GPU,..", value_delimiter = ',')]
    ids: Vec<DeviceRef>,
}

impl Gpus {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let mut gpus = context.client()?.gpus()?;
        if let Some(missing) = self.ids.iter().find(|id| !gpus.iter().any(|gpu| is(id, gpu))) {
            let known: Vec<_> = gpus.iter().map(|gpu| gpu.id.as_str()).collect();
            return Err(UsageError::NoSuchGpu { asked: missing.to_string(), known: known.join(", ") }.into());
        }
        gpus.retain(|gpu| self.ids.is_empty() || self.ids.iter().any(|id| is(id, gpu)));
        context.answer(gpus.as_slice(), show::gpus::lines)
    }
}

/// Whether it names this GPU; a number alone names those of every worker.
fn is(id: &DeviceRef, gpu: &GpuView) -> bool {
    id.worker().is_none_or(|worker| worker == gpu.worker) && u64::from(id.index()) == u64::from(gpu.index)
}
