//! Who may look at the pages: links that work once, the token pasted into a form, and the sessions that come of either.
//! Sessions are kept in the data directory (`logins.rs`), so nobody is asked again because a server was restarted.

use crate::logins::{Kept, Session, wall_now};
use crate::who::{Caller, Holder};
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How many seconds a session lasts.
const SESSION: u64 = 30 * 24 * 3600;

/// How long a link works.
const LINK: Duration = Duration::from_secs(600);

/// How many wrong tokens a minute are looked at.
const WRONG_PER_MINUTE: u32 = 10;

/// How many sessions, and how many links, one person may have: nobody throws the others out.
const OF_ONE: usize = 50;

/// The header with which a page says that a change is its own.
pub(crate) const CSRF: &str = "x-warpyard-csrf";

/// The ways in.
pub(crate) struct Doors {
    token: String,
    /// Cookies do not know ports, so the name of ours does: two servers on a machine do not throw each other out.
    cookie: String,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    sessions: Kept,
    links: HashMap<String, (Instant, Holder)>,
    wrong: u32,
    wrong_since: Option<Instant>,
}

/// Someone who has logged in.
pub(crate) struct Login {
    /// What a page of theirs sends along with a change, and no other page knows.
    pub(crate) csrf: String,
    /// Whoever it is.
    pub(crate) holder: Holder,
}

/// Why someone stays outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// The token is not ours.
    Wrong,
    /// Too many were wrong lately to look at another.
    TooMany,
}

impl Doors {
    /// Doors that this token opens, of the server at this port.
    pub(crate) fn new(token: String, port: u16) -> Doors {
        Doors { token, cookie: format!("warpyard-{port}"), open: Mutex::default() }
    }

    /// The same, with the sessions that are kept in a data directory.
    pub(crate) fn kept(token: String, port: u16, data: &Path) -> Doors {
        let sessions = Kept::read(data, wall_now());
        Doors { open: Mutex::new(Open { sessions, ..Open::default() }), ..Doors::new(token, port) }
    }

    /// A secret that lets someone in once.
    pub(crate) fn once(&self, caller: Caller) -> io::Result<String> {
        let (link, now, holder) = (random()?, Instant::now(), Holder::of(caller));
        let mut open = self.open();
        open.links.retain(|_, (until, _)| now < *until);
        let theirs = open.links.iter().filter(|(_, (_, by))| by.name() == holder.name());
        if let Some(first) = first_of_many(theirs.map(|(link, (until, _))| (*until, link))) {
            open.links.remove(&first);
        }
        open.links.insert(link.clone(), (now + LINK, holder));
        Ok(link)
    }

    /// Lets in whoever has a link that was not used; gives the header that sets the cookie.
    pub(crate) fn enter_once(&self, link: &str) -> io::Result<Option<String>> {
        let entry = self.open().links.remove(link);
        match entry {
            Some((until, holder)) if Instant::now() < until => Ok(Some(self.session(holder)?)),
            _ => Ok(None),
        }
    }

    /// Lets in whoever has the token; gives the header that sets the cookie.
    pub(crate) fn enter_by_token(&self, given: &str) -> io::Result<Result<String, Outside>> {
        let now = Instant::now();
        {
            let mut open = self.open();
            let minute_over = open.wrong_since.is_none_or(|at| now - at > Duration::from_secs(60));
            if minute_over {
                (open.wrong, open.wrong_since) = (0, Some(now));
            }
            if open.wrong >= WRONG_PER_MINUTE {
                return Ok(Err(Outside::TooMany));
            }
            if !self.is_token(given) {
                open.wrong += 1;
                return Ok(Err(Outside::Wrong));
            }
        }
        self.session(Holder::Owner).map(Ok)
    }

    /// Whether this is the token.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        same(given.trim().as_bytes(), self.token.as_bytes())
    }

    /// The session a request belongs to.
    pub(crate) fn session_of(&self, headers: &HeaderMap) -> Option<Login> {
        let (open, now) = (self.open(), wall_now());
        self.cookies(headers).find_map(|id| {
            let session = open.sessions.get(&self.digest("session", id), now)?;
            Some(Login { csrf: self.digest("csrf", id), holder: session.holder.clone() })
        })
    }

    /// What a session's secret becomes for one use, from which nobody finds the secret or what it becomes for another.
    /// With another token it becomes something else, so a new token ends every login.
    fn digest(&self, to: &str, id: &str) -> String {
        let hasher = [to, &self.token, id]
            .iter()
            .fold(Sha256::new(), |h, part| h.chain_update(part).chain_update([0]));
        hex(&hasher.finalize())
    }

    /// Whether a request to change something comes from a page of someone who has logged in.
    pub(crate) fn may_change(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(CSRF).map(|v| v.as_bytes()).unwrap_or_default();
        self.session_of(headers).is_some_and(|session| same(given, session.csrf.as_bytes()))
    }

    /// Ends a session; gives the header that takes the cookie back.
    pub(crate) fn leave(&self, headers: &HeaderMap) -> String {
        let left: Vec<_> = self.cookies(headers).map(|id| self.digest("session", id)).collect();
        self.open().sessions.change(|sessions| sessions.retain(|hash, _| !left.contains(hash)));
        format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", self.cookie)
    }

    /// The values of our cookie in a request.
    fn cookies<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|v| v.to_str().ok());
        let pairs = cookies.flat_map(|v| v.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.cookie).map(|(_, id)| id)
    }

    fn session(&self, holder: Holder) -> io::Result<String> {
        let (id, now) = (random()?, wall_now());
        let hash = self.digest("session", &id);
        self.open().sessions.change(|sessions| {
            sessions.retain(|_, s| now < s.until);
            let theirs = sessions.iter().filter(|(_, s)| s.holder.name() == holder.name());
            if let Some(first) = first_of_many(theirs.map(|(hash, s)| (s.until, hash))) {
                sessions.remove(&first);
            }
            sessions.insert(hash, Session { until: now + SESSION, holder });
        });
        Ok(format!("{}={id}; Path=/; Max-Age={SESSION}; HttpOnly; SameSite=Strict", self.cookie))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nobody panics at the doors")
    }
}

/// Of as many as one person may have, what ends first.
fn first_of_many<'a>(theirs: impl Iterator<Item = (impl Ord, &'a String)>) -> Option<String> {
    let mut theirs: Vec<_> = theirs.collect();
    theirs.sort();
    theirs.first().filter(|_| theirs.len() >= OF_ONE).map(|(_, id)| id.to_string())
}

fn random() -> io::Result<String> {
    let mut bytes = [0u8; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Compares without telling by the time it takes where two texts differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logins::SESSIONS;

    #[test]
    fn nobody_who_logs_in_again_and_again_throws_others_out() {
        let doors = Doors::new("token".into(), 7700);
        let ann = || crate::who::tests::account("ann", false);
        let bobs = doors.once(crate::who::tests::account("bob", false)).expect("random bytes");
        let links: Vec<_> = (0..2 * OF_ONE).map(|_| doors.once(ann()).expect("random bytes")).collect();
        let enters = |link: &str| doors.enter_once(link).expect("random bytes");
        let bobs = enters(&bobs).expect("his link is still there");
        assert_eq!(enters(&links[0]), None, "her first made room");
        assert!(links[OF_ONE..].iter().all(|link| enters(link).is_some()));
        (0..SESSIONS).for_each(|_| drop(enters(&doors.once(ann()).expect("random bytes"))));
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, bobs.parse().expect("a header"));
        assert!(doors.session_of(&headers).is_some_and(|session| session.holder.name() == Some("bob")));
        doors.open().sessions.change(|sessions| assert!(sessions.len() <= OF_ONE + 1));
    }
}
