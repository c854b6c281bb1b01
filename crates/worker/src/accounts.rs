//! People of this machine, as the system itself tells of them: who someone is, which groups they are in, where they
//! live, and what a process of theirs has. Who may do what is not decided here.

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use warpyard_core::spec::Origin;

/// Where programs are looked for when nothing else is said.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Limits by the name `ulimit` and `limits.conf` know them by, what `/proc` calls them, and the kernel's number.
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

/// Someone with an account on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// The group files of theirs get.
    pub gid: u32,
    /// All groups they are in.
    pub groups: Vec<u32>,
    /// Where they live.
    pub home: PathBuf,
    /// What they log in to.
    pub shell: PathBuf,
}

/// Why nothing can be run as someone.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// There is no such account.
    #[error("there is no user '{0}' on this machine")]
    Unknown(String),
    /// It is the one account nothing is run as.
    #[error("tasks do not run as root on a shared machine")]
    Root,
    /// The accounts could not be looked up.
    #[error("cannot look up user '{name}': {source}")]
    Lookup {
        /// Whose.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Account {
    /// Whoever has that login name.
    pub fn by_name(name: &str) -> io::Result<Option<Account>> {
        User::from_name(name)?.map(Account::from_user).transpose()
    }

    /// Whoever has that user id.
    pub fn by_uid(uid: u32) -> io::Result<Option<Account>> {
        User::from_uid(Uid::from_raw(uid))?.map(Account::from_user).transpose()
    }

    /// Whoever has that login name, if a task may run as them.
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

    /// Whether they are in a group of that name.
    pub fn is_in(&self, group: &str) -> bool {
        matches!(Group::from_name(group), Ok(Some(g)) if self.groups.contains(&g.gid.as_raw()))
    }

    /// What a login sets before anything of the user's own.
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

/// Whose a process is.
pub fn process_owner(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).ok().map(|m| m.uid())
}

/// The user this process acts as.
pub fn own_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Whether this process may become anyone.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The umask of a process and its limits by name, as far as the kernel tells; soft and hard, the largest number meaning
/// none. Nothing where the process is gone or not that user's: its number may mean another's by now, with other limits.
pub fn umask_and_limits(pid: i32, uid: u32) -> Option<Origin> {
    // Held open, the directory stays that of one process.
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

/// The name of a limit, by the kernel's number.
pub(crate) fn limit_name(number: u32) -> &'static str {
    LIMITS.iter().find(|(.., known)| *known == number).map_or("of a resource", |(name, ..)| name)
}

/// Named limits as the kernel numbers them; names it does not have are left out.
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
