//! `install` and `uninstall`: warpyard as a service of this machine, or of one user.

use crate::context::Context;
use crate::exit::Exit;
use crate::install::{Layout, Manifest, Scope};
use crate::usage_error::UsageError;
use anyhow::Context as _;
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where to install and for whom.
#[derive(Debug, Args)]
struct InstallOptions {
    /// Install a service of your own, without root [default: a service of the machine if you are root]
    #[arg(long)]
    user: bool,
    /// Install below this directory, for packaging; nothing is started
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl InstallOptions {
    fn layout(&self) -> anyhow::Result<(Layout, Scope)> {
        let is_root = nix::unistd::geteuid().is_root();
        let scope = if self.user || (!is_root && self.root.is_none()) { Scope::User } else { Scope::System };
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let home = home.filter(|h| h.is_absolute()).ok_or(UsageError::NoHome)?;
        let root = match &self.root {
            Some(root) => std::path::absolute(root)?,
            None => "/".into(),
        };
        Ok((Layout::new(root, scope, home), scope))
    }
}

/// Arguments of `install`.
#[derive(Debug, Args)]
pub(crate) struct Install {
    #[command(flatten)]
    options: InstallOptions,
    /// Write the files but start nothing
    #[arg(long)]
    no_start: bool,
}

impl Install {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (layout, scope) = self.options.layout()?;
        let itself = std::env::current_exe().context("this program cannot find its own file")?;
        let program = std::fs::read(&itself).with_context(|| format!("cannot read {}", itself.display()))?;
        let installed = layout.install(program)?;
        let starts = !self.no_start && self.options.root.is_none();
        let mut did = Vec::new();
        if scope == Scope::System && self.options.root.is_none() {
            did.push(step("groupadd", &["--system", "--force", "warpyard-admins"]));
        }
        if starts && is_systemd_here() {
            did.push(systemctl(scope, &["daemon-reload"]));
            did.push(systemctl(scope, &["enable", "warpyard.service"]));
            // One that runs is of the program as it was before; what it runs goes on meanwhile.
            did.push(systemctl(scope, &["restart", "warpyard.service"]));
        }
        context.answer(&installed, |installed, _| format_installed(installed, &did, next(scope, starts)))
    }
}

/// Arguments of `uninstall`.
#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    #[command(flatten)]
    options: InstallOptions,
}

impl Uninstall {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let (layout, scope) = self.options.layout()?;
        let installed = layout.installed()?.ok_or(UsageError::NotInstalled)?;
        let mut did = Vec::new();
        if self.options.root.is_none() && is_systemd_here() {
            did.push(systemctl(scope, &["disable", "--now", "warpyard.service"]));
        }
        let installed = layout.uninstall(installed)?;
        if self.options.root.is_none() && is_systemd_here() {
            did.push(systemctl(scope, &["daemon-reload"]));
        }
        context.answer(&installed, |installed, _| {
            let mut out = String::new();
            for line in &did {
                writeln!(out, "{line}").expect("a string takes all");
            }
            out += &listed("removed", &installed.files);
            out += &listed("kept", &installed.kept);
            out + match scope {
                Scope::System => "the data and the group warpyard-admins stay; tasks that run go on\n",
                Scope::User => "the data stays where it is; tasks that run go on\n",
            }
        })
    }
}

/// A list of files, one per line; manual pages are summed up in one.
fn listed(what: &str, files: &[PathBuf]) -> String {
    let is_page = |file: &&PathBuf| file.extension().is_some_and(|e| e == "1");
    let mut lines: Vec<_> = files.iter().filter(|f| !is_page(f)).map(|f| f.display().to_string()).collect();
    let pages: Vec<_> = files.iter().filter(is_page).collect();
    if let [page, ..] = &pages[..] {
        let dir = page.parent().unwrap_or(Path::new("/")).display();
        lines.push(format!("{} manual pages in {dir}", pages.len()));
    }
    lines.iter().map(|line| format!("{what:<8} {line}\n")).collect()
}

fn format_installed(installed: &Manifest, did: &[String], next: &str) -> String {
    let mut out = listed("wrote", &installed.files);
    for file in &installed.kept {
        writeln!(out, "{:<8} {}, which was changed", "kept", file.display()).expect("a string takes all");
    }
    for did in did {
        writeln!(out, "{did}").expect("a string takes all");
    }
    out + next
}

fn next(scope: Scope, started: bool) -> &'static str {
    match (scope, started && is_systemd_here()) {
        (Scope::System, true) => {
            "people use it as `warpyard run --gpus 1 -- …`; `warpyard doctor` looks it over\n"
        }
        (Scope::System, false) => {
            "start it with `systemctl enable --now warpyard`, or `warpyard up --shared`\n"
        }
        (Scope::User, true) => "`warpyard doctor` looks it over\n",
        (Scope::User, false) => "start it with `systemctl --user enable --now warpyard`, or `warpyard up`\n",
    }
}

fn is_systemd_here() -> bool {
    Path::new("/run/systemd/system").exists()
}

fn systemctl(scope: Scope, args: &[&str]) -> String {
    let own: &[&str] = if scope == Scope::User { &["--user"] } else { &[] };
    step("systemctl", &[own, args].concat())
}

/// Runs a tool of the system's, and says what came of it.
fn step(tool: &str, args: &[&str]) -> String {
    let ran = Command::new(tool).args(args).stdin(Stdio::null()).output();
    let line = format!("{tool} {}", args.join(" "));
    match ran {
        Ok(done) if done.status.success() => format!("did      {line}"),
        Ok(done) => format!("failed   {line}: {}", String::from_utf8_lossy(&done.stderr).trim()),
        Err(e) => format!("failed   {line}: {e}"),
    }
}
