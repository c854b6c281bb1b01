//! Tokens and keys: personal tokens of people, join tokens, and the keys of workers. They are stored in one file of the data
//! directory, replaced atomically and synced before a change counts, so that a join token with n uses admits n workers
//! whatever happens in between. Only digests of secrets are stored: reading the file lets nobody in.

mod file;

#[cfg(test)]
mod tests;

pub(crate) use file::NAME as FILE;
pub use file::TokenFileError;

use crate::clock::Clock;
use file::{JoinEntry, PersonalEntry, State, WorkerEntry};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use warpyard_api::problem::code;
use warpyard_api::proof::{SecretDigest, constant_time_eq};
use warpyard_api::token::Secret;

/// The most tokens of one user, and the most join tokens.
const OF_ONE: usize = 100;

/// The longest validity, in seconds: ten years.
const LONGEST: u64 = 10 * 365 * 86_400;

/// How long an expired token is still known by, in seconds, so that whoever uses it is told why it is refused.
const REMEMBERED: u64 = 30 * 86_400;

/// How precisely the last use of a token is stored, in seconds.
const USE_RESOLUTION: u64 = 600;

/// The longest label and worker name, in bytes.
const LONGEST_TEXT: usize = 64;

/// What the holder of a personal token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// See what users see, and change nothing.
    Viewer,
    /// What concerns the user's own jobs.
    User,
    /// Everything.
    Admin,
}

/// A refused operation on tokens.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenRefusal {
    #[error(
        "this join token is not known here: it was revoked, or is another server's; make one with `warpyard token create --role worker`"
    )]
    Unknown,
    #[error("this join token has expired; make another with `warpyard token create --role worker`")]
    Expired,
    #[error(
        "this join token is used up: as many workers as it is for have joined; make another with `warpyard token create --role worker --uses N`"
    )]
    UsedUp,
    #[error(
        "a worker named '{0}' has joined already, with another key; choose another name with --name, or run `warpyard forget {0}` if that worker is gone"
    )]
    NameTaken(String),
    #[error("'{0}' cannot be the name of a worker: 1 to 64 letters, digits, '-', '_' and '.'")]
    BadName(String),
    #[error(
        "this worker was forgotten and its key revoked; remove its data directory to let it join with a key of its own"
    )]
    KeyRevoked,
    #[error("'{0}' is not a key: it has 256 random bits and begins with wys_")]
    BadKey(&'static str),
    #[error("no token has the id '{0}'; `warpyard token list` has them")]
    NoSuchToken(String),
    #[error("the id '{0}' begins more than one token's; write more of it")]
    Ambiguous(String),
    #[error("{0}")]
    Invalid(String),
    #[error(
        "{owner} has {OF_ONE} tokens already, as many as may be; revoke some with `warpyard token revoke ID`"
    )]
    TooMany { owner: String },
    #[error("the tokens cannot be stored, so that nothing was changed")]
    Storage(#[from] io::Error),
}

impl TokenRefusal {
    /// The HTTP status and the stable code.
    pub(crate) fn code(&self) -> (u16, &'static str) {
        match self {
            TokenRefusal::Unknown => (403, code::WRONG_TOKEN),
            TokenRefusal::Expired => (403, code::TOKEN_EXPIRED),
            TokenRefusal::UsedUp => (403, code::TOKEN_USED_UP),
            TokenRefusal::NameTaken(_) => (409, code::WORKER_EXISTS),
            TokenRefusal::KeyRevoked => (403, code::KEY_REVOKED),
            TokenRefusal::BadName(_) => (422, code::BAD_NAME),
            TokenRefusal::BadKey(_) | TokenRefusal::Invalid(_) | TokenRefusal::Ambiguous(_) => {
                (422, code::BAD_REQUEST)
            }
            TokenRefusal::NoSuchToken(_) => (404, code::UNKNOWN_TOKEN),
            TokenRefusal::TooMany { .. } => (409, code::OVER_LIMIT),
            TokenRefusal::Storage(_) => (500, code::INTERNAL),
        }
    }
}

/// The identity behind a bearer token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bearer {
    /// The holder of a personal token.
    Person {
        /// The id of the token.
        id: String,
        /// Whose it is, if it is anyone's.
        user: Option<String>,
        /// The number that the user's account had when the token was made, if it had one.
        uid: Option<u32>,
        /// The most its holder may do.
        role: Role,
        /// The worker that vouched for the user who made it.
        vouched_by: Option<String>,
    },
    /// A worker that joined.
    Worker(String),
}

/// A token to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewToken {
    pub(crate) label: Option<String>,
    /// How long it is valid, in seconds.
    pub(crate) lasts: u64,
    pub(crate) kind: NewKind,
}

/// The kind of a token to be made.
#[derive(Clone, Debug)]
pub(crate) enum NewKind {
    Personal { user: Option<String>, uid: Option<u32>, role: Role, vouched_by: Option<String> },
    Join { uses: u32, vouch: bool },
}

/// A token as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) label: Option<String>,
    /// In seconds since 1970, as all moments here.
    pub(crate) created: u64,
    pub(crate) expires: u64,
    pub(crate) expired: bool,
    pub(crate) kind: ListedKind,
}

/// The kind of a listed token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListedKind {
    Personal { user: Option<String>, role: Role, last_used: Option<u64>, vouched_by: Option<String> },
    Join { uses_left: u32, vouch: bool },
}

/// The tokens and keys of a server.
pub(crate) struct Tokens {
    /// The file; none where nothing is kept, as for a simulation.
    path: Option<PathBuf>,
    clock: Clock,
    state: Mutex<State>,
}

impl Tokens {
    /// Tokens that are not stored.
    pub(crate) fn in_memory(clock: Clock) -> Tokens {
        Tokens { path: None, clock, state: Mutex::default() }
    }

    /// The tokens of a data directory. A file that cannot be read is an error: going on without it would lock every worker
    /// and every person with a token out.
    pub(crate) fn open(data: &Path, clock: Clock) -> Result<Tokens, TokenFileError> {
        let path = data.join(file::NAME);
        let state = file::read(&path)?;
        Ok(Tokens { path: Some(path), clock, state: Mutex::new(state) })
    }

    /// Makes a token; returns its secret, which is stored nowhere, and how it is listed.
    pub(crate) fn create(&self, new: NewToken) -> Result<(Secret, Listed), TokenRefusal> {
        if let Some(label) = &new.label
            && (label.len() > LONGEST_TEXT || label.chars().any(char::is_control))
        {
            let said = format!("a label has up to {LONGEST_TEXT} bytes that can be printed");
            return Err(TokenRefusal::Invalid(said));
        }
        if !(1..=LONGEST).contains(&new.lasts) {
            return Err(TokenRefusal::Invalid("a token is valid for 1 second to 10 years".into()));
        }
        let (now, secret) = (self.clock.real_seconds(), Secret::generate()?);
        let SecretDigest { id, key } = secret.digest();
        let (created, expires, label) = (now, now + new.lasts, new.label);
        self.change(|state| {
            state.purge(now.saturating_sub(REMEMBERED));
            let (theirs, owner) = match &new.kind {
                NewKind::Join { .. } => (state.joins.len(), "the server".to_owned()),
                NewKind::Personal { user, .. } => {
                    let theirs = state.personal.values().filter(|entry| entry.user == *user).count();
                    (theirs, user.clone().unwrap_or_else(|| "nobody in particular".into()))
                }
            };
            if theirs >= OF_ONE {
                return Err(TokenRefusal::TooMany { owner });
            }
            match new.kind {
                NewKind::Personal { user, uid, role, vouched_by } => {
                    let entry = PersonalEntry {
                        key,
                        user,
                        uid,
                        role,
                        label,
                        created,
                        expires,
                        last_used: None,
                        vouched_by,
                    };
                    state.personal.insert(id.clone(), entry);
                }
                NewKind::Join { uses: 0, .. } => {
                    return Err(TokenRefusal::Invalid("a join token is for at least one worker".into()));
                }
                NewKind::Join { uses, vouch } => {
                    let entry = JoinEntry { key, uses_left: uses, vouch, label, created, expires };
                    state.joins.insert(id.clone(), entry);
                }
            }
            Ok(())
        })?;
        let listed = self.list().into_iter().find(|listed| listed.id == id);
        Ok((secret, listed.ok_or_else(|| io::Error::other("a token vanished"))?))
    }

    /// Every token, the latest first.
    pub(crate) fn list(&self) -> Vec<Listed> {
        let (state, now) = (self.state(), self.clock.real_seconds());
        let personal = state.personal.iter().map(|(id, entry)| Listed {
            id: id.clone(),
            label: entry.label.clone(),
            created: entry.created,
            expires: entry.expires,
            expired: entry.expires <= now,
            kind: ListedKind::Personal {
                user: entry.user.clone(),
                role: entry.role,
                last_used: entry.last_used,
                vouched_by: entry.vouched_by.clone(),
            },
        });
        let joins = state.joins.iter().map(|(id, entry)| Listed {
            id: id.clone(),
            label: entry.label.clone(),
            created: entry.created,
            expires: entry.expires,
            expired: entry.expires <= now || entry.uses_left == 0,
            kind: ListedKind::Join { uses_left: entry.uses_left, vouch: entry.vouch },
        });
        let mut all: Vec<_> = personal.chain(joins).collect();
        all.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        all
    }

    /// The one listed token whose id begins so.
    pub(crate) fn find(&self, prefix: &str) -> Result<Listed, TokenRefusal> {
        let mut found = self.list().into_iter().filter(|listed| listed.id.starts_with(prefix));
        match (found.next(), found.next()) {
            (Some(only), None) if !prefix.is_empty() => Ok(only),
            (Some(_), Some(_)) if !prefix.is_empty() => Err(TokenRefusal::Ambiguous(prefix.to_owned())),
            _ => Err(TokenRefusal::NoSuchToken(prefix.to_owned())),
        }
    }

    /// Revokes a token by its full id; it counts for nothing from now on.
    pub(crate) fn revoke(&self, id: &str) -> Result<(), TokenRefusal> {
        self.change(|state| match (state.personal.remove(id), state.joins.remove(id)) {
            (None, None) => Err(TokenRefusal::NoSuchToken(id.to_owned())),
            _ => Ok(()),
        })
    }

    /// The identity behind a bearer token that is valid now.
    pub(crate) fn bearer(&self, secret: &str) -> Option<Bearer> {
        let given = secret.parse::<Secret>().ok()?.digest();
        let now = self.clock.real_seconds();
        let mut state = self.state();
        if let Some(worker) = state.worker_with(&given) {
            return Some(Bearer::Worker(worker.name.clone()));
        }
        let entry = state.personal.get_mut(&given.id)?;
        if !same(&entry.key, &given.key) || entry.expires <= now {
            return None;
        }
        let bearer = entry.bearer(&given.id);
        if entry.last_used.is_none_or(|last| last + USE_RESOLUTION <= now) {
            entry.last_used = Some(now);
            // The moment of a use is not worth a refused request.
            if let Some(Err(e)) = self.path.as_ref().map(|path| file::write(path, &state)) {
                tracing::warn!("the last use of a token cannot be stored: {e}");
            }
        }
        Some(bearer)
    }

    /// The holder of the personal token with this id, if it is valid now.
    pub(crate) fn holder(&self, id: &str) -> Option<Bearer> {
        let (state, now) = (self.state(), self.clock.real_seconds());
        let entry = state.personal.get(id).filter(|entry| now < entry.expires)?;
        Some(entry.bearer(id))
    }

    /// The key that proves knowledge of the secret with this digest: of a valid token, or of a worker.
    pub(crate) fn proof_key(&self, id: &str) -> Option<String> {
        let (state, now) = (self.state(), self.clock.real_seconds());
        let personal = state.personal.get(id).filter(|entry| now < entry.expires).map(|entry| &entry.key);
        // Also of a join token that is used up or expired, whose holder is told so.
        let join = state.joins.get(id).map(|entry| &entry.key);
        let worker = state.workers.get(id).map(|entry| &entry.key);
        personal.or(join).or(worker).cloned()
    }

    /// Redeems a join token: from now on the worker of this name authenticates by `key`. Repeating a request that succeeded
    /// changes nothing and takes no further use; a name that has joined is given to nobody with another key.
    pub(crate) fn redeem_join(&self, secret: &str, name: &str, key: &str) -> Result<bool, TokenRefusal> {
        if !is_worker_name(name) {
            return Err(TokenRefusal::BadName(name.chars().take(LONGEST_TEXT).collect()));
        }
        let given = secret.parse::<Secret>().map_err(|_| TokenRefusal::Unknown)?.digest();
        let own = key.parse::<Secret>().map_err(|_| TokenRefusal::BadKey("key"))?.digest();
        let now = self.clock.real_seconds();
        self.change(|state| {
            let join = state.join_entry(&given).ok_or(TokenRefusal::Unknown)?;
            let (uses_left, expires, vouch) = (join.uses_left, join.expires, join.vouch);
            match state.worker_with(&own) {
                Some(joined) if joined.name == name => return Ok(joined.vouch),
                // A key names one worker only.
                Some(joined) => return Err(TokenRefusal::NameTaken(joined.name.clone())),
                None => {}
            }
            match () {
                () if expires <= now => return Err(TokenRefusal::Expired),
                () if uses_left == 0 => return Err(TokenRefusal::UsedUp),
                () if state.revoked.contains(&own.id) => return Err(TokenRefusal::KeyRevoked),
                () if state.worker_named(name).is_some() => {
                    return Err(TokenRefusal::NameTaken(name.to_owned()));
                }
                () => {}
            }
            if let Some(join) = state.joins.get_mut(&given.id) {
                join.uses_left -= 1;
            }
            let entry = WorkerEntry { name: name.to_owned(), key: own.key, joined: now, vouch };
            state.workers.insert(own.id, entry);
            Ok(vouch)
        })
    }

    /// Whether a worker joined with a token that lets it vouch for the users of its machine.
    pub(crate) fn may_vouch(&self, worker: &str) -> bool {
        self.state().worker_named(worker).is_some_and(|(_, entry)| entry.vouch)
    }

    /// Whether a worker of this name has joined.
    pub(crate) fn has_joined(&self, worker: &str) -> bool {
        self.state().worker_named(worker).is_some()
    }

    /// Revokes the key of a worker, for good, and the tokens of users that it vouched for; returns whether it had one.
    pub(crate) fn revoke_worker(&self, name: &str) -> Result<bool, TokenRefusal> {
        if !self.has_joined(name) {
            return Ok(false);
        }
        self.change(|state| {
            let Some(id) = state.worker_named(name).map(|(id, _)| id.clone()) else { return Ok(false) };
            state.workers.remove(&id);
            state.remember_revoked(id);
            state.personal.retain(|_, entry| entry.vouched_by.as_deref() != Some(name));
            Ok(true)
        })
    }

    /// Makes a change, if it can be stored: until it is, nobody sees it.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, TokenRefusal>,
    ) -> Result<T, TokenRefusal> {
        let mut state = self.state();
        let mut changed = state.clone();
        let result = change(&mut changed)?;
        if let Some(path) = &self.path {
            file::write(path, &changed)?;
        }
        *state = changed;
        Ok(result)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while holding the tokens")
    }
}

/// Whether a text can be the name of a worker.
fn is_worker_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (1..=LONGEST_TEXT).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.')
}

fn same(a: &str, b: &str) -> bool {
    constant_time_eq(a.as_bytes(), b.as_bytes())
}
