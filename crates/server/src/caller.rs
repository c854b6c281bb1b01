//! The caller of a request and its permissions: the server's owner may do everything, users what concerns their own jobs,
//! viewers look, and workers do a worker's work. The identity comes from the kernel (peer credentials of a socket), from a
//! token, or from a worker that vouches for a user of its machine. What a role may ask for at all is decided in one place,
//! [`Caller::permits`], by the [`Access`] that every endpoint declares.

use crate::tokens::{Bearer, Role, Tokens};
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

/// What an endpoint requires of its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing: it reveals nothing about the server's users, or checks a secret of its own.
    Open,
    /// To be a person: viewers too.
    Read,
    /// To be a person who may change something.
    Change,
    /// To be an admin; with what only admins may do.
    Admin(&'static str),
    /// To be a worker.
    Worker,
}

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The holder of the server's token, or of a session that began with it.
    Owner,
    /// A user with an account on this machine.
    Account {
        /// The account.
        person: Account,
        /// What the user may do.
        role: Role,
        /// Whether other users' jobs are hidden from the user.
        private: bool,
        /// How the user is known.
        from: OriginSource,
    },
    /// A person who has no account on this machine: the holder of a personal token, or someone a worker vouches for.
    Remote {
        /// The user, if the token has one.
        user: Option<String>,
        /// What they may do.
        role: Role,
        /// Whether other users' jobs are hidden from them.
        private: bool,
        /// How they are known.
        from: OriginSource,
    },
    /// A worker, by its key.
    Worker(String),
}

/// How a user is known, which says where the umask and the limits of the user's tasks come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OriginSource {
    /// By the kernel, and from the calling process, where the kernel names it.
    Process(Option<i32>),
    /// By a session of the pages, and from what was read of the process that logged in.
    Known(Option<Origin>),
    /// By the personal token with this id.
    Token(String),
    /// By the word of this worker.
    Worker(String),
}

impl Caller {
    /// The caller with these peer credentials.
    pub(crate) fn at(peer: PeerCredentials, sharing: &Sharing) -> io::Result<Option<Caller>> {
        let Some(credentials) = peer.0 else { return Ok(None) };
        let Some(person) = Account::by_uid(credentials.uid())? else { return Ok(None) };
        Ok(Some(Caller::account(person, sharing, OriginSource::Process(credentials.pid()))))
    }

    fn account(person: Account, sharing: &Sharing, from: OriginSource) -> Caller {
        let role = sharing.role_of(&person);
        Caller::Account { person, role, private: sharing.private, from }
    }

    /// The caller behind a bearer token, or none where the token counts no more. Groups are left, accounts removed and workers
    /// denied vouching while a token lasts, so the token's user is looked up each time: a token grants at most its role and at
    /// most what its user may do now. `vouches` says whether a worker still may vouch.
    pub(crate) fn bearing(
        bearer: Bearer,
        sharing: Option<&Sharing>,
        vouches: impl Fn(&str) -> bool,
    ) -> io::Result<Option<Caller>> {
        let (id, user, uid, role, vouched_by) = match bearer {
            Bearer::Worker(name) => return Ok(Some(Caller::Worker(name))),
            Bearer::Person { id, user, uid, role, vouched_by } => (id, user, uid, role, vouched_by),
        };
        if vouched_by.is_some_and(|worker| !vouches(&worker)) {
            return Ok(None);
        }
        let caller = Caller::remote(user, role, sharing, OriginSource::Token(id))?;
        // An account of that name which was made later is someone else's.
        let is_another = |person: &Account| uid.is_some_and(|uid| uid != person.uid);
        Ok((!caller.person().is_some_and(is_another)).then_some(caller))
    }

    /// The caller that a worker vouches for. A worker's word is worth no more than its machine, so it is never that of root
    /// or of an admin.
    pub(crate) fn vouched_for(
        user: &str,
        worker: &str,
        sharing: Option<&Sharing>,
    ) -> io::Result<Result<Caller, AccessDenied>> {
        let denied = |why: String| Ok(Err(AccessDenied::forbidden(code::MAY_NOT_VOUCH, why)));
        let Some(sharing) = sharing else {
            return denied("this server serves its owner alone, so that workers vouch for nobody".into());
        };
        let admin = match Account::by_name(user)? {
            Some(person) => sharing.administers(&person),
            None => user == "root",
        };
        if admin {
            return denied(format!(
                "a worker vouches neither for root nor for admins, and {user} is one; use the server's own socket, or a \
                 token of yours"
            ));
        }
        let from = OriginSource::Worker(worker.to_owned());
        Caller::remote(Some(user.to_owned()), Role::User, Some(sharing), from).map(Ok)
    }

    fn remote(
        user: Option<String>,
        role: Role,
        sharing: Option<&Sharing>,
        from: OriginSource,
    ) -> io::Result<Caller> {
        let private = sharing.is_some_and(|sharing| sharing.private);
        let (Some(name), Some(sharing)) = (&user, sharing) else {
            return Ok(Caller::Remote { user, role, private, from });
        };
        Ok(match Account::by_name(name)? {
            Some(person) => {
                let role = role.min(sharing.role_of(&person));
                Caller::Account { person, role, private, from }
            }
            // Admins are accounts of this machine.
            None => Caller::Remote { user, role: role.min(Role::User), private, from },
        })
    }

    /// The caller with its origin read, so that it outlives the calling process.
    pub(crate) fn remembered(self) -> Result<Caller, AccessDenied> {
        let origin = self.origin()?;
        Ok(match self {
            Caller::Account { person, role, private, from: OriginSource::Process(_) } => {
                Caller::Account { person, role, private, from: OriginSource::Known(origin) }
            }
            other => other,
        })
    }

    /// What the caller may do; none for a worker.
    pub(crate) fn role(&self) -> Option<Role> {
        match self {
            Caller::Owner => Some(Role::Admin),
            Caller::Account { role, .. } | Caller::Remote { role, .. } => Some(*role),
            Caller::Worker(_) => None,
        }
    }

    /// Whether the caller may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.role() == Some(Role::Admin)
    }

    /// How a user is known; the owner and workers are known by their secrets alone.
    pub(crate) fn known_by(&self) -> Option<&OriginSource> {
        match self {
            Caller::Account { from, .. } | Caller::Remote { from, .. } => Some(from),
            Caller::Owner | Caller::Worker(_) => None,
        }
    }

    /// Whether the caller may ask for what requires this access at all. Whose job it concerns is looked at afterwards.
    pub(crate) fn permits(&self, access: Access) -> Result<(), AccessDenied> {
        let denied = |code, message: String| Err(AccessDenied::forbidden(code, message));
        match (access, self.role()) {
            (Access::Open, _) | (Access::Worker, None) => Ok(()),
            (Access::Worker, Some(_)) => denied(code::WORKERS_ONLY, "only a worker's key allows this".into()),
            (Access::Read | Access::Change | Access::Admin(_), None) => {
                denied(code::PEOPLE_ONLY, "a worker's key does not allow this; use a token of yours".into())
            }
            (Access::Read, Some(_)) | (Access::Change, Some(Role::User | Role::Admin)) => Ok(()),
            (Access::Change, Some(Role::Viewer)) => {
                denied(code::READ_ONLY, "the token is a viewer's, which changes nothing".into())
            }
            (Access::Admin(_), Some(Role::Admin)) => Ok(()),
            (Access::Admin(to), Some(_)) => denied(code::ADMINS_ONLY, format!("only admins may {to}")),
        }
    }

    /// Whether the caller may change and inspect this user's jobs.
    pub(crate) fn owns(&self, user: &str) -> bool {
        self.is_admin() || self.name() == Some(user)
    }

    /// Their login name; the owner's is not known, and a worker has none.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Caller::Owner | Caller::Worker(_) => None,
            Caller::Account { person, .. } => Some(&person.name),
            Caller::Remote { user, .. } => user.as_deref(),
        }
    }

    /// The account of this machine that the caller has.
    pub(crate) fn person(&self) -> Option<&Account> {
        match self {
            Caller::Account { person, .. } => Some(person),
            Caller::Owner | Caller::Remote { .. } | Caller::Worker(_) => None,
        }
    }

    /// The name by which quotas of connections and requests count the caller; the owner's are not limited.
    pub(crate) fn quota_name(&self) -> Option<String> {
        match self {
            Caller::Owner => None,
            Caller::Worker(name) => Some(format!("worker {name}")),
            Caller::Account { person, .. } => Some(person.name.clone()),
            Caller::Remote { user: Some(user), .. } => Some(user.clone()),
            Caller::Remote { from: OriginSource::Token(id), .. } => Some(format!("token {id}")),
            Caller::Remote { .. } => Some(String::new()),
        }
    }

    /// Whose job a submission is: nobody but an admin submits for another.
    pub(crate) fn submits_for(&self, asked: Option<String>) -> Result<String, AccessDenied> {
        match (self.name(), asked) {
            (None, asked) if self.is_admin() => Ok(asked.unwrap_or_else(|| "unknown".into())),
            (None, _) => {
                Err(AccessDenied::forbidden(code::NO_ACCOUNT, "the token is nobody's, so it submits nothing"))
            }
            (Some(name), None) => Ok(name.to_owned()),
            (Some(name), Some(asked)) if asked == name || self.is_admin() => Ok(asked),
            (Some(name), Some(asked)) => Err(AccessDenied::forbidden(
                code::NOT_YOURS,
                format!("you are {name} and cannot submit for {asked}"),
            )),
        }
    }

    /// What else their tasks take over from the process that calls. One that is gone has no limits to take over, and
    /// theirs must not be those of the server for that. A process on another machine has none that count here.
    pub(crate) fn origin(&self) -> Result<Option<Origin>, AccessDenied> {
        let Caller::Account { person, from, .. } = self else { return Ok(None) };
        match from {
            OriginSource::Known(origin) => Ok(origin.clone()),
            OriginSource::Process(None) | OriginSource::Token(_) | OriginSource::Worker(_) => Ok(None),
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
    pub(crate) fn must_be_admin(&self, to: &'static str) -> Result<(), AccessDenied> {
        self.permits(Access::Admin(to))
    }

    /// Denies a request of a caller who neither owns the job nor is an admin.
    pub(crate) fn must_own(&self, user: &str, to: &str) -> Result<(), AccessDenied> {
        match self {
            _ if self.owns(user) => Ok(()),
            Caller::Account { private: true, .. } | Caller::Remote { private: true, .. } => {
                Err(AccessDenied::hidden(code::UNKNOWN_JOB, "there is no such job of yours"))
            }
            _ => Err(AccessDenied::forbidden(
                code::NOT_YOURS,
                format!("the job belongs to {user}; only they and admins can {to}"),
            )),
        }
    }
}

impl Sharing {
    /// Whether an account may do everything.
    fn administers(&self, person: &Account) -> bool {
        person.uid == 0 || person.is_in(&self.admins)
    }

    /// What an account may do.
    pub(crate) fn role_of(&self, person: &Account) -> Role {
        if self.administers(person) { Role::Admin } else { Role::User }
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
    /// The holder of a personal token.
    Token {
        /// The id of the token, with which the session ends.
        id: String,
        /// Whose the token is, if it is anyone's.
        user: Option<String>,
    },
    /// Someone a worker vouched for.
    Vouched {
        /// Their login name.
        user: String,
        /// The worker, with whose key the session ends.
        worker: String,
    },
}

impl LoginIdentity {
    /// The identity of a caller that was [`remembered`](Caller::remembered).
    pub(crate) fn of(caller: Caller) -> LoginIdentity {
        let user = caller.name().map(str::to_owned);
        match (caller.known_by().cloned(), caller) {
            (Some(OriginSource::Token(id)), _) => LoginIdentity::Token { id, user },
            (Some(OriginSource::Worker(worker)), _) => {
                LoginIdentity::Vouched { user: user.unwrap_or_default(), worker }
            }
            (from, Caller::Account { person, .. }) => {
                let origin = if let Some(OriginSource::Known(origin)) = from { origin } else { None };
                LoginIdentity::Account { name: person.name, uid: person.uid, origin }
            }
            (_, Caller::Owner) => LoginIdentity::Owner,
            // Neither logs in: a session of no token is nobody's.
            (_, Caller::Remote { .. } | Caller::Worker(_)) => {
                LoginIdentity::Token { id: String::new(), user }
            }
        }
    }

    /// Their login name; the owner's is not known.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            LoginIdentity::Owner => None,
            LoginIdentity::Account { name, .. } => Some(name),
            LoginIdentity::Token { user, .. } => user.as_deref(),
            LoginIdentity::Vouched { user, .. } => Some(user),
        }
    }

    /// Who that is as the machine knows them now: groups are left, accounts removed and tokens revoked while a login lasts,
    /// and a server may be started again for its owner alone. `vouches` says whether a worker still may vouch.
    pub(crate) fn now(
        self,
        sharing: Option<&Sharing>,
        tokens: &Tokens,
        vouches: impl Fn(&str) -> bool,
    ) -> io::Result<Option<Caller>> {
        let (name, uid, origin) = match self {
            LoginIdentity::Owner => return Ok(Some(Caller::Owner)),
            LoginIdentity::Account { name, uid, origin } => (name, uid, origin),
            LoginIdentity::Token { id, .. } => {
                let Some(bearer) = tokens.holder(&id) else { return Ok(None) };
                return Caller::bearing(bearer, sharing, vouches);
            }
            LoginIdentity::Vouched { worker, .. } if !vouches(&worker) => return Ok(None),
            LoginIdentity::Vouched { user, worker } => {
                return Ok(Caller::vouched_for(&user, &worker, sharing)?.ok());
            }
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
        let role = if admin { Role::Admin } else { Role::User };
        Caller::Account { person, role, private: false, from: OriginSource::Process(None) }
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
        let tokens = Tokens::in_memory(crate::clock::Clock::system());
        let now = |sharing: Option<&Sharing>| {
            let holder: LoginIdentity = serde_json::from_str(&kept).expect("a holder");
            holder.now(sharing, &tokens, |_| false).expect("accounts").map(|caller| caller.is_admin())
        };
        assert_eq!(now(Some(&shared(&name))), Some(true));
        assert_eq!(now(Some(&shared("a group they are not in"))), Some(false));
        assert_eq!(now(None), None, "the server is its owner's alone now");
        let other = LoginIdentity::Account { name: "someone-before-them".into(), uid: 1, origin: None };
        assert_eq!(other.now(Some(&shared(&name)), &tokens, |_| false).expect("accounts"), None);
    }

    #[test]
    fn a_token_grants_no_more_than_its_user_may_do_now() {
        let person = Account::by_uid(1).expect("accounts").expect("every machine has its first account");
        let held = |user: &str, uid, role, vouched_by: Option<&str>| Bearer::Person {
            id: "token".into(),
            user: Some(user.to_owned()),
            uid,
            role,
            vouched_by: vouched_by.map(str::to_owned),
        };
        let shared = |admins: &str| Sharing { admins: admins.into(), private: false };
        let role = |bearer: Bearer, sharing: &Sharing| {
            let caller = Caller::bearing(bearer, Some(sharing), |worker| worker == "gpu1").expect("accounts");
            caller.and_then(|caller| caller.role())
        };
        let (name, uid) = (person.name.as_str(), Some(person.uid));
        let (in_group, out_of_it) = (shared(name), shared("a group they are not in"));
        assert_eq!(role(held(name, uid, Role::Admin, None), &in_group), Some(Role::Admin));
        assert_eq!(
            role(held(name, uid, Role::Admin, None), &out_of_it),
            Some(Role::User),
            "they left the group"
        );
        assert_eq!(role(held(name, uid, Role::Viewer, None), &in_group), Some(Role::Viewer));
        assert_eq!(role(held("nobody-of-this-name", uid, Role::Admin, None), &in_group), Some(Role::User));
        assert_eq!(
            role(held(name, Some(4_000_000), Role::User, None), &in_group),
            None,
            "another of that name"
        );
        assert_eq!(role(held(name, uid, Role::User, Some("gpu1")), &in_group), Some(Role::User));
        assert_eq!(
            role(held(name, uid, Role::User, Some("gpu2")), &in_group),
            None,
            "gpu2 may not vouch now"
        );
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
