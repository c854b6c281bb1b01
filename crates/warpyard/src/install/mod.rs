//! Putting warpyard on a machine, and taking it off again: the program, a systemd unit, manual pages and completions.
//! What was written is listed in a file, so that taking back removes exactly that and never what was there before.

mod pages;
mod unit;

pub(crate) use pages::completions;

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// For whom warpyard is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everyone on this machine, by root.
    System,
    /// One user.
    User,
}

/// Paths of an installation.
#[derive(Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    scope: Scope,
    home: PathBuf,
}

/// A file to install.
pub(crate) struct InstallFile {
    pub(crate) path: PathBuf,
    pub(crate) content: Vec<u8>,
    pub(crate) mode: u32,
    /// A person may have changed it since: it is neither overwritten nor taken back then.
    pub(crate) editable: bool,
}

/// The manifest of an installation.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The program's version.
    pub(crate) version: String,
    /// The files that were written.
    pub(crate) files: Vec<PathBuf>,
    /// Files of the user's that were there already and were left as they are.
    #[serde(default)]
    pub(crate) kept: Vec<PathBuf>,
}

impl Layout {
    /// Everything below `root`, which is `/` but for tests and packages.
    pub(crate) fn new(root: PathBuf, scope: Scope, home: PathBuf) -> Layout {
        Layout { root, scope, home }
    }

    /// The path of a file: `system` for everyone, or `user` below one user's home.
    fn at(&self, system: &str, user: &str) -> PathBuf {
        match self.scope {
            Scope::System => self.root.join(system),
            Scope::User => {
                let home = self.home.strip_prefix("/").unwrap_or(&self.home);
                self.root.join(home).join(user)
            }
        }
    }

    /// The program, where units and people find it.
    pub(crate) fn program(&self) -> PathBuf {
        self.at("usr/local/bin/warpyard", ".local/bin/warpyard")
    }

    pub(crate) fn unit(&self) -> PathBuf {
        self.at("etc/systemd/system/warpyard.service", ".config/systemd/user/warpyard.service")
    }

    fn config(&self) -> PathBuf {
        self.at("etc/warpyard/config.toml", ".config/warpyard/config.toml")
    }

    fn list(&self) -> PathBuf {
        self.at("usr/local/share/warpyard/installed.json", ".local/share/warpyard/installed.json")
    }

    /// A path as it is once `root` is the machine's own.
    fn seen(&self, path: &Path) -> PathBuf {
        Path::new("/").join(path.strip_prefix(&self.root).unwrap_or(path))
    }

    /// All files of an installation.
    fn files_to_write(&self, program: Vec<u8>) -> Vec<InstallFile> {
        let file = |path, content| InstallFile { path, content, mode: 0o644, editable: false };
        let unit = unit::text(self.scope, &self.seen(&self.program()), &self.seen(&self.config()));
        let mut files_to_write = vec![
            InstallFile { path: self.program(), content: program, mode: 0o755, editable: false },
            file(self.unit(), unit.into_bytes()),
            InstallFile { path: self.config(), content: unit::CONFIG.into(), mode: 0o644, editable: true },
        ];
        let man = self.at("usr/local/share/man/man1", ".local/share/man/man1");
        files_to_write.extend(pages::manual().into_iter().map(|(name, text)| file(man.join(name), text)));
        for (shell, system, user) in pages::COMPLETIONS {
            files_to_write.push(file(self.at(system, user), pages::completions(shell)));
        }
        files_to_write
    }

    /// Writes everything, and the list of it.
    pub(crate) fn install(&self, program: Vec<u8>) -> io::Result<Manifest> {
        let before = self.installed()?.unwrap_or_default();
        let mut installed = Manifest { version: env!("CARGO_PKG_VERSION").into(), ..Manifest::default() };
        for InstallFile { path, content, mode, editable } in self.files_to_write(program) {
            if editable && path.exists() && fs::read(&path)? != content {
                installed.kept.push(path);
                continue;
            }
            write_atomically(&path, &content, mode)?;
            installed.files.push(path);
        }
        // What an older version wrote and this one does not is taken back.
        for stale in
            before.files.iter().filter(|f| !installed.files.contains(f) && !installed.kept.contains(f))
        {
            remove(stale)?;
        }
        let list = serde_json::to_vec_pretty(&installed)?;
        write_atomically(&self.list(), &list, 0o644)?;
        Ok(installed)
    }

    /// The manifest of what is installed, if anything is.
    pub(crate) fn installed(&self) -> io::Result<Option<Manifest>> {
        match fs::read(self.list()) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Removes what was written, and the directories that leaves empty. Data stays, and so does what a person changed.
    /// Gives what was removed and what was not.
    pub(crate) fn uninstall(&self, mut installed: Manifest) -> io::Result<Manifest> {
        let changed = |file: &mut PathBuf| {
            *file == self.config() && fs::read(file).is_ok_and(|content| content != unit::CONFIG.as_bytes())
        };
        installed.kept.extend(installed.files.extract_if(.., changed));
        for file in installed.files.iter().chain([&self.list()]) {
            remove(file)?;
            for dir in file.ancestors().skip(1).take_while(|dir| *dir != self.root) {
                let ours = dir.file_name().is_some_and(|name| name == "warpyard");
                if !ours || fs::remove_dir(dir).is_err() {
                    break;
                }
            }
        }
        Ok(installed)
    }
}

/// Writes a file so that there is the old one or the new one, never half of it, even while the old one runs.
fn write_atomically(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let dir = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).map_err(named)?;
    let temporary = dir.join(format!(".warpyard-{}", std::process::id()));
    let written = fs::write(&temporary, content)
        .and_then(|()| fs::set_permissions(&temporary, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&temporary, path));
    written.map_err(|e| {
        let _not_there = fs::remove_file(&temporary);
        named(e)
    })
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn layout(root: &Path, scope: Scope) -> Layout {
        Layout::new(root.to_owned(), scope, "/home/ann".into())
    }

    fn files(root: &Path) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut dirs = vec![root.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).expect("a directory").flatten() {
                match entry.path() {
                    path if path.is_dir() => dirs.push(path),
                    path => drop(found.insert(path)),
                }
            }
        }
        found
    }

    #[test]
    fn what_is_installed_is_taken_back_and_nothing_else() {
        for scope in [Scope::System, Scope::User] {
            let root = tempfile::tempdir().expect("a directory");
            let layout = layout(root.path(), scope);
            let others = layout.program().with_file_name("others");
            write_atomically(&others, b"not ours", 0o644).expect("written");
            let installed = layout.install(b"program".to_vec()).expect("installed");
            assert!(installed.files.len() > 20 && installed.kept.is_empty(), "{installed:?}");
            assert_eq!(layout.installed().expect("read").as_ref(), Some(&installed));
            let mode = fs::metadata(layout.program()).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
            layout.uninstall(installed).expect("taken back");
            assert_eq!(files(root.path()), BTreeSet::from([others]));
            assert_eq!(layout.installed().expect("read"), None);
        }
    }

    #[test]
    fn a_configuration_someone_changed_stays() {
        let root = tempfile::tempdir().expect("a directory");
        let layout = layout(root.path(), Scope::System);
        let one = layout.install(b"one".to_vec()).expect("installed");
        fs::write(layout.config(), "gpus = \"none\"\n").expect("changed");
        let gone = layout.uninstall(one).expect("taken back");
        assert_eq!(gone.kept, [layout.config()]);
        assert_eq!(files(root.path()), BTreeSet::from([layout.config()]));
        let again = layout.install(b"two".to_vec()).expect("installed again");
        assert_eq!(again.kept, [layout.config()]);
        assert_eq!(fs::read(layout.program()).expect("read"), b"two");
        assert_eq!(layout.uninstall(again).expect("taken back").kept, [layout.config()]);
        assert_eq!(files(root.path()), BTreeSet::from([layout.config()]));
    }

    #[test]
    fn a_service_keeps_no_device_from_tasks() {
        let text = unit::text(Scope::System, Path::new("/bin/warpyard"), Path::new("/etc/config.toml"));
        // Each of these closes devices, or keeps the driver from being loaded, on some version of systemd.
        for closes in
            ["ProtectClock", "PrivateDevices", "DeviceAllow", "DevicePolicy", "ProtectKernelModules"]
        {
            assert!(!text.contains(closes), "{closes}: {text}");
        }
    }

    #[test]
    fn the_configuration_that_is_installed_is_one() {
        let config: Result<warpyard_server::config::Config, _> = toml::from_str(unit::CONFIG);
        let plain = warpyard_server::config::Config::default();
        assert_eq!(config.expect("it is understood"), plain);
        // Every line can be taken as it stands.
        let taken: String = unit::CONFIG
            .lines()
            .skip(1)
            .map(|line| line.trim_start_matches("# ").to_owned() + "\n")
            .collect();
        let all: warpyard_server::config::Config = toml::from_str(&taken).expect("it is understood");
        assert!(all != plain && all.limits != plain.limits && all.private, "{taken}");
    }
}
