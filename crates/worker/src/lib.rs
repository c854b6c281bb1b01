//! The worker: a machine's agent. It finds the GPUs, runs attempts as processes that outlive it, and reports to the server.
//!
//! [`probe`] reads devices, [`accounts`] looks up users, [`supervise`] runs processes, [`tree_removal`] removes directories that
//! belong to users, and [`agent`] drives all of them as the server's assignments demand.

pub mod accounts;
pub mod agent;
pub mod claim_holder;
pub mod inherited;
pub mod login_env;
pub mod probe;
pub mod supervise;
pub mod tree_removal;
