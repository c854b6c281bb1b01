//! Who may look at the pages: links that work once, the token pasted into a form, and the sessions that come of either.
//! Sessions live in memory: a restarted server asks again.

use crate::who::Caller;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long a link works.
const LINK: Duration = Duration::from_secs(600);

/// How many wrong tokens a minute are looked at.
const WRONG_PER_MINUTE: u32 = 10;

/// How many sessions there may be; the one that ends first makes room.
const SESSIONS: usize = 1_000;

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
    sessions: HashMap<String, Session>,
    links: HashMap<String, (Instant, Caller)>,
    wrong: u32,
    wrong_since: Option<Instant>,
}

/// Someone who has logged in.
#[derive(Clone)]
pub(crate) struct Session {
    until: Instant,
    /// What a page of theirs sends along with a change, and no other page knows.
    pub(crate) csrf: String,
    /// Whoever it is.
    pub(crate) caller: Caller,
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

    /// A secret that lets someone in once.
    pub(crate) fn once(&self, caller: Caller) -> io::Result<String> {
        let (link, now) = (random()?, Instant::now());
        let mut open = self.open();
        open.links.retain(|_, (until, _)| now < *until);
        let theirs = open.links.iter().filter(|(_, (_, by))| by.name() == caller.name());
        if let Some(first) = first_of_many(theirs.map(|(link, (until, _))| (*until, link))) {
            open.links.remove(&first);
        }
        open.links.insert(link.clone(), (now + LINK, caller));
        Ok(link)
    }

    /// Lets in whoever has a link that was not used; gives the header that sets the cookie.
    pub(crate) fn enter_once(&self, link: &str) -> io::Result<Option<String>> {
        let entry = self.open().links.remove(link);
        match entry {
            Some((until, caller)) if Instant::now() < until => Ok(Some(self.session(caller)?)),
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
        self.session(Caller::Owner).map(Ok)
    }

    /// Whether this is the token.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        same(given.trim().as_bytes(), self.token.as_bytes())
    }

    /// The session a request belongs to.
    pub(crate) fn session_of(&self, headers: &HeaderMap) -> Option<Session> {
        let open = self.open();
        let mut ids = self.cookies(headers);
        ids.find_map(|id| open.sessions.get(id).filter(|s| Instant::now() < s.until).cloned())
    }

    /// Whether a request to change something comes from a page of someone who has logged in.
    pub(crate) fn may_change(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(CSRF).map(|v| v.as_bytes()).unwrap_or_default();
        self.session_of(headers).is_some_and(|session| same(given, session.csrf.as_bytes()))
    }

    /// Ends a session; gives the header that takes the cookie back.
    pub(crate) fn leave(&self, headers: &HeaderMap) -> String {
        let ids: Vec<_> = self.cookies(headers).collect();
        let mut open = self.open();
        for id in ids {
            open.sessions.remove(id);
        }
        format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict", self.cookie)
    }

    /// The values of our cookie in a request.
    fn cookies<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|v| v.to_str().ok());
        let pairs = cookies.flat_map(|v| v.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.cookie).map(|(_, id)| id)
    }

    fn session(&self, caller: Caller) -> io::Result<String> {
        let (id, csrf, now) = (random()?, random()?, Instant::now());
        let mut open = self.open();
        open.sessions.retain(|_, s| now < s.until);
        let theirs = open.sessions.iter().filter(|(_, s)| s.caller.name() == caller.name());
        if let Some(first) = first_of_many(theirs.map(|(id, s)| (s.until, id))) {
            open.sessions.remove(&first);
        }
        if open.sessions.len() >= SESSIONS
            && let Some(first) = open.sessions.iter().min_by_key(|(_, s)| s.until).map(|(id, _)| id.clone())
        {
            open.sessions.remove(&first);
        }
        open.sessions.insert(id.clone(), Session { until: now + SESSION, csrf, caller });
        let age = SESSION.as_secs();
        Ok(format!("{}={id}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict", self.cookie))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nobody panics at the doors")
    }
}

/// Of as many as one person may have, what ends first.
fn first_of_many<'a>(theirs: impl Iterator<Item = (Instant, &'a String)>) -> Option<String> {
    let mut theirs: Vec<_> = theirs.collect();
    theirs.sort();
    theirs.first().filter(|_| theirs.len() >= OF_ONE).map(|(_, id)| id.to_string())
}

fn random() -> io::Result<String> {
    let mut bytes = [0u8; 24];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Compares without telling by the time it takes where two texts differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(doors.session_of(&headers).is_some_and(|session| session.caller.name() == Some("bob")));
        assert!(doors.open().sessions.len() <= OF_ONE + 1);
    }
}
