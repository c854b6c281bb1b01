//! Who may look at the pages: links that work once, the token pasted into a form, and the sessions that come of either.
//! Sessions live in memory: a restarted server asks again.

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

/// The ways in.
pub(crate) struct Doors {
    token: String,
    /// Cookies do not know ports, so the name of ours does: two servers on a machine do not throw each other out.
    cookie: String,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    sessions: HashMap<String, Instant>,
    links: HashMap<String, Instant>,
    wrong: u32,
    wrong_since: Option<Instant>,
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

    /// A secret that lets one person in once.
    pub(crate) fn once(&self) -> io::Result<String> {
        let link = random()?;
        self.open().links.insert(link.clone(), Instant::now() + LINK);
        Ok(link)
    }

    /// Lets in whoever has a link that was not used; gives the header that sets the cookie.
    pub(crate) fn enter_once(&self, link: &str) -> io::Result<Option<String>> {
        let until = self.open().links.remove(link);
        match until {
            Some(until) if Instant::now() < until => Ok(Some(self.session()?)),
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
        self.session().map(Ok)
    }

    /// Whether this is the token.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        same(given.trim().as_bytes(), self.token.as_bytes())
    }

    /// Whether a request comes from someone who has logged in.
    pub(crate) fn knows(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|v| v.to_str().ok());
        let mut pairs = cookies.flat_map(|v| v.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let open = self.open();
        pairs.any(|(name, id)| {
            name == self.cookie && open.sessions.get(id).is_some_and(|until| Instant::now() < *until)
        })
    }

    fn session(&self) -> io::Result<String> {
        let (id, now) = (random()?, Instant::now());
        let mut open = self.open();
        open.sessions.retain(|_, until| now < *until);
        if open.sessions.len() >= SESSIONS
            && let Some(first) =
                open.sessions.iter().min_by_key(|(_, until)| **until).map(|(id, _)| id.clone())
        {
            open.sessions.remove(&first);
        }
        open.sessions.insert(id.clone(), now + SESSION);
        let age = SESSION.as_secs();
        Ok(format!("{}={id}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict", self.cookie))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nobody panics at the doors")
    }
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
