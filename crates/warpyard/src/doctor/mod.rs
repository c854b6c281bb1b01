//! Looking an installation over: each check is a function that says what it found and, where that is not well, what to
//! do. Nothing here changes anything.

mod machine;
mod service;

use serde::Serialize;
use std::path::Path;
use warpyard_api::client::Client;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Health {
    /// As it should be.
    Fine,
    /// It works, with limitations.
    Warning,
    /// It does not work.
    Bad,
}

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) health: Health,
    pub(crate) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

impl Finding {
    fn fine(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, health: Health::Fine, found: found.into(), remedy: None }
    }

    fn warning(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { check, health: Health::Warning, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn bad(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { check, health: Health::Bad, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// The findings of all checks, for the data directory `data` and the server, if one is known.
pub(crate) fn examine(client: Option<&Client>, data: &Path) -> Vec<Finding> {
    let mut findings = service::server(client);
    findings.extend(machine::gpus());
    findings.extend(machine::device_files());
    findings.push(machine::freezing());
    findings.push(machine::processes());
    match service::data_of_everyones(client, data) {
        Some(theirs) => findings.push(machine::disk(&theirs)),
        None => {
            findings.extend([machine::data(data), machine::disk(data)]);
            findings.extend(machine::records(data));
        }
    }
    findings.extend(machine::repairs(data));
    findings.push(machine::clock());
    findings.push(machine::open_files());
    if let Some(client) = client {
        findings.extend(service::foreign_gpus(client));
        findings.extend(service::idle_gpus(client));
        findings.extend(service::claims(client));
    }
    findings
}
