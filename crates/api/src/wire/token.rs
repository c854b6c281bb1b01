//! Tokens of people and workers, and joining.

use super::Timestamp;
use crate::quantity::Micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the holder of a token may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenRole {
    /// See what users see, and change nothing.
    Viewer,
    /// What its user may do, but for what only admins may.
    #[default]
    User,
    /// Everything.
    Admin,
    /// Join a worker.
    Worker,
}

impl fmt::Display for TokenRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TokenRole::Viewer => "viewer",
            TokenRole::User => "user",
            TokenRole::Admin => "admin",
            TokenRole::Worker => "worker",
        })
    }
}

/// A token to be made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// What its holder may do; `user` unless given.
    #[serde(default)]
    pub role: TokenRole,
    /// Whose it is; the caller's unless given. Only admins name another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How many workers may join with it; 1 unless given. Only with the role `worker`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// How long it is valid; 1 hour with the role `worker` and 30 days with another unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Micros>,
    /// A note to know it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether workers that join with it may vouch for the users of their machines. Only with the role `worker`.
    #[serde(default)]
    pub vouch: bool,
    /// The address of the server that the token carries, where others reach it by another than it knows itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenReply {
    /// The token itself. It is shown this once.
    pub token: String,
    /// The token without its secret.
    #[serde(flatten)]
    pub view: TokenView,
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// Id, by which it is revoked.
    pub id: String,
    /// What its holder may do.
    pub role: TokenRole,
    /// Whose it is; join tokens are nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A note to know it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Whether it has expired or is used up.
    pub expired: bool,
    /// When it was last used, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// How many more workers may join with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
    /// Whether workers that join with it may vouch for the users of their machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub vouch: bool,
    /// The worker that vouched for the user who made it; it is revoked with that worker's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vouched_by: Option<String>,
}

/// A worker's request to join.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinRequest {
    /// The secret of the join token.
    pub secret: String,
    /// The worker's name.
    pub name: String,
    /// The key that the worker will authenticate by: a secret of 256 random bits that it made and stored before, so that a
    /// request whose answer was lost can be repeated.
    pub key: String,
}

/// Leaves the secrets out, because debug output ends up in logs.
impl fmt::Debug for JoinRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinRequest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The answer to a worker that joined; its key is valid from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinReply {
    /// The name it joined by.
    pub worker: String,
    /// Whether it may vouch for the users of its machine.
    pub vouch: bool,
    /// The certificate of the CA that its server's certificates come from, in PEM; none where the server speaks plain
    /// HTTP or has a certificate of a public CA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// The worker that a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerIdentity {
    /// Its name.
    pub worker: String,
    /// Whether it may vouch for the users of its machine.
    pub vouch: bool,
    /// How the server has it run tasks; absent where the server is of a version without workers on other machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<WorkerSettings>,
}

/// Settings that a server gives the workers of other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerSettings {
    /// How long a worker may be silent before it is given up.
    pub lease: Micros,
    /// Whether tasks run as their users.
    pub shared: bool,
    /// Most bytes of each output that are kept.
    pub log_cap: u64,
    /// Longest grace period of a task.
    pub max_grace: Micros,
    /// The event logs that numbered the server's jobs, the oldest first: paths of attempts contain their ids.
    pub logs: Vec<LogGeneration>,
}

/// An event log of the server, and the first job it numbered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogGeneration {
    /// UUID of the log; absent for jobs from before logs had one.
    pub log: Option<String>,
    /// Number of the first job.
    pub first_job: u64,
}

/// How others reach a server, and how they know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TlsView {
    /// The address that tokens carry.
    pub server: String,
    /// The fingerprint of the CA that the server's certificate comes from; none where it speaks plain HTTP or has a
    /// certificate of a public CA.
    pub fingerprint: Option<String>,
    /// The CA's certificate, in PEM.
    pub certificate: Option<String>,
}
