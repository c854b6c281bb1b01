//! The environment of the caller: login name, directory, and the variables to send with a job.

use crate::session;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use warpyard_api::wire::TerminalSize;
use warpyard_session::Size;

/// The environment in which the command was called.
#[derive(Debug)]
pub(crate) struct CallerEnvironment {
    /// The login name.
    pub(crate) user: Option<String>,
    /// The current directory.
    pub(crate) dir: io::Result<PathBuf>,
    /// Every variable.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// The size of the terminal.
    pub(crate) terminal: Option<TerminalSize>,
}

/// Variables that describe this shell and terminal, not the work.
const SESSION: [&str; 22] = [
    "_",
    "PWD",
    "OLDPWD",
    "SHLVL",
    "LINES",
    "COLUMNS",
    "WINDOWID",
    "WINDOWPATH",
    "TERM_SESSION_ID",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "VTE_VERSION",
    "GNOME_TERMINAL_SCREEN",
    "GNOME_TERMINAL_SERVICE",
    "KONSOLE_DBUS_SESSION",
    "ITERM_SESSION_ID",
    "STY",
    "TMUX",
    "TMUX_PANE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "GPG_TTY",
];

/// Prefixes of such variables. `SSH_AUTH_SOCK` would let a reader of the job's environment use this session's keys.
const SESSION_PREFIXES: [&str; 2] = ["SSH_", "XDG_SESSION_"];

/// The server's token is never part of a job.
const SECRET: &str = "WARPYARD_TOKEN";

impl CallerEnvironment {
    /// Reads it from this process.
    pub(crate) fn current() -> Self {
        Self {
            user: login(),
            dir: std::env::current_dir(),
            variables: std::env::vars_os().collect(),
            terminal: session::size().map(|Size { rows, columns }| TerminalSize { rows, columns }),
        }
    }

    /// The variables sent by default. One that is not UTF-8 cannot be sent.
    pub(crate) fn variables_to_send(&self) -> BTreeMap<String, String> {
        let text = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        self.variables.iter().filter_map(text).filter(|(name, _)| !stays(name)).collect()
    }

    /// One variable, if it is set and may be sent.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let found = self.variables.iter().find(|(key, _)| key == name && name != SECRET);
        found.and_then(|(_, value)| value.to_str().map(str::to_owned))
    }
}

fn stays(name: &str) -> bool {
    name == SECRET
        || SESSION.contains(&name)
        || SESSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// User name of the calling process: from the system's user database, otherwise from the shell's environment.
pub(crate) fn login() -> Option<String> {
    let listed = nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten();
    listed.map(|user| user.name).or_else(|| std::env::var("USER").ok()).filter(|name| !name.is_empty())
}
