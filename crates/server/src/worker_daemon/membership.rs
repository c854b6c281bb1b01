//! A worker's membership of a cluster, in a file of its data directory: server, name and key, and the settings the server gave
//! last, so that a worker which restarts while the server is away still knows what runs here.

use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use warpyard_api::client::{Client, ClientError, Target};
use warpyard_api::token::{Fingerprint, JoinToken, Secret};
use warpyard_api::wire::WorkerSettings;

/// The name of the file.
const FILE: &str = "membership.json";

/// Why a worker is not a member.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// It never joined.
    #[error(
        "this worker has joined no server; run `warpyard token create --role worker` on the server, and `warpyard worker --join TOKEN` here"
    )]
    NotJoined,
    /// It belongs to another server.
    #[error(
        "this worker has joined the server at {joined}, and the token is of the one at {token}; choose another directory with --data"
    )]
    AnotherServer {
        /// The address of its server.
        joined: String,
        /// The address in the token.
        token: String,
    },
    /// The server refused it, or cannot be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A worker's membership.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Membership {
    pub(super) server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ca: Option<Fingerprint>,
    pub(super) name: String,
    key: String,
    /// Whether the server has taken the key. It is stored before it is sent, so that joining can be repeated.
    #[serde(default)]
    joined: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<WorkerSettings>,
    /// Whether it may vouch for the users of its machine.
    #[serde(default)]
    pub(super) vouch: bool,
}

impl Membership {
    /// The membership in a data directory, joining with the token where there is none yet.
    pub(super) fn take(
        data: &Path,
        token: Option<&JoinToken>,
        name: impl FnOnce() -> String,
    ) -> Result<Membership, MembershipError> {
        let known = Self::read(data)?;
        let mut member = match (known, token) {
            (Some(known), Some(token)) if known.joined && known.server != token.server => {
                let (joined, token) = (known.server, token.server.clone());
                return Err(MembershipError::AnotherServer { joined, token });
            }
            (Some(known), _) if known.joined => return Ok(known),
            (None, None) | (Some(_), None) => return Err(MembershipError::NotJoined),
            // A key that was stored and perhaps sent is used again: the server may have taken it.
            (Some(known), Some(token)) if known.server == token.server => known,
            (_, Some(token)) => {
                let random = |source| MembershipError::File { path: "/dev/urandom".into(), source };
                let key = Secret::generate().map_err(random)?.as_str().to_owned();
                let (server, ca) = (token.server.clone(), token.ca);
                Membership { server, ca, name: name(), key, joined: false, settings: None, vouch: false }
            }
        };
        let token = token.expect("a worker without a token has returned");
        member.write(data)?;
        let key = member.key.parse().expect("a key that was made here is one");
        let reply = Client::join(token, &member.name, &key)?;
        (member.joined, member.vouch, member.name) = (true, reply.vouch, reply.worker);
        member.write(data)?;
        Ok(member)
    }

    fn read(data: &Path) -> Result<Option<Membership>, MembershipError> {
        let path = data.join(FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MembershipError::File { path, source }),
        };
        let read = serde_json::from_slice(&text).map_err(io::Error::from);
        read.map(Some).map_err(|source| MembershipError::File { path, source })
    }

    /// Stores the membership, on disk before this returns: a key that the server takes must not be lost. Nobody else may read
    /// it, whatever the mode of the directory.
    fn write(&self, data: &Path) -> Result<(), MembershipError> {
        let path = data.join(FILE);
        let text = serde_json::to_vec_pretty(self).expect("strings and numbers can be written");
        replace(&path, &text).map_err(|source| MembershipError::File { path, source })
    }

    /// A client with the worker's key.
    pub(super) fn client(&self) -> Result<Client, ClientError> {
        Client::new(self.target())
    }

    /// The server, with the worker's key.
    pub(super) fn target(&self) -> Target {
        Target::with_secret(&self.server, self.ca, &self.key)
    }

    /// Asks the server for its settings and stores them. Where it does not answer, those it gave last count.
    pub(super) fn refresh(&mut self, data: &Path) -> Result<WorkerSettings, MembershipError> {
        match (self.client()?.own_worker(), self.settings.clone()) {
            (Ok(identity), known) => {
                let settings = identity.settings.or(known).ok_or_else(|| too_old(&self.server))?;
                (self.settings, self.vouch) = (Some(settings.clone()), identity.vouch);
                self.write(data)?;
                Ok(settings)
            }
            (Err(ClientError::Unreachable { .. }), Some(known)) => Ok(known),
            (Err(e), _) => Err(e.into()),
        }
    }
}

/// Replaces a file atomically and durably by one that only its owner may read.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    // A file that was left behind keeps its mode when it is opened again.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(path))?.sync_all()
}

fn too_old(server: &str) -> ClientError {
    let said =
        format!("the server at {server} is of a version that knows no workers on other machines; update it");
    let body = warpyard_api::wire::ProblemBody::new(404, warpyard_api::problem::code::NOT_FOUND, said);
    ClientError::Refused(Box::new(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_reads_the_key_even_in_a_directory_that_is_open() {
        let data = tempfile::tempdir().expect("a directory");
        fs::set_permissions(data.path(), Permissions::from_mode(0o755)).expect("opened");
        fs::write(data.path().join("membership.new"), "left behind").expect("written");
        let member = Membership {
            server: "https://127.0.0.1:7700".into(),
            ca: None,
            name: "gpu1".into(),
            key: "secret".into(),
            joined: true,
            settings: None,
            vouch: false,
        };
        member.write(data.path()).expect("stored");
        let mode = fs::metadata(data.path().join(FILE)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = Membership::take(data.path(), None, || unreachable!("it has a name")).expect("joined");
        assert_eq!((again.name.as_str(), again.key.as_str()), ("gpu1", "secret"));
    }
}
