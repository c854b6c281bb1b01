//! Attempts as real processes: what is started, kept, frozen, ended and found again.

mod crowds;
mod ending;
mod limits;
mod output;
mod starting;
mod surviving;
mod yard;
