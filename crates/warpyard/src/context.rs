//! The context of a command: how to reach the server, and where to print.

use crate::cli::Global;
use crate::exit::Exit;
use crate::show::Screen;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use warpyard_api::client::{Client, ClientError, data_dir, find_server};
use warpyard_api::private_dir::{self, AllowedOwner, PrivateDirError};
use warpyard_api::wire::PolicyView;

/// The context of a command.
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) screen: Screen,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        Self { global, screen: Screen::of_stdout() }
    }

    /// The server; nothing is sent yet.
    pub(crate) fn client(&self) -> Result<Client, ClientError> {
        let (server, data) = (self.global.server.as_deref(), self.global.data.as_deref());
        Client::new(find_server(server, data, |name| std::env::var(name).ok())?)
    }

    /// The policies of the server; those of this program where no server is known, so that they can be looked up for a
    /// simulation.
    pub(crate) fn policies(&self) -> Result<Vec<PolicyView>, ClientError> {
        match self.client() {
            Err(ClientError::NoAddress { .. }) => Ok(warpyard_server::policies()),
            client => client?.policies(),
        }
    }

    /// The data directory of a server on this machine, if only this user or root can have written it.
    pub(crate) fn data_dir(&self) -> Result<PathBuf, PrivateDirError> {
        let data = data_dir(self.global.data.as_deref(), |name| std::env::var(name).ok());
        private_dir::check(&data, AllowedOwner::OwnOrRoot)?;
        Ok(data)
    }

    /// Prints an answer: as JSON where that is asked for, otherwise as `human` shows it.
    pub(crate) fn answer<T: Serialize + ?Sized>(
        &self,
        answer: &T,
        human: impl FnOnce(&T, &Screen) -> String,
    ) -> anyhow::Result<Exit> {
        if self.global.json {
            self.print_json(answer)?;
        } else {
            self.print(&human(answer, &self.screen))?;
        }
        Ok(Exit::Fine)
    }

    /// One JSON value; over several lines only where a person may be reading.
    pub(crate) fn print_json(&self, value: &(impl Serialize + ?Sized)) -> anyhow::Result<()> {
        let text = match io::stdout().is_terminal() {
            true => serde_json::to_string_pretty(value)?,
            false => serde_json::to_string(value)?,
        };
        Ok(self.print(&(text + "\n"))?)
    }

    /// Text on standard output.
    pub(crate) fn print(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}
