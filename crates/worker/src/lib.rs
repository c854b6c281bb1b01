//! A machine's agent: it finds the devices, runs attempts as processes that outlive it, and tells the server.
//!
//! [`probe`] looks at devices, [`people`] at accounts, [`supervise`] runs processes, [`remove`] removes what users leave,
//! [`agent`] ties them to what the server wants.

pub mod agent;
pub mod hold;
pub mod inherit;
pub mod login_env;
pub mod people;
pub mod probe;
pub mod remove;
pub mod supervise;
