//! `info`: what the server is.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::Screen;
use clap::Args;
use std::fmt::Write;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::InfoView;

/// Arguments of `info`.
#[derive(Debug, Args)]
pub(crate) struct Info {}

impl Info {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let info = context.client()?.info()?;
        context.answer(&info, text)
    }
}

fn text(info: &InfoView, screen: &Screen) -> String {
    let mut out =
        format!("warpyard {} at {}\n", escape_controls(&info.version), escape_controls(&info.address));
    let lines = [
        ("data", info.data.clone()),
        ("pid", info.pid.to_string()),
        ("started", screen.clock_and_age(info.started_at)),
        ("policy", info.policy.clone()),
        ("workers", info.workers.to_string()),
        ("gpus", info.gpus.to_string()),
        ("tasks", format!("{} running, {} waiting", info.running, info.waiting)),
    ];
    for (label, value) in lines {
        writeln!(out, "  {label:<8} {}", escape_controls(&value)).expect("a string takes all");
    }
    out
}
