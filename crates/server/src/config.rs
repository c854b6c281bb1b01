//! What can be set, in one TOML file. A flag goes before an environment variable, and that before the file.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use warpyard_api::quantity::{ByteSize, Micros, MilliCpus};

/// The configuration file. Every field may be left out.
///
/// ```
/// let config: warpyard_server::config::Config = toml::from_str("policy = \"short-first:beta=2\"\ngpu_budget = \"14GiB\"").unwrap();
/// assert_eq!(config.policy.as_deref(), Some("short-first:beta=2"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where to listen; `127.0.0.1:7700` unless set.
    pub listen: Option<String>,
    /// Whether everyone on this machine is served, each as themselves; needs root.
    #[serde(default)]
    pub shared: bool,
    /// Where people of a shared machine find the server; `/run/warpyard/socket` unless set.
    pub socket: Option<PathBuf>,
    /// The Unix group whose members may do everything on a shared machine; `warpyard-admins` unless set.
    pub admins: Option<String>,
    /// Whether people of a shared machine see nothing of each other's jobs.
    #[serde(default)]
    pub private: bool,
    /// The policy at the first start, such as `short-first:beta=2`; later starts go on with the one last set.
    pub policy: Option<String>,
    /// The GPUs: `auto`, `none`, or declared ones such as `fake:4xV100:16GiB`.
    pub gpus: Option<String>,
    /// CPUs offered; all the machine has unless set.
    pub cpus: Option<MilliCpus>,
    /// Memory offered; all the machine has unless set.
    pub memory: Option<ByteSize>,
    /// How much of each GPU's memory may be shared out.
    pub gpu_budget: Option<ByteSize>,
    /// How many tasks may share a GPU.
    pub tasks_per_gpu: Option<u16>,
    /// Whether GPUs may be given more than fits; for experiments with policies that need it.
    #[serde(default)]
    pub overcommit: bool,
    /// The timeout of tasks that name none.
    pub default_timeout: Option<Micros>,
    /// How much of each task's output is kept; 64 MiB unless set.
    pub log_cap: Option<ByteSize>,
    /// How long output is kept; 30 days unless set.
    pub log_age: Option<Micros>,
    /// How long events are kept for replay; 30 days unless set.
    pub keep_events: Option<Micros>,
    /// A GPU with more utilisation than this, and none of ours on it, counts as someone else's; 10 unless set.
    pub busy_utilisation_percent: Option<u32>,
    /// A GPU with more memory in use than this that is nobody's of ours counts as someone else's; 50 MB unless set.
    pub busy_memory: Option<ByteSize>,
    /// Where NVIDIA's library is, if not where the system looks.
    pub nvml_library: Option<PathBuf>,
}

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{} is not a configuration of warpyard", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        source: Box<toml::de::Error>,
    },
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Io { path: path.into(), source })?;
        toml::from_str(&text).map_err(|e| ConfigError::Form { path: path.into(), source: Box::new(e) })
    }
}
