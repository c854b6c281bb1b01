//! `snapshot`: the directory a job runs in a copy of, compared with now.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show::counted;
use anyhow::Context as _;
use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use warpyard_api::text::escape_controls;
use warpyard_snapshot::{Change, Manifest, PackedDir, changes};

/// Arguments of `snapshot`.
#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    /// What changed in the directory since the job was submitted
    Diff {
        /// A job: 412, last
        #[arg(value_name = "J", add = ArgValueCompleter::new(complete::jobs))]
        job: String,
    },
}

impl Snapshot {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let SnapshotCommand::Diff { job } = self.command;
        let client = context.client()?;
        let before: Manifest = client.snapshot_of(&job)?;
        let kept = client.job(&job, false, None)?.snapshot.context("the job has no snapshot")?;
        let now = PackedDir::of(Path::new(&kept.from), u64::MAX)?.manifest;
        let found = changes(&before, &now);
        let row = |change: &Change| json!({"change": word(change), "path": path(change)});
        let rows: Vec<_> = found.iter().map(row).collect();
        let answer = json!({"snapshot": kept.snapshot, "from": kept.from, "changes": rows});
        context.answer(&answer, |_, _| format_changes(&kept.from, kept.files, &found))
    }
}

fn format_changes(from: &str, files: u64, found: &[Change]) -> String {
    if found.is_empty() {
        return format!("{} is as it was ({})\n", escape_controls(from), counted(files, "file"));
    }
    let mut out = String::new();
    for change in found {
        let mode = match change {
            Change::Mode(_, was, is) => format!("  ({was:03o} -> {is:03o})"),
            _ => String::new(),
        };
        writeln!(out, "{:<8} {}{mode}", word(change), escape_controls(path(change)))
            .expect("a string takes all");
    }
    out
}

fn word(change: &Change) -> &'static str {
    match change {
        Change::Added(_) => "added",
        Change::Removed(_) => "removed",
        Change::Changed(_) => "changed",
        Change::Mode(..) => "mode",
    }
}

fn path(change: &Change) -> &str {
    match change {
        Change::Added(path) | Change::Removed(path) | Change::Changed(path) | Change::Mode(path, ..) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_stand_one_in_a_line() {
        let found = [Change::Changed("lib/a.py".into()), Change::Mode("run.sh".into(), 0o755, 0o644)];
        insta::assert_snapshot!(format_changes("/home/ann", 2, &found), @"
        changed  lib/a.py
        mode     run.sh  (755 -> 644)
        ");
        assert_eq!(format_changes("/home/ann", 1, &[]), "/home/ann is as it was (1 file)\n");
    }
}
