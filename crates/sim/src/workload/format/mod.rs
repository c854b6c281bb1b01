//! One file for each format a workload may be in.

pub mod alibaba;
pub mod csv;
pub mod gavel;
pub mod json;
pub mod own;
pub mod philly;
pub mod sacct;
pub mod swf;
