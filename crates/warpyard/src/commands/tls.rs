//! `tls`: how other machines reach the server, and by which CA they know it.

use crate::context::Context;
use crate::exit::Exit;
use crate::usage_error::UsageError;
use clap::{Args, Subcommand};
use std::fmt::Write;
use warpyard_api::wire::TlsView;

/// Arguments of `tls`.
#[derive(Debug, Args)]
pub(crate) struct Tls {
    #[command(subcommand)]
    command: Option<TlsCommand>,
}

#[derive(Debug, Subcommand)]
enum TlsCommand {
    /// Print the certificate of the server's CA in PEM, for browsers and other programs to trust
    Ca,
}

impl Tls {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let view = context.client()?.tls()?;
        match self.command {
            None => context.answer(&view, |view, _| told(view)),
            Some(TlsCommand::Ca) => {
                let certificate = view.certificate.clone().ok_or(UsageError::NoCa)?;
                context.answer(&view, |_, _| certificate)
            }
        }
    }
}

fn told(view: &TlsView) -> String {
    let mut out = format!("server       {}\n", view.server);
    match &view.fingerprint {
        Some(print) => {
            writeln!(out, "fingerprint  {print}").expect("a string takes all");
            out += "\nBrowsers trust it once its CA is imported: `warpyard tls ca > warpyard-ca.pem`\n";
        }
        None if view.server.starts_with("https://") => {
            out +=
                "certificate  from the files in the configuration; clients trust it as their machines do\n";
        }
        None => out += "plain HTTP; `warpyard up --listen 0.0.0.0:7700` serves other machines, with TLS\n",
    }
    out
}
