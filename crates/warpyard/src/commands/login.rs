//! `login`: a link that lets a browser in, or a personal token that lets this machine's commands reach another's server.

use crate::context::Context;
use crate::exit::Exit;
use crate::usage_error::UsageError;
use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use std::io::{self, BufRead, IsTerminal};
use warpyard_api::client::{
    ADDRESS_FILE, Client, ClientError, KnownServer, KnownServers, Target, data_dir, find_server,
};
use warpyard_api::token::{Fingerprint, PersonalToken, Secret, is_personal};
use warpyard_api::wire::TokenRequest;

/// Arguments of `login`.
#[derive(Debug, Args)]
pub(crate) struct Login {
    /// Log in to another machine's server with a personal token, and remember it; - reads it from standard input
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// Fingerprint of that server's CA, as `warpyard tls` prints it there [default: the token's]
    #[arg(long, value_name = "SHA256")]
    ca: Option<Fingerprint>,
}

impl Login {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        match (self.token, &context.global.server) {
            (Some(token), _) => {
                let token = if token == "-" { typed()? } else { token };
                remember(context, target(token.trim(), context.global.server.as_deref(), self.ca)?)
            }
            (None, Some(server)) => match known(context)? {
                // There is a token for it already: the person wants to see the pages.
                Some(client) => link(context, &client),
                None => log_in_from_here(context, server, self.ca),
            },
            (None, None) => link(context, &context.client()?),
        }
    }
}

/// Prints a link that lets one browser in.
fn link(context: &Context, client: &Client) -> anyhow::Result<Exit> {
    context.answer(&client.login()?, |view, _| format!("{}\n", view.login))
}

/// The server that was named, if it is the data directory's own or there is a personal token for it.
fn known(context: &Context) -> anyhow::Result<Option<Client>> {
    let (server, data) = (context.global.server.as_deref(), context.global.data.as_deref());
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let target = find_server(server, data, env)?;
    let address = std::fs::read_to_string(data_dir(data, env).join(ADDRESS_FILE)).unwrap_or_default();
    let logged_in = || match KnownServers::path(env) {
        Some(path) => Ok(KnownServers::read(&path)?.servers.contains_key(&target.url)),
        None => Ok::<_, ClientError>(false),
    };
    let known =
        target.is_socket() || env("WARPYARD_TOKEN").is_some() || address.trim() == target.url || logged_in()?;
    Ok(if known { Some(Client::new(target)?) } else { None })
}

/// Reads a token from standard input.
fn typed() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        eprintln!("Paste the token that `warpyard token create` printed, then press Enter:");
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("the token cannot be read")?;
    Ok(line)
}

/// The server of a token, or the one that was named.
fn target(token: &str, server: Option<&str>, ca: Option<Fingerprint>) -> anyhow::Result<Target> {
    if is_personal(token) {
        let token: PersonalToken = token.parse()?;
        let server = server.unwrap_or(&token.server);
        return Ok(Target::with_secret(server, ca.or(token.ca), token.secret.as_str()));
    }
    // A bare secret needs to be told where it belongs.
    let secret: Secret = token.parse()?;
    let server = server.ok_or(UsageError::WhichServer)?;
    Ok(Target::with_secret(server, ca, secret.as_str()))
}

/// Logs in with a token that the server makes for the person who calls through its socket on this machine, whom it knows by
/// the kernel's word.
fn log_in_from_here(context: &Context, server: &str, ca: Option<Fingerprint>) -> anyhow::Result<Exit> {
    let elsewhere = ["WARPYARD_SERVER", "WARPYARD_TOKEN"];
    let env = |name: &str| std::env::var(name).ok().filter(|_| !elsewhere.contains(&name));
    let here = match find_server(None, context.global.data.as_deref(), env) {
        Ok(here) if here.is_socket() => Client::new(here)?,
        Ok(_) | Err(ClientError::NoAddress { .. }) => {
            return Err(UsageError::NobodyKnowsYou(server.to_owned()).into());
        }
        Err(error) => return Err(error.into()),
    };
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let label = format!("login from {}", machine.trim()).chars().take(60).collect();
    let made = here.token_create(&TokenRequest { label: Some(label), ..TokenRequest::default() })?;
    let entered = target(&made.token, Some(server), ca).and_then(|target| remember(context, target));
    if entered.is_err() {
        // A token that nobody has must not stay; the first error is the one to tell of.
        let _left_to_expire = here.token_revoke(&made.view.id);
    }
    entered
}

/// Checks a token with its server, and stores it for the commands to come.
fn remember(context: &Context, target: Target) -> anyhow::Result<Exit> {
    let client = Client::new(target.clone())?;
    let version = client.info()?.version;
    let url = client.url().to_owned();
    let path = KnownServers::path(|name| std::env::var(name).ok()).ok_or(UsageError::NoHome)?;
    let mut known = KnownServers::read(&path)?;
    let token = target.token.unwrap_or_default();
    known.servers.insert(url.clone(), KnownServer { token, ca: target.ca });
    known.default = Some(url.clone());
    known.write(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let answer = json!({"server": url, "version": version, "file": path});
    context.answer(&answer, |_, _| {
        format!(
            "logged in to {url} (warpyard {version})\ncommands on this machine go there unless another server runs here; the \
             token is in {}\n",
            path.display()
        )
    })
}
