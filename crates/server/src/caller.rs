//! The caller of a request and its permissions: the server's owner may do everything, users of a shared machine what
//! concerns their own jobs. The identity comes from the kernel (peer credentials of a socket) or from the owner's token.

use serde::{Deserialize, Serialize};
use std::io;
use tokio::net::UnixStream;
use tokio::net::unix::UCred;
use warpyard_api::problem::code;
use warpyard_core::spec::Origin;
use warpyard_worker::accounts::{Account, own_uid, umask_and_limits};

/// A request that its caller may not make.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct AccessDenied {
    /// A stable code for programs.
    pub(crate) code: &'static str,
    message: String,
    /// Whether the caller is not to know that there is something to be denied.
    pub(crate) hides: bool,
}

impl AccessDenied {
    fn forbidden(code: &'static str, message: impl Into<String>) -> AccessDenied {
        AccessDenied { code, message: message.into(), hides: false }
    }

    fn hidden(code: &'static str, message: impl Into<String>) -> AccessDenied {
        AccessDenied { code, message: message.into(), hides: true }
    }
}

/// Settings of a shared machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// The Unix group whose members may do everything.
    pub(crate) admins: String,
    /// Whether people see nothing of each other's jobs.
    pub(crate) private: bool,
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The holder of the server's token, or of a session that began with it.
    Owner,
    /// A user of this machine, named by the kernel.
    Account {
        /// The account.
        person: Account,
        /// Whether the user is an admin.
        admin: bool,
        /// Whether other users' jobs are hidden from the user.
        private: bool,
        /// Where the umask and limits of the user's tasks come from.
        from: OriginSource,
    },
}

/// Where the umask and the limits of a user's tasks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OriginSource {
    /// The calling process, where the kernel names it.
    Process(Option<i32>),
    /// What was read from the process that logged in to the pages.
    Known(Option<Origin>),
}

impl Caller {
    /// The caller with these peer credentials.
    pub(crate) fn at(peer: PeerCredentials, sharing: &Sharing) -> io::Result<Option<Caller>> {
        let Some(credentials) = peer.0 else { return Ok(None) };
        let Some(person) = Account::by_uid(credentials.uid())? else { return Ok(None) };
        Ok(Some(Caller::account(person, sharing, OriginSource::Process(credentials.pid()))))
    }

    fn account(person: Account, sharing: &Sharing, from: OriginSource) -> Caller {
        let admin = person.uid == 0 || person.is_in(&sharing.admins);
        Caller::Account { person, admin, private: sharing.private, from }
    }

    /// The caller with its origin read, so that it outlives the calling process.
    pub(crate) fn remembered(self) -> Result<Caller, AccessDenied> {
        let origin = self.origin()?;
        Ok(match self {
            Caller::Account { person, admin, private, .. } => {
                Caller::Account { person, admin, private, from: OriginSource::Known(origin) }
            }
            owner => owner,
        })
    }

    /// Whether the caller may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        match self {
            Caller::Owner => true,
            Caller::Account { admin, .. } => *admin,
        }
    }

    /// Whether the caller may change and inspect this user's jobs.
    pub(crate) fn owns(&self, user: &str) -> bool {
        self.is_admin() || self.name() == Some(user)
    }

    /// Their login name; the owner's is not known.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Caller::Owner => None,
            Caller::Account { person, .. } => Some(&person.name),
        }
    }

    /// Whose job a submission is: nobody but an admin submits for another.
    pub(crate) fn submits_for(&self, asked: Option<String>) -> Result<String, AccessDenied> {
        match (self.name(), asked) {
            (None, asked) => Ok(asked.unwrap_or_else(|| "unknown".into())),
            (Some(name), None) => Ok(name.to_owned()),
            (Some(name), Some(asked)) if asked == name || self.is_admin() => Ok(asked),
            (Some(name), Some(asked)) => Err(AccessDenied::forbidden(
                code::NOT_YOURS,
                format!("you are {name} and cannot submit for {asked}"),
            )),
        }
    }

    /// What else their tasks take over from the process that calls. One that is gone has no limits to take over, and
    /// theirs must not be those of the server for that.
    pub(crate) fn origin(&self) -> Result<Option<Origin>, AccessDenied> {
        let Caller::Account { person, from, .. } = self else { return Ok(None) };
        match from {
            OriginSource::Known(origin) => Ok(origin.clone()),
            OriginSource::Process(None) => Ok(None),
            OriginSource::Process(Some(pid)) => match umask_and_limits(*pid, person.uid) {
                Some(origin) => Ok(Some(origin)),
                None => Err(AccessDenied::forbidden(
                    code::FORBIDDEN,
                    format!("process {pid}, which called, is gone or not {}'s any more", person.name),
                )),
            },
        }
    }

    /// Denies a request of a caller who is not an admin.
    pub(crate) fn must_be_admin(&self, to: &str) -> Result<(), AccessDenied> {
        match self.is_admin() {
            true => Ok(()),
            false => Err(AccessDenied::forbidden(code::ADMINS_ONLY, format!("only admins may {to}"))),
        }
    }

    /// Denies a request of a caller who neither owns the job nor is an admin.
    pub(crate) fn must_own(&self, user: &str, to: &str) -> Result<(), AccessDenied> {
        match self {
            _ if self.owns(user) => Ok(()),
            Caller::Account { private: true, .. } => {
                Err(AccessDenied::hidden(code::UNKNOWN_JOB, "there is no such job of yours"))
            }
            _ => Err(AccessDenied::forbidden(
                code::NOT_YOURS,
                format!("the job belongs to {user}; only they and admins can {to}"),
            )),
        }
    }
}

/// The user of a login session. Permissions are not part of it, so a stored session cannot grant any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LoginIdentity {
    /// Whoever has the server's own token.
    Owner,
    /// Someone with an account on this machine.
    Account {
        /// Their login name.
        name: String,
        /// The number of their account.
        uid: u32,
        /// What the process had from which they logged in.
        origin: Option<Origin>,
    },
}

impl LoginIdentity {
    /// The identity of a caller that was [`remembered`](Caller::remembered).
    pub(crate) fn of(caller: Caller) -> LoginIdentity {
        match caller {
            Caller::Owner => LoginIdentity::Owner,
            Caller::Account { person, from, .. } => {
                let origin = if let OriginSource::Known(origin) = from { origin } else { None };
                LoginIdentity::Account { name: person.name, uid: person.uid, origin }
            }
        }
    }

    /// Their login name; the owner's is not known.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            LoginIdentity::Owner => None,
            LoginIdentity::Account { name, .. } => Some(name),
        }
    }

    /// Who that is as the machine knows them now: groups are left and accounts removed while a login lasts, and a
    /// server may be started again for its owner alone.
    pub(crate) fn now(self, sharing: Option<&Sharing>) -> io::Result<Option<Caller>> {
        let (name, uid, origin) = match self {
            LoginIdentity::Owner => return Ok(Some(Caller::Owner)),
            LoginIdentity::Account { name, uid, origin } => (name, uid, origin),
        };
        let Some(sharing) = sharing else { return Ok(None) };
        let found = Account::by_uid(uid)?.filter(|found| found.name == name);
        Ok(found.map(|person| Caller::account(person, sharing, OriginSource::Known(origin))))
    }
}

/// Peer credentials of a Unix socket; none where the kernel gave none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerCredentials(Option<UCred>);

impl PeerCredentials {
    /// The peer of a stream.
    pub(crate) fn of(stream: &UnixStream) -> PeerCredentials {
        PeerCredentials(stream.peer_cred().ok())
    }

    /// Whether it is a process of the user this server runs as, or of root's.
    pub(crate) fn is_owner(self) -> bool {
        self.uid().is_some_and(|uid| uid == 0 || uid == own_uid())
    }

    /// The number of their account.
    pub(crate) fn uid(self) -> Option<u32> {
        self.0.map(|credentials| credentials.uid())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn account(name: &str, admin: bool) -> Caller {
        let person = Account {
            name: name.into(),
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            home: "/home".into(),
            shell: "/bin/sh".into(),
        };
        Caller::Account { person, admin, private: false, from: OriginSource::Process(None) }
    }

    #[test]
    fn people_own_their_jobs_and_admins_all() {
        assert!(account("ann", false).owns("ann") && !account("ann", false).owns("bob"));
        assert!(account("ann", true).owns("bob") && Caller::Owner.owns("bob"));
    }

    #[test]
    fn what_a_login_may_do_is_asked_of_the_machine_each_time() {
        let person = Account::by_uid(1).expect("accounts").expect("every machine has its first account");
        let name = person.name.clone();
        let shared = |admins: &str| Sharing { admins: admins.into(), private: false };
        let caller = Caller::account(person, &shared(&name), OriginSource::Known(None));
        let kept = serde_json::to_string(&LoginIdentity::of(caller)).expect("JSON");
        let now = |sharing: Option<&Sharing>| {
            let holder: LoginIdentity = serde_json::from_str(&kept).expect("a holder");
            holder.now(sharing).expect("accounts").map(|caller| caller.is_admin())
        };
        assert_eq!(now(Some(&shared(&name))), Some(true));
        assert_eq!(now(Some(&shared("a group they are not in"))), Some(false));
        assert_eq!(now(None), None, "the server is its owner's alone now");
        let other = LoginIdentity::Account { name: "someone-before-them".into(), uid: 1, origin: None };
        assert_eq!(other.now(Some(&shared(&name))).expect("accounts"), None);
    }

    #[test]
    fn nobody_but_an_admin_submits_for_another() {
        let user = |caller: Caller, asked: Option<&str>| caller.submits_for(asked.map(str::to_owned)).ok();
        assert_eq!(user(account("ann", false), None).as_deref(), Some("ann"));
        assert_eq!(user(account("ann", false), Some("ann")).as_deref(), Some("ann"));
        assert_eq!(user(account("ann", false), Some("bob")), None);
        assert_eq!(user(account("ann", true), Some("bob")).as_deref(), Some("bob"));
        assert_eq!(user(Caller::Owner, Some("bob")).as_deref(), Some("bob"));
    }
}
