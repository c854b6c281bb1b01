//! The server: the engine on a real clock and a real disk, and the HTTP interface to it.
//!
//! [`engine`] is the engine's thread, `replicator` and `replica` the read side, [`store`] the disk, `http` the interface,
//! `pages` its web pages and [`daemon`] all of it together with the in-process worker. Nothing here decides what runs:
//! the core and the policies do.

mod app;
mod auth;
pub mod backup;
mod caller;
mod catch_up;
mod change_feed;
mod clock;
pub mod config;
mod consistency;
mod convert;
pub mod daemon;
mod data;
mod enforcement;
pub mod engine;
mod estimate_command;
mod event_logging;
mod forecast;
mod forecast_cache;
pub mod forwarder;
mod hosts;
mod http;
mod idle_gpus;
mod job_index;
mod latency;
mod listing;
mod login_envs;
mod login_sessions;
mod logs;
mod model_admission;
mod outcome_text;
mod output_tail;
mod pages;
mod quota;
mod recording;
pub mod recovery;
mod remote_workers;
pub mod repairs;
mod replays;
mod replica;
mod replicator;
mod router;
mod select;
mod serve;
mod shortage_text;
pub mod simulated_server;
mod simulation;
pub mod store;
mod summary;
#[cfg(test)]
mod testing;
mod tls;
mod tokens;
mod units;
mod unix_listener;
mod usage_samples;
mod views;
mod why;
pub mod worker_daemon;
mod worker_protocol;

pub use catch_up::ReplicaError;
pub use consistency::ConsistencyError;
pub use data::{DataDir, DataError};
pub use http::openapi;
pub use recording::recording;
pub use replica::Reader;
pub use replicator::Replicator;
pub use tls::TlsError;
pub use tokens::TokenFileError;
pub use unix_listener::BindError;

/// Every policy there is, none of them in force.
pub fn policies() -> Vec<warpyard_api::wire::PolicyView> {
    views::policies(None, warpyard_policies::POLICIES)
}
