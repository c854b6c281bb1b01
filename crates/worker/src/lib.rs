//! A machine's agent: it finds the devices, runs attempts as processes that outlive it, and tells the server.
//!
//! [`probe`] looks at devices, [`accounts`] at accounts, [`supervise`] runs processes, [`tree_removal`] removes what users leave,
//! [`agent`] ties them to what the server wants.

pub mod accounts;
pub mod agent;
pub mod claim_holder;
pub mod inherited;
pub mod login_env;
pub mod probe;
pub mod supervise;
pub mod tree_removal;
