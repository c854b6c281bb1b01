//! User accounts of this machine: ids, groups, home and shell from the system's user database, and umask and resource limits
//! of a user's process. Authorisation is decided elsewhere.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use warpyard_core::spec::Origin;

/// The `PATH` of tasks that set none.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Resource limits: the name in `limits.conf`, the name in `/proc/PID/limits`, and the kernel's number.
const LIMITS: [(&str, &str, u32); 14] = [
    ("cpu", "Max cpu time", libc::RLIMIT_CPU),
    ("fsize", "Max file size", libc::RLIMIT_FSIZE),
    ("data", "Max data size", libc::RLIMIT_DATA),
    ("stack", "Max stack size", libc::RLIMIT_STACK),
    ("core", "Max core file size", libc::RLIMIT_CORE),
    ("rss", "Max resident set", libc::RLIMIT_RSS),
    ("nproc", "Max processes", libc::RLIMIT_NPROC),
    ("nofile", "Max open files", libc::RLIMIT_NOFILE),
    ("memlock", "Max locked memory", libc::RLIMIT_MEMLOCK),
    ("as", "Max address space", libc::RLIMIT_AS),
    ("locks", "Max file locks", libc::RLIMIT_LOCKS),
    ("sigpending", "Max pending signals", libc::RLIMIT_SIGPENDING),
    ("msgqueue", "Max msgqueue size", libc::RLIMIT_MSGQUEUE),
    ("rtprio", "Max realtime priority", libc::RLIMIT_RTPRIO),
];

/// A user account of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Ids of all groups, the primary one included.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell.
    pub shell: PathBuf,
}

/// Why no task can run as a user.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// There is no such account.
    #[error("there is no user '{0}' on this machine")]
    Unknown(String),
    /// It is root, as whom no task runs.
    #[error("tasks do not run as root on a shared machine")]
    Root,
    /// The user database could not be read.
    #[error("cannot look up user '{name}': {source}")]
    Lookup {
        /// The login name that was looked up.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Account {
    /// The account of that login name.
    pub fn by_name(name: &str) -> io::Result<Option<Account>> {
        User::from_name(name)?.map(Account::from_user).transpose()
    }

    /// The account of that user id.
    pub fn by_uid(uid: u32) -> io::Result<Option<Account>> {
        User::from_uid(Uid::from_raw(uid))?.map(Account::from_user).transpose()
    }

    /// The account of that login name, if tasks may run as it.
    pub fn for_tasks(name: &str) -> Result<Account, AccountError> {
        let found = Account::by_name(name)
            .map_err(|source| AccountError::Lookup { name: name.to_owned(), source })?;
        match found {
            None => Err(AccountError::Unknown(name.to_owned())),
            Some(Account { uid: 0, .. }) => Err(AccountError::Root),
            Some(account) => Ok(account),
        }
    }

    fn from_user(user: User) -> io::Result<Account> {
        let login = CString::new(user.name.as_str())?;
        let groups = getgrouplist(&login, user.gid)?;
        Ok(Account {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            home: user.dir,
            shell: user.shell,
        })
    }

    /// Whether the user is a member of the group of that name.
    pub fn is_in(&self, group: &str) -> bool {
        matches!(Group::from_name(group), Ok(Some(g)) if self.groups.contains(&g.gid.as_raw()))
    }

    /// The variables `login` sets before any start-up file of the user's.
    pub fn login_environment(&self) -> BTreeMap<String, String> {
        let path = |p: &PathBuf| p.to_string_lossy().into_owned();
        let pairs = [
            ("HOME", path(&self.home)),
            ("LOGNAME", self.name.clone()),
            ("SHELL", path(&self.shell)),
            ("USER", self.name.clone()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The user id that owns a process.
pub fn process_owner(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).ok().map(|m| m.uid())
}

/// The effective user id of this process.
pub fn own_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether this process is root and may become any user.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The umask and the soft and hard resource limits of a process, by name; the largest number means unlimited. None if the
/// process is gone or not this user's: its pid may have been reused by another user's process, which has other limits.
pub fn umask_and_limits(pid: i32, uid: u32) -> Option<Origin> {
    // An open `/proc/PID` keeps referring to this process even if the pid is reused.
    let process = File::open(format!("/proc/{pid}")).ok()?;
    let read = |file: &str| fs::read_to_string(format!("/proc/self/fd/{}/{file}", process.as_raw_fd())).ok();
    let status = read("status")?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let uids = field("Uid:")?.split_ascii_whitespace();
    if !uids.map(str::parse).all(|id| id == Ok(uid)) {
        return None;
    }
    let umask = field("Umask:").and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
    Some(Origin { umask, limits: parse_limits(&read("limits")?) })
}

fn parse_limits(text: &str) -> BTreeMap<String, (u64, u64)> {
    let mut limits = BTreeMap::new();
    for line in text.lines() {
        let known = LIMITS.iter().find_map(|(name, called, _)| Some((name, line.strip_prefix(called)?)));
        let Some((name, rest)) = known else { continue };
        let mut values = rest.split_ascii_whitespace().map(|word| match word {
            "unlimited" => Some(libc::RLIM_INFINITY),
            number => number.parse().ok(),
        });
        if let (Some(Some(soft)), Some(Some(hard))) = (values.next(), values.next()) {
            limits.insert((*name).to_owned(), (soft, hard));
        }
    }
    limits
}

/// The name of a resource limit, by the kernel's number.
pub(crate) fn limit_name(number: u32) -> &'static str {
    LIMITS.iter().find(|(.., known)| *known == number).map_or("of a resource", |(name, ..)| name)
}

/// Named resource limits by the kernel's numbers; unknown names are left out.
pub(crate) fn limits_by_number(limits: &BTreeMap<String, (u64, u64)>) -> Vec<(u32, u64, u64)> {
    let number = |name: &str| LIMITS.iter().find(|(known, ..)| *known == name).map(|(.., number)| *number);
    limits.iter().filter_map(|(name, &(soft, hard))| Some((number(name)?, soft, hard))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nothing_runs_as_it() {
        let root = Account::by_uid(0).expect("accounts can be read").expect("root is there");
        assert_eq!(Account::by_name(&root.name).expect("accounts can be read"), Some(root.clone()));
        assert!(matches!(Account::for_tasks(&root.name), Err(AccountError::Root)));
        assert!(matches!(Account::for_tasks("no-such-user-here"), Err(AccountError::Unknown(_))));
        assert_eq!(root.login_environment()["HOME"], root.home.to_string_lossy());
    }

    #[test]
    fn what_a_process_has_is_what_the_kernel_says() {
        let (own, uid) = (std::process::id() as i32, nix::unistd::getuid().as_raw());
        let Origin { umask, limits } = umask_and_limits(own, uid).expect("it is there");
        assert!(umask.is_some_and(|mask| mask <= 0o777));
        let (soft, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
            .expect("limits can be read");
        assert_eq!(limits["nofile"], (soft, hard));
        assert!(limits_by_number(&limits).contains(&(libc::RLIMIT_NOFILE, soft, hard)));
        assert_eq!(umask_and_limits(own, uid + 1), None, "another's is told nobody");
        assert_eq!(umask_and_limits(i32::MAX, uid), None);
    }

    #[test]
    fn limits_without_end_and_lines_of_other_kinds() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            1024                 1048576              files     \n\
                    Max core file size        0                    unlimited            bytes     \n\
                    Max something new         1                    2                    things    \n";
        let expected = [("core", (0, libc::RLIM_INFINITY)), ("nofile", (1024, 1_048_576))];
        let expected = expected.into_iter().map(|(name, limit)| (name.to_owned(), limit)).collect();
        assert_eq!(parse_limits(text), expected);
    }
}
