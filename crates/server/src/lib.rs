//! The server: the engine on a real clock and a real disk, and the HTTP interface to it.
//!
//! [`live`] is the engine's thread and its follower, [`store`] the disk, `http` the interface, `pages` what people see of it, [`up`] all of it together
//! with the worker inside. Nothing here decides what runs: that is the core's and the policies'.

pub mod backup;
mod clock;
pub mod config;
mod consistency;
mod convert;
mod data;
mod door;
mod ending;
mod enforcement;
mod events;
mod expect;
mod follower;
mod forecasts;
mod hosts;
mod http;
mod idle;
mod index;
mod lifecycle;
mod listing;
pub mod live;
mod login_envs;
mod logins;
mod logs;
mod measures;
mod pages;
mod recording;
pub mod recovery;
pub mod repairs;
mod replays;
mod replica;
mod room;
mod samples;
mod select;
mod serve;
pub mod simulated;
pub mod store;
#[cfg(test)]
mod testing;
pub mod up;
mod views;
mod who;
mod why;

pub use consistency::Inconsistent;
pub use data::{DataDir, DataError};
pub use follower::{Follower, FollowerError};
pub use http::openapi;
pub use recording::recording;
pub use replica::Reader;

/// Every policy there is, none of them in force.
pub fn policies() -> Vec<warpyard_api::wire::PolicyView> {
    views::policies(None, warpyard_policies::POLICIES)
}
