//! What can be set, in one TOML file. A flag goes before an environment variable, and that before the file.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use warpyard_api::quantity::{ByteSize, Micros, MilliCpus};
use warpyard_core::Span;
use warpyard_core::limits::{Caps, GpuTime, GroupCaps, Limits};

/// The configuration file. Every field may be left out.
///
/// ```
/// let config: warpyard_server::config::Config = toml::from_str("policy = \"short-first:beta=2\"\ngpu_budget = \"14GiB\"").unwrap();
/// assert_eq!(config.policy.as_deref(), Some("short-first:beta=2"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    description = "The server's configuration, for `warpyard up --config FILE`. TOML; every field may be left out."
)]
pub struct Config {
    /// Where to listen; `127.0.0.1:7700` unless set.
    pub listen: Option<String>,
    /// Further names the server goes by, such as `gpu1.lab.example` or, behind a tunnel, `localhost:9000`. Requests for
    /// other hosts are refused, but for addresses and this machine's own names.
    #[serde(default)]
    pub hosts: Vec<String>,
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
    /// After how long nothing was typed or printed in its terminal a session is ended that names no time; never unless set.
    pub session_idle: Option<Micros>,
    /// The longest such time a session may name; any unless set.
    pub session_idle_most: Option<Micros>,
    /// The longest grace period a task may ask for between being asked to end and being killed; 10 minutes unless set.
    pub max_grace: Option<Micros>,
    /// How much of each task's output is kept; 64 MiB unless set.
    pub log_cap: Option<ByteSize>,
    /// How long output is kept; 30 days unless set.
    pub log_age: Option<Micros>,
    /// How many processes and threads a task may have; 8192 unless set, or a quarter of what the machine has numbers for.
    /// Set, it also holds on a machine with the old cgroups only, where it makes starting a task a little slower.
    pub max_processes: Option<u64>,
    /// The most bytes a snapshot of a working directory may hold; 1 GiB unless set.
    pub snapshot_limit: Option<ByteSize>,
    /// How long events are kept for replay; 30 days unless set.
    pub keep_events: Option<Micros>,
    /// A GPU with more utilisation than this, and none of ours on it, counts as someone else's; 10 unless set.
    pub busy_utilisation_percent: Option<u32>,
    /// A GPU with more memory in use than this that is nobody's of ours counts as someone else's; 50 MB unless set.
    pub busy_memory: Option<ByteSize>,
    /// After how long it is pointed out that a task or claim does nothing with its GPUs: to its holder, and after as long
    /// again in the server's own output; 30 minutes unless set.
    pub idle_after: Option<Micros>,
    /// After how long such a task or claim is ended; never unless set.
    pub idle_release: Option<Micros>,
    /// Where NVIDIA's library is, if not where the system looks.
    pub nvml_library: Option<PathBuf>,
    /// The least severe level of log output; `warn` unless set.
    pub log_level: Option<LogLevel>,
    /// The form of log output; `text` unless set.
    pub log_format: Option<LogFormat>,
    /// TLS of the port.
    #[serde(default)]
    pub tls: TlsConfig,
    /// The workers of other machines.
    #[serde(default)]
    pub workers: WorkersConfig,
    /// Estimates of models.
    #[serde(default)]
    pub estimate: EstimateConfig,
    /// How much people may have.
    #[serde(default)]
    pub limits: LimitsConfig,
}

/// What concerns the estimates of jobs' models.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EstimateConfig {
    /// The share of jobs that are to stay below the memory requested for them; 0.95 unless set.
    pub share: Option<BoundShare>,
    /// A command that estimates the models of jobs in place of the clients that submit them: it reads the job as JSON on
    /// standard input and writes `{"tasks": {"train": {"peak": 5000000000}}}`. It runs as the server's user.
    #[serde(default)]
    pub command: Vec<String>,
    /// How long the command may take; 5 seconds unless set.
    pub timeout: Option<Micros>,
}

/// A share of jobs, at least 0.5 and below 1: a bound that no job ever exceeds cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "f64")]
pub struct BoundShare(pub f64);

impl TryFrom<f64> for BoundShare {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        match share {
            0.5..1.0 => Ok(Self(share)),
            _ => Err(format!("{share} is not a share of at least 0.5 and below 1")),
        }
    }
}

/// TLS of the port. Without files, the server makes certificates with a CA of its own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Whether the port speaks TLS: `auto`, the default, does except on loopback; `on` always, `off` never.
    pub mode: Option<TlsMode>,
    /// A certificate of your own with its chain, in PEM; read again when it is renewed.
    pub cert: Option<PathBuf>,
    /// The key of that certificate, in PEM.
    pub key: Option<PathBuf>,
    /// The CA that clients are to know that certificate by, in PEM, where it is not one that every machine trusts.
    pub ca: Option<PathBuf>,
}

/// Whether the port speaks TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TlsMode {
    /// Except on loopback.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: on a network, whoever listens in learns every token.
    Off,
}

/// What concerns workers on other machines.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkersConfig {
    /// How long a worker may be silent before it is given up: its tasks run elsewhere then, unless they say otherwise. 5
    /// minutes unless given.
    pub lease: Option<Micros>,
    /// Workers that may vouch for the users of their machines, beside those that joined with a token made with `--vouch`.
    /// They never vouch for root or for admins.
    #[serde(default)]
    pub vouch: Vec<String>,
}

/// Severity of log output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Failures of the server itself.
    Error,
    /// And what needs attention, such as a lost worker.
    #[default]
    Warn,
    /// And the life of jobs and attempts.
    Info,
    /// And every placement and request to stop.
    Debug,
    /// Everything, also of the libraries used.
    Trace,
}

/// Form of a line of log output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Time, level, message and fields.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// How much people may have: a user's own limits go before those of their groups, and those before everyone's.
///
/// ```
/// let config: warpyard_server::config::Config = toml::from_str("
///     [limits.everyone]
///     gpus = 2
///     timeout = \"24h\"
///     gpu_hours = 100
///     priority = 10
///     [limits.users.ann]
///     gpus = 4
///     [limits.groups.students.together]
///     gpus = 4
/// ").unwrap();
/// let limits = config.limits.limits(false);
/// assert_eq!(limits.everyone.gpus, Some(2));
/// assert_eq!(limits.groups["students"].together.gpus, Some(4));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(
    description = "How much people may have: a user's own limits go before those of their groups, and those before everyone's."
)]
pub struct LimitsConfig {
    /// For each user.
    #[serde(default)]
    pub everyone: CapsConfig,
    /// For some users instead.
    #[serde(default)]
    pub users: BTreeMap<String, CapsConfig>,
    /// For members of Unix groups.
    #[serde(default)]
    pub groups: BTreeMap<String, GroupConfig>,
}

/// What members of a group may have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Each of them.
    #[serde(default)]
    pub each: CapsConfig,
    /// All of them together.
    #[serde(default)]
    pub together: CapsConfig,
}

/// How much someone may have; what is left out has no limit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapsConfig {
    /// GPUs at once; a share of one counts as one.
    pub gpus: Option<u32>,
    /// Tasks running at once.
    pub running: Option<u32>,
    /// Tasks waiting.
    pub queued: Option<u64>,
    /// The longest timeout; tasks that name none get it.
    pub timeout: Option<Micros>,
    /// GPU-hours in `window`. Tasks count with all they promised while they run, and with what they used afterwards.
    pub gpu_hours: Option<f64>,
    /// The window of `gpu_hours`; 7 days unless set.
    pub window: Option<Micros>,
    /// How much of each task's output is kept.
    pub log_size: Option<ByteSize>,
    /// The highest priority.
    pub priority: Option<i64>,
    /// The largest submission: a job document and its environment.
    pub submission_size: Option<ByteSize>,
    /// Job documents and environments of all jobs in memory, together.
    pub jobs_size: Option<ByteSize>,
    /// Snapshots kept.
    pub snapshots: Option<u64>,
    /// All snapshots kept, together.
    pub snapshots_size: Option<ByteSize>,
    /// Requests that are being answered at the same time.
    pub requests: Option<u32>,
}

/// What holds for everyone on a shared server where its configuration says nothing. No honest use comes near; it keeps
/// one user from filling the memory or taking all the server's time.
pub const SHARED: Caps = Caps {
    gpus: None,
    running: None,
    queued: Some(20_000_000),
    timeout: None,
    gpu_time: None,
    log_size: None,
    priority: None,
    submission_size: Some(12 << 20),
    jobs_size: Some(1 << 30),
    snapshots: Some(20_000),
    snapshots_size: Some(64 << 30),
    requests: Some(256),
};

/// The form of the configuration as JSON Schema.
pub fn config_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Config>();
    schema.insert("title".to_owned(), "warpyard configuration".into());
    schema.into()
}

/// In what time GPU-hours are counted where nothing is said: a week.
const WINDOW: Span = Span(7 * 24 * 3600 * 1_000_000);

impl LimitsConfig {
    /// The limits as they are put in force; on a shared server everyone has some by default.
    pub fn limits(&self, shared: bool) -> Limits {
        let group =
            |group: &GroupConfig| GroupCaps { each: group.each.caps(), together: group.together.caps() };
        Limits {
            everyone: self.everyone.caps().or(if shared { SHARED } else { Caps::default() }),
            users: self.users.iter().map(|(name, caps)| (name.clone(), caps.caps())).collect(),
            groups: self.groups.iter().map(|(name, caps)| (name.clone(), group(caps))).collect(),
        }
    }
}

impl CapsConfig {
    fn caps(&self) -> Caps {
        let window = self.window.map_or(WINDOW, |window| Span(window.0));
        Caps {
            gpus: self.gpus,
            running: self.running,
            queued: self.queued,
            timeout: self.timeout.map(|timeout| Span(timeout.0)),
            gpu_time: self.gpu_hours.map(|hours| GpuTime { most: Span::from_secs(hours * 3600.0), window }),
            log_size: self.log_size.map(|size| size.0),
            priority: self.priority,
            submission_size: self.submission_size.map(|size| size.0),
            jobs_size: self.jobs_size.map(|size| size.0),
            snapshots: self.snapshots,
            snapshots_size: self.snapshots_size.map(|size| size.0),
            requests: self.requests,
        }
    }
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
