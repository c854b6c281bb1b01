//! `worker`: this machine as a worker of a server on another.

use crate::context::Context;
use crate::exit::Exit;
use crate::logging::{self, format_parser, level_parser};
use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use warpyard_api::client::data_dir;
use warpyard_api::quantity::MilliCpus;
use warpyard_api::token::JoinToken;
use warpyard_server::config::{LogFormat, LogLevel};
use warpyard_server::worker_daemon::{Options, WorkerReadyReport, run};

/// Arguments of `worker`.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Join token, as `warpyard token create --role worker` prints it; needed once
    #[arg(long, value_name = "TOKEN", env = "WARPYARD_JOIN", hide_env_values = true)]
    join: Option<String>,
    /// Name of the worker [default: the machine's]
    #[arg(long, value_name = "NAME", env = "WARPYARD_NAME", hide_env_values = true)]
    name: Option<String>,
    /// Labels by which jobs select it (`submit --on rack=a`), comma separated
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label)]
    labels: Vec<(String, String)>,
    /// GPUs: auto, none, or declared ones such as fake:4xV100:16GiB,2xK80:12GiB [default: auto]
    #[arg(long, value_name = "SPEC", env = "WARPYARD_GPUS", hide_env_values = true)]
    gpus: Option<String>,
    /// CPUs that tasks may use [default: all]
    #[arg(long, value_name = "N", env = "WARPYARD_CPUS", hide_env_values = true)]
    cpus: Option<MilliCpus>,
    /// Socket for the users of this machine, where the worker may vouch for them [default: /run/warpyard/socket]
    #[arg(long, value_name = "PATH", env = "WARPYARD_SOCKET", hide_env_values = true)]
    socket: Option<PathBuf>,
    /// Least severe level of log output [default: warn]
    #[arg(long, value_name = "LEVEL", env = "WARPYARD_LOG_LEVEL", hide_env_values = true, value_parser = level_parser())]
    log_level: Option<LogLevel>,
    /// Form of log output [default: text]
    #[arg(long, value_name = "FORMAT", env = "WARPYARD_LOG_FORMAT", hide_env_values = true, value_parser = format_parser())]
    log_format: Option<LogFormat>,
}

impl Worker {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        logging::init(self.log_level.unwrap_or_default(), self.log_format.unwrap_or_default());
        let join = self.join.as_deref().map(str::parse::<JoinToken>).transpose().context("--join")?;
        let itself = std::env::current_exe().context("this program cannot find its own file")?;
        let env = |name: &str| std::env::var(name).ok();
        let data = match (&context.global.data, env("WARPYARD_DATA")) {
            // Beside a server's, so that a machine can be both.
            (None, None) => {
                let mut beside = data_dir(None, env).into_os_string();
                beside.push("-worker");
                beside.into()
            }
            (flag, _) => data_dir(flag.as_deref(), env),
        };
        let options = Options {
            data,
            join,
            name: self.name,
            labels: self.labels.into_iter().collect(),
            gpus: self.gpus,
            cpus: self.cpus.map(|cpus| cpus.0),
            socket: self.socket,
            spawner: (itself, vec!["spawner".to_owned()]),
        };
        run(options, |ready| {
            // Nobody need be reading for the worker to work.
            let _not_read = match context.global.json {
                true => context.print_json(&as_json(ready)),
                false => context.print(&format_ready(ready)).map_err(Into::into),
            };
        })?;
        Ok(Exit::Fine)
    }
}

/// A label as it is written.
fn label(text: &str) -> Result<(String, String), String> {
    let is_word = |word: &str| {
        (1..=64).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match text.split_once('=') {
        Some((key, value)) if is_word(key) && is_word(value) => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write a label as rack=a, with letters, digits, '-', '_' and '.'".to_owned()),
    }
}

fn format_ready(ready: &WorkerReadyReport) -> String {
    let mut out = format!("warpyard {} worker {}\n", env!("CARGO_PKG_VERSION"), ready.name);
    let mut line =
        |label: &str, value: &str| writeln!(out, "  {label:<8} {value}").expect("a string takes all");
    line("server", &ready.server);
    line("data", &ready.data.display().to_string());
    match ready.gpus {
        0 => line("gpus", &format!("none ({}); tasks run on CPUs only", ready.devices)),
        some => line("gpus", &format!("{some} ({})", ready.devices)),
    }
    line("cpus", &MilliCpus(ready.cpus).to_string());
    if !ready.labels.is_empty() {
        let labels: Vec<_> = ready.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        line("labels", &labels.join(", "));
    }
    if let Some(socket) = &ready.socket {
        line("serves", &format!("every user of this machine, at {}", socket.display()));
    }
    out
}

fn as_json(ready: &WorkerReadyReport) -> serde_json::Value {
    json!({"name": ready.name, "server": ready.server, "data": ready.data, "gpus": ready.gpus,
           "cpus": MilliCpus(ready.cpus), "labels": ready.labels, "socket": ready.socket})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_pairs_of_words() {
        assert_eq!(label("rack=a"), Ok(("rack".to_owned(), "a".to_owned())));
        for wrong in ["rack", "rack=", "=a", "rack=a b", "rack=a=b"] {
            assert!(label(wrong).is_err(), "{wrong}");
        }
    }
}
