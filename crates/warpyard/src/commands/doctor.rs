//! `doctor`: looks the installation over.

use crate::context::Context;
use crate::doctor::{self, Finding, Health};
use crate::exit::Exit;
use crate::show::{Paint, Screen};
use clap::Args;
use std::fmt::Write;
use warpyard_api::client::data_dir;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client().ok();
        let data = data_dir(context.global.data.as_deref(), |name| std::env::var(name).ok());
        let findings = doctor::examine(client.as_ref(), &data);
        context.answer(findings.as_slice(), format_findings)?;
        let bad = findings.iter().any(|f| f.health == Health::Bad);
        Ok(if bad { Exit::WorkFailed } else { Exit::Fine })
    }
}

fn format_findings(findings: &[Finding], screen: &Screen) -> String {
    let mut out = String::new();
    for Finding { check, health, found, remedy } in findings {
        let (word, paint) = match health {
            Health::Fine => ("ok  ", Paint::Green),
            Health::Warning => ("warn", Paint::Yellow),
            Health::Bad => ("BAD ", Paint::Red),
        };
        writeln!(out, "{}  {check:<11} {found}", screen.paint(word, paint)).expect("a string takes all");
        if let Some(remedy) = remedy {
            writeln!(out, "      {:<11} {remedy}", "").expect("a string takes all");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_well_is_followed_by_what_to_do() {
        let remedy = Some("make room".to_owned());
        let findings = [
            Finding { check: "gpus", health: Health::Fine, found: "2".into(), remedy: None },
            Finding { check: "disk", health: Health::Bad, found: "1 MiB free".into(), remedy },
        ];
        let said = format_findings(&findings, &Screen::for_tests(None));
        assert_eq!(said, "ok    gpus        2\nBAD   disk        1 MiB free\n                  make room\n");
    }
}
