//! Process attributes the server changes for itself and tasks must not inherit: its umask, which denies others every file it
//! creates, and its soft limit of open files, which it raises to the hard limit. The spawner restores both.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

/// The umask and the soft limit of open files this process was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InheritedSettings {
    umask: u32,
    open_files: Option<u64>,
}

impl InheritedSettings {
    /// Sets the umask to 077 and raises the limit of open files to the hard limit; returns the values from before.
    pub fn override_for_server() -> InheritedSettings {
        let before = umask(Mode::from_bits_truncate(0o077));
        let open_files = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, hard)| {
            // Where it cannot be raised, the server admits fewer connections.
            let _as_it_was = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
            soft
        });
        InheritedSettings { umask: before.bits(), open_files }
    }

    /// The arguments of the spawner that [`restore`](Self::restore) reads.
    pub fn to_args(self) -> Vec<String> {
        let open_files = self.open_files.map(|soft| format!("nofile={soft}"));
        std::iter::once(format!("umask={:o}", self.umask)).chain(open_files).collect()
    }

    /// Restores the values in a spawner's arguments. Unknown arguments are ignored: they may be a newer version's.
    pub fn restore(args: impl Iterator<Item = String>) {
        for arg in args {
            match arg.split_once('=') {
                Some(("umask", octal)) => {
                    if let Ok(bits) = u32::from_str_radix(octal, 8) {
                        umask(Mode::from_bits_truncate(bits));
                    }
                }
                Some(("nofile", number)) => {
                    if let (Ok(soft), Ok((_, hard))) = (number.parse(), getrlimit(Resource::RLIMIT_NOFILE)) {
                        let _as_it_was = setrlimit(Resource::RLIMIT_NOFILE, soft, hard);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The number of files this process may have open.
pub fn open_file_limit() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(1_024, |(soft, _)| soft)
}
