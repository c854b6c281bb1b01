//! `up`: the server and a worker on this machine.

use crate::context::Context;
use crate::demo;
use crate::exit::Exit;
use crate::logging::{self, format_parser, level_parser};
use crate::show::counted;
use anyhow::Context as _;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use warpyard_api::client::{Client, data_dir, find_server};
use warpyard_api::quantity::{ByteSize, Micros, MilliCpus};
use warpyard_api::wire::PolicySpec;
use warpyard_server::config::{Config, LogFormat, LogLevel, TlsMode};
use warpyard_server::daemon::{Options, ReadyReport, run};

/// Data directory of a shared server.
const SHARED_DATA: &str = "/var/lib/warpyard";

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Address to listen on [default: 127.0.0.1:7700]
    #[arg(long, value_name = "ADDR", env = "WARPYARD_LISTEN", hide_env_values = true)]
    listen: Option<String>,
    /// Whether the port speaks TLS: auto does except on loopback [default: auto]
    #[arg(long, value_name = "WHEN", env = "WARPYARD_TLS", hide_env_values = true, value_parser = tls_parser())]
    tls: Option<TlsMode>,
    /// Serve every user of this machine, running tasks as the user who submitted them (root only; data in
    /// /var/lib/warpyard unless --data)
    #[arg(long, env = "WARPYARD_SHARED", hide_env_values = true)]
    shared: bool,
    /// Socket of a shared server [default: /run/warpyard/socket]
    #[arg(long, value_name = "PATH", env = "WARPYARD_SOCKET", hide_env_values = true)]
    socket: Option<PathBuf>,
    /// Scheduling policy: name, or name:key=value,key=value [default: backfill]
    #[arg(long, value_name = "NAME[:K=V,..]", env = "WARPYARD_POLICY", hide_env_values = true)]
    policy: Option<PolicySpec>,
    /// Configuration file with these settings and more (`warpyard schema config`)
    #[arg(long, value_name = "FILE", env = "WARPYARD_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// GPUs: auto, none, or declared ones such as fake:4xV100:16GiB,2xK80:12GiB [default: auto]
    #[arg(long, value_name = "SPEC", env = "WARPYARD_GPUS", hide_env_values = true)]
    gpus: Option<String>,
    /// CPUs that tasks may use [default: all]
    #[arg(long, value_name = "N", env = "WARPYARD_CPUS", hide_env_values = true)]
    cpus: Option<MilliCpus>,
    /// Memory of each GPU that tasks may use together [default: all of it]
    #[arg(long, value_name = "SIZE", env = "WARPYARD_GPU_BUDGET", hide_env_values = true)]
    gpu_budget: Option<ByteSize>,
    /// How many tasks may share one GPU [default: as many as fit]
    #[arg(long, value_name = "N", env = "WARPYARD_TASKS_PER_GPU", hide_env_values = true)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    tasks_per_gpu: Option<u16>,
    /// Start with fake GPUs and a small varied workload, to try warpyard out
    #[arg(long)]
    demo: bool,
    /// Least severe level of log output [default: warn]
    #[arg(long, value_name = "LEVEL", env = "WARPYARD_LOG_LEVEL", hide_env_values = true, value_parser = level_parser())]
    log_level: Option<LogLevel>,
    /// Form of log output [default: text]
    #[arg(long, value_name = "FORMAT", env = "WARPYARD_LOG_FORMAT", hide_env_values = true, value_parser = format_parser())]
    log_format: Option<LogFormat>,
    /// Start the server without a worker on this machine
    #[arg(long)]
    no_worker: bool,
    /// How long workers of other machines may be silent before their tasks run elsewhere [default: 5m]
    #[arg(long, value_name = "TIME", env = "WARPYARD_LEASE", hide_env_values = true)]
    lease: Option<Micros>,
}

impl Up {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let demo = self.demo;
        run(self.options(context)?, |ready| {
            // Nobody need be reading for the server to serve.
            let _not_read = if context.global.json {
                context.print_json(&as_json(ready))
            } else {
                context.print(&format_ready(ready)).map_err(Into::into)
            };
            if demo {
                fill(ready);
            }
        })?;
        Ok(Exit::Fine)
    }

    fn options(self, context: &Context) -> anyhow::Result<Options> {
        let config = self.config.as_deref().map(Config::read).transpose()?.unwrap_or_default();
        logging::init(
            self.log_level.or(config.log_level).unwrap_or_default(),
            self.log_format.or(config.log_format).unwrap_or_default(),
        );
        let demo_gpus = (self.demo && config.gpus.is_none()).then(|| demo::GPUS.to_owned());
        let itself = std::env::current_exe().context("this program cannot find its own file")?;
        let shared = self.shared || config.shared;
        let env = |name: &str| std::env::var(name).ok();
        let data = match (&context.global.data, env("WARPYARD_DATA")) {
            (None, None) if shared => SHARED_DATA.into(),
            (flag, _) => data_dir(flag.as_deref(), env),
        };
        Ok(Options {
            data,
            config,
            listen: self.listen,
            tls: self.tls,
            shared,
            socket: self.socket,
            policy: self.policy.map(|policy| policy.to_string()),
            gpus: self.gpus.or(demo_gpus),
            cpus: self.cpus.map(|cpus| cpus.0),
            gpu_budget: self.gpu_budget.map(|budget| budget.0),
            tasks_per_gpu: self.tasks_per_gpu,
            no_worker: self.no_worker,
            lease: self.lease,
            spawner: (itself, vec!["spawner".to_owned()]),
        })
    }
}

fn tls_parser() -> impl TypedValueParser<Value = TlsMode> {
    PossibleValuesParser::new(["auto", "on", "off"]).map(|word| match word.as_str() {
        "on" => TlsMode::On,
        "off" => TlsMode::Off,
        _ => TlsMode::Auto,
    })
}

/// Submits the demonstration, beside the server.
fn fill(ready: &ReadyReport) {
    let data = ready.data.clone();
    std::thread::spawn(move || {
        let own = find_server(None, Some(&data), |_| None).and_then(Client::new);
        let filled = own.and_then(|client| demo::submit(&client));
        if let Err(error) = filled {
            eprint!("{}", crate::exit::rendered(&error.into()));
        }
    });
}

fn format_ready(ready: &ReadyReport) -> String {
    let mut out = format!("warpyard {} at {}\n", env!("CARGO_PKG_VERSION"), ready.url);
    let mut line =
        |label: &str, value: &str| writeln!(out, "  {label:<8} {value}").expect("a string takes all");
    // What a service says is in the machine's journal, and more people read that than may do everything here.
    let kept = ready.socket.is_some() && !io::stdout().is_terminal();
    line("open", if kept { "the link that `warpyard login` prints" } else { &ready.login });
    if let Some(ca) = &ready.ca {
        line("tls", &format!("with its own CA, {ca}"));
    }
    if ready.exposed {
        line(
            "warning",
            "plain HTTP on a network: whoever listens in learns tokens and jobs; leave --tls off out",
        );
    }
    if let Some(socket) = &ready.socket {
        line("serves", &format!("every user of this machine, at {}", socket.display()));
    }
    line("data", &ready.data.display().to_string());
    line("policy", &ready.policy);
    match &ready.devices {
        None => line("worker", "none on this machine"),
        Some(found) if ready.gpus == 0 => line("gpus", &format!("none ({found}); tasks run on CPUs only")),
        Some(found) => line("gpus", &format!("{} ({found})", ready.gpus)),
    }
    if ready.devices.is_some() {
        line("cpus", &MilliCpus(ready.cpus).to_string());
    }
    ready.unenforced.iter().for_each(|limit| line("limits", limit));
    if ready.running > 0 {
        line("resumed", &counted(ready.running as u64, "running task"));
    }
    for repair in &ready.repairs {
        line("repaired", repair);
    }
    line("try", if ready.gpus > 0 { "warpyard run --gpus 1 -- env" } else { "warpyard run -- date" });
    out
}

fn as_json(ready: &ReadyReport) -> serde_json::Value {
    json!({"url": ready.url, "ca": ready.ca, "socket": ready.socket, "login": ready.login, "data": ready.data, "policy": ready.policy, "gpus": ready.gpus,
           "cpus": MilliCpus(ready.cpus), "running": ready.running, "unenforced": ready.unenforced, "repairs": ready.repairs})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> ReadyReport {
        ReadyReport {
            url: "http://127.0.0.1:7700".to_owned(),
            ca: None,
            exposed: false,
            socket: None,
            login: "http://127.0.0.1:7700/login?once=5f0c".to_owned(),
            data: "/data".into(),
            policy: "backfill".to_owned(),
            devices: Some("no NVIDIA library, no AMD card".to_owned()),
            gpus: 0,
            cpus: 8000,
            replayed: 0,
            running: 2,
            unenforced: vec![],
            repairs: vec![],
        }
    }

    #[test]
    fn a_machine_without_gpus_is_told_so_and_offers_cpus() {
        insta::assert_snapshot!(format_ready(&ready()), @"
        warpyard 0.1.0 at http://127.0.0.1:7700
          open     http://127.0.0.1:7700/login?once=5f0c
          data     /data
          policy   backfill
          gpus     none (no NVIDIA library, no AMD card); tasks run on CPUs only
          cpus     8
          resumed  2 running tasks
          try      warpyard run -- date
        ");
    }
}
