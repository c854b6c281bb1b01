//! Servers that this user has logged in to from this machine: a file in the user's configuration directory, for the user
//! alone, with the personal token and the CA's fingerprint of each.

use super::ClientError;
use crate::token::Fingerprint;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Servers by address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownServers {
    /// The server that commands go to where no other is named and none runs on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Servers by address, such as `https://gpu1:7700`.
    #[serde(default)]
    pub servers: BTreeMap<String, KnownServer>,
}

/// What is known of a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownServer {
    /// The secret of the personal token.
    pub token: String,
    /// The fingerprint of its CA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<Fingerprint>,
}

/// Leaves the token out, because debug output ends up in logs.
impl std::fmt::Debug for KnownServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownServer").field("ca", &self.ca).finish_non_exhaustive()
    }
}

impl KnownServers {
    /// The file's path for a user with this environment; none without a home directory.
    pub fn path(env: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let set = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
        Some(config.join("warpyard/servers.toml"))
    }

    /// Reads the file; one that is not there knows no server. One that others could read or have written is refused.
    pub fn read(path: &Path) -> Result<KnownServers, ClientError> {
        let failed = |source| ClientError::UnreadableFile { path: path.to_owned(), source };
        let found = match fs::metadata(path) {
            Ok(found) => found,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                return Ok(KnownServers::default());
            }
            Err(e) => return Err(failed(e)),
        };
        let mode = found.mode() & 0o777;
        if found.uid() != geteuid().as_raw() {
            // Such as that of the user who became root with `su`.
            return Ok(KnownServers::default());
        }
        if mode & 0o077 != 0 {
            return Err(ClientError::ExposedFile { path: path.to_owned(), mode });
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        toml::from_str(&text).map_err(|e| failed(io::Error::new(io::ErrorKind::InvalidData, e)))
    }

    /// Replaces the file, for the user alone.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        if let Some(dir) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let _left_by_one_that_was_killed = fs::remove_file(&beside);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(b"# Servers you have logged in to; written by `warpyard login`.\n")?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_was_written_is_read_by_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/servers.toml");
        assert_eq!(KnownServers::read(&path).unwrap(), KnownServers::default());
        let server = KnownServer { token: "wys_x".into(), ca: Some(Fingerprint::of_der(b"ca")) };
        let known = KnownServers {
            default: Some("https://gpu1:7700".into()),
            servers: BTreeMap::from([("https://gpu1:7700".into(), server)]),
        };
        known.write(&path).unwrap();
        known.write(&path).unwrap();
        assert_eq!(KnownServers::read(&path).unwrap(), known);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = KnownServers::read(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        assert!(!format!("{known:?}").contains("wys_x"));
    }
}
