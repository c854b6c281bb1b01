//! `claim`, `claims`, `extend`, `adopt`: devices for work that the server does not start.

use crate::complete;
use crate::context::Context;
use crate::exit::Exit;
use crate::show;
use crate::submission::{Origin, login};
use crate::usage_error::UsageError;
use clap::Args;
use clap_complete::ArgValueCompleter;
use serde_json::{Map, Value, json};
use std::io::{self, IsTerminal};
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use warpyard_api::client::{Client, ClientError};
use warpyard_api::quantity::Micros;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{ClaimRequest, ClaimState, ClaimView};

/// Lease of a waiting claim. The server watches the process by itself, so this matters only where it cannot.
const LEASE: Micros = Micros(600_000_000);

/// How long we look for a server that went away while we wait, and how often: our place in the queue outlives it.
const LOOK_FOR: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Exit codes of shells for a program that does not exist, and one that cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Arguments of `claim`.
#[derive(Debug, Args)]
pub(crate) struct Claim {
    /// How many GPUs, or which: 2, or 0,2
    #[arg(long, value_name = "N|I,J", default_value = "1")]
    gpus: String,
    /// Memory on each GPU, such as 6GiB; the device may then be shared
    #[arg(long, value_name = "SIZE")]
    gpu_memory: Option<String>,
    /// Acceptable GPU types, comma separated
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    gpu_type: Vec<String>,
    /// Preferred devices
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    prefer: Vec<String>,
    /// Wait for the preferred devices only (queue), or take others when they are busy (schedule)
    #[arg(long, value_name = "MODE", value_parser = ["schedule", "queue"])]
    wait_mode: Option<String>,
    /// Priority; a larger number is more urgent [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// Name of the claim [default: the program's name]
    #[arg(long)]
    name: Option<String>,
    /// How long it lasts once granted, such as 2h; `extend` prolongs it [default: until the process ends]
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<Micros>,
    /// Print shell variables for this shell, which then holds the claim: eval "$(warpyard claim --export)"
    #[arg(long, conflicts_with = "command")]
    export: bool,
    /// Process with which the claim ends [default: the command, or the shell]
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<i32>,
    /// Command to run here once the devices are granted
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Claim {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.command.is_empty() && !self.export && self.pid.is_none() {
            return Err(UsageError::NothingToClaimFor.into());
        }
        let client = context.client()?;
        // A command takes the place of this very process, and so keeps its number.
        let own = std::process::id() as i32;
        let pid = self.pid.unwrap_or(if self.export { parent_id() as i32 } else { own });
        let claim = client.claim(&self.request(pid)).map_err(|error| Origin::Options.locate(error))?;
        let granted = wait(context, &client, claim)?;
        if self.export {
            return Ok(context.print(&exports(&granted)).map(|()| Exit::Fine)?);
        }
        let Some((program, arguments)) = self.command.split_first() else {
            return context.answer(&granted, |granted, screen| {
                show::claims::table(std::slice::from_ref(granted), screen)
            });
        };
        if io::stderr().is_terminal() {
            eprintln!("claim {}: {}", granted.claim, granted.devices.join(", "));
        }
        let failed = Command::new(program).args(arguments).envs(&granted.env).exec();
        // Still here, so there is nothing to hold devices for.
        let _ends_with_us_anyway = client.claim_release(&granted.claim);
        let code = if failed.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN };
        eprintln!("error: cannot run {}: {failed}", escape_controls(program));
        Ok(Exit::Task(code))
    }

    fn request(&self, pid: i32) -> ClaimRequest {
        let mut needs = Map::new();
        let mut give = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                needs.insert(field.to_owned(), value);
            }
        };
        let listed: Vec<&str> = self.gpus.split(',').collect();
        let (count, named) = match &listed[..] {
            [one] => (one.parse::<u64>().map_or_else(|_| json!(one), |n| json!(n)), vec![]),
            several => (json!(several.len()), several.iter().map(|d| device(d)).collect()),
        };
        give("gpus", Some(count));
        let preferred: Vec<Value> = named.into_iter().chain(self.prefer.iter().map(|d| device(d))).collect();
        give("gpu_preferred", (!preferred.is_empty()).then(|| json!(preferred)));
        give("gpu_memory", self.gpu_memory.as_ref().map(|m| json!(m)));
        give("gpu_type", (!self.gpu_type.is_empty()).then(|| json!(self.gpu_type)));
        give("wait_mode", self.wait_mode.as_ref().map(|m| json!(m)));
        give("priority", self.priority.map(|p| json!(p)));
        let program = self.command.first().and_then(|program| program.rsplit('/').next());
        let name = self.name.as_deref().or(program).unwrap_or("shell");
        give("name", Some(json!(name)));
        ClaimRequest { needs, user: login(), pid: Some(pid), lease: Some(LEASE), lasts: self.lasts }
    }
}

/// A number alone is a number in a document too.
fn device(text: &str) -> Value {
    text.parse::<u32>().map_or_else(|_| json!(text), |index| json!(index))
}

/// Waits for the devices; says once why that takes a while.
fn wait(context: &Context, client: &Client, mut claim: ClaimView) -> anyhow::Result<ClaimView> {
    let mut told = !io::stderr().is_terminal();
    loop {
        match claim.state {
            ClaimState::Held => return Ok(claim),
            ClaimState::Ending | ClaimState::Ended => return Err(UsageError::ClaimEnded(claim.claim).into()),
            ClaimState::Waiting => {}
        }
        if !told && let Some(why) = &claim.why {
            eprintln!(
                "claim {0} waits: {1}; `warpyard why {0}` says more",
                claim.claim,
                escape_controls(why)
            );
            told = true;
        }
        claim = match client.claim_granted(&claim.claim) {
            Err(ClientError::Unreachable { .. }) => find_again(context, &claim.claim)?,
            answered => answered?,
        };
    }
}

/// Asks for a claim again once the server is back, perhaps at another address.
fn find_again(context: &Context, claim: &str) -> Result<ClaimView, ClientError> {
    let until = Instant::now() + LOOK_FOR;
    loop {
        thread::sleep(LOOK_AGAIN);
        match context.client().and_then(|client| client.claim_granted(claim)) {
            Err(ClientError::Unreachable { .. } | ClientError::NoAddress { .. })
                if Instant::now() < until => {}
            answered => return answered,
        }
    }
}

/// The shell code of `--export`.
fn exports(claim: &ClaimView) -> String {
    let mut out = String::new();
    for (name, value) in claim
        .env
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .chain([("WARPYARD_CLAIM", claim.claim.as_str())])
    {
        out += &format!("export {name}='{}'\n", value.replace('\'', r"'\''"));
    }
    out
}

/// Arguments of `claims`.
#[derive(Debug, Args)]
pub(crate) struct Claims {}

impl Claims {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let claims = context.client()?.claims()?;
        context.answer(claims.as_slice(), show::claims::table)
    }
}

/// Arguments of `extend`.
#[derive(Debug, Args)]
pub(crate) struct Extend {
    /// The claim
    #[arg(value_name = "C", add = ArgValueCompleter::new(complete::claims))]
    claim: String,
    /// How much longer, such as 1h
    #[arg(value_name = "TIME")]
    by: Micros,
}

impl Extend {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let claim = context.client()?.claim_extend(&self.claim, self.by)?;
        context.answer(&claim, |claim, screen| show::claims::table(std::slice::from_ref(claim), screen))
    }
}

/// Arguments of `adopt`.
#[derive(Debug, Args)]
pub(crate) struct Adopt {
    /// The process that uses GPUs without a claim
    #[arg(value_name = "PID")]
    pid: i32,
}

impl Adopt {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let claim = context.client()?.adopt(self.pid)?;
        context.answer(&claim, |claim, screen| show::claims::table(std::slice::from_ref(claim), screen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(args: &[&str]) -> Claim {
        use clap::FromArgMatches;
        let matches =
            Claim::augment_args(clap::Command::new("claim")).get_matches_from([&["claim"], args].concat());
        Claim::from_arg_matches(&matches).expect("it is understood")
    }

    #[test]
    fn gpus_are_counted_or_named() {
        let needs = |args: &[&str]| Value::Object(claim(args).request(7).needs);
        assert_eq!(needs(&["--gpus", "2", "--", "/usr/bin/jupyter"]), json!({"gpus": 2, "name": "jupyter"}));
        let named = json!({"gpus": 2, "gpu_preferred": [0, 2], "wait_mode": "queue", "name": "shell"});
        assert_eq!(needs(&["--gpus", "0,2", "--wait-mode", "queue", "--export"]), named);
    }

    #[test]
    fn what_a_shell_is_told_to_set_cannot_break_out_of_its_quotes() {
        let view = json!({"claim": "7", "name": "shell", "user": "ann", "state": "held", "gpus": 1,
                          "env": {"CUDA_VISIBLE_DEVICES": "it's"}, "registered_at": "2026-01-01T00:00:00Z"});
        let view: ClaimView = serde_json::from_value(view).expect("a claim");
        assert_eq!(exports(&view), "export CUDA_VISIBLE_DEVICES='it'\\''s'\nexport WARPYARD_CLAIM='7'\n");
    }
}
