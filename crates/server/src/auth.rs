//! Authentication for the web pages: one-time links, the token pasted into a form, and the sessions that either begins.
//! Sessions are stored in the data directory (`login_sessions.rs`), so that they survive a restart.
//!
//! A browser sends a cookie to every port of the host that set it, and on this machine any user may listen on a port. So
//! each person's session lives at a host below `.localhost` whose name only they are told, and counts nowhere else.

use crate::caller::{Caller, LoginIdentity};
use crate::clock::Clock;
use crate::hosts::{HostKind, Hosts, port_of};
use crate::login_sessions::{Session, SessionStore};
use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use warpyard_api::proof::{MIN_TOKEN_LENGTH, constant_time_eq, derived_name, hex, server_proof};

/// How many seconds a session lasts.
const SESSION: u64 = 30 * 24 * 3600;

/// How long a link works.
const LINK: Duration = Duration::from_secs(600);

/// The most wrong tokens a minute from one address; a right one is accepted however many were wrong, so that nobody locks
/// out another.
const WRONG_PER_MINUTE: u32 = 10;

/// The most addresses whose wrong tokens are counted; when there are more, counting begins again.
const COUNTED: usize = 4_096;

/// The most sessions, and the most links, of one user: nobody evicts others.
const OF_ONE: usize = 50;

/// The header with a page's CSRF token.
pub(crate) const CSRF: &str = "x-warpyard-csrf";

/// Authenticator of browsers.
pub(crate) struct Authenticator {
    token: String,
    /// The cookie's name. It has the port, which cookies do not distinguish: two servers on a machine keep their sessions
    /// apart.
    cookie: String,
    /// Whether the port speaks TLS: links say so, and cookies are sent nowhere else.
    tls: bool,
    listens: SocketAddr,
    hosts: Hosts,
    clock: Clock,
    open: Mutex<AuthState>,
}

#[derive(Default)]
struct AuthState {
    sessions: SessionStore,
    links: HashMap<String, (Instant, LoginIdentity)>,
    /// Wrong tokens by the address they came from, and since when they are counted.
    wrong: HashMap<IpAddr, (u32, Instant)>,
}

/// The answer to a successful login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoginGrant {
    /// The `Set-Cookie` header of the session.
    Cookie(String),
    /// A one-time link at the host where the user's cookies are accepted.
    OtherHost(String),
}

/// The session of a request.
pub(crate) struct LoginSession {
    /// The CSRF token, which only pages of this session know.
    pub(crate) csrf: String,
    /// The user.
    pub(crate) holder: LoginIdentity,
}

/// Why a token was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoginError {
    /// The token is wrong.
    Wrong,
    /// The token is wrong, and so were too many from that address lately.
    TooMany,
}

impl Authenticator {
    /// An authenticator for a token, of a server with this address and these host names; sessions are in memory only.
    pub(crate) fn new(token: String, listens: SocketAddr, hosts: Hosts, clock: Clock) -> Authenticator {
        Authenticator {
            token,
            cookie: format!("warpyard-{}", listens.port()),
            tls: false,
            listens,
            hosts,
            clock,
            open: Mutex::default(),
        }
    }

    /// The same for a port that speaks TLS, or does not.
    pub(crate) fn with_tls(self, tls: bool) -> Authenticator {
        Authenticator { tls, ..self }
    }

    fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// An authenticator whose sessions are stored in a data directory.
    pub(crate) fn kept(
        token: String,
        listens: SocketAddr,
        hosts: Hosts,
        data: &Path,
        clock: Clock,
    ) -> Authenticator {
        let sessions = SessionStore::read(data, clock.real_seconds());
        Authenticator {
            open: Mutex::new(AuthState { sessions, ..AuthState::default() }),
            ..Authenticator::new(token, listens, hosts, clock)
        }
    }

    /// The host below `.localhost` at which someone's cookies count: derived from the token, so that only the server can
    /// name it, and another for each person, so that none of them knows another's.
    pub(crate) fn pages_host(&self, holder: &LoginIdentity) -> String {
        let of = match holder.name() {
            None => derived_name(&self.token, &["pages", "owner"]),
            Some(name) => derived_name(&self.token, &["pages", "account", name]),
        };
        format!("wy-{of}.localhost")
    }

    /// The kind of host that a request names; none where the server does not answer for it.
    pub(crate) fn kind(&self, headers: &HeaderMap) -> Option<HostKind> {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
        self.hosts.kind(host.to_str().ok()?)
    }

    /// The proof that this server knows its token, or another key, for a client that reached it by this host.
    pub(crate) fn proof(
        &self,
        key: Option<&str>,
        nonce: &str,
        host: &str,
        local: SocketAddr,
    ) -> Option<String> {
        let key = key.unwrap_or(&self.token);
        let vouched = key.len() >= MIN_TOKEN_LENGTH && self.hosts.vouches_for(host, local);
        vouched.then(|| server_proof(key, nonce, host))
    }

    /// A one-time link for a caller.
    pub(crate) fn link(&self, caller: Caller) -> io::Result<String> {
        let host = self.hosts.of_link(&self.pages_host(&LoginIdentity::of(caller.clone())), self.listens);
        Ok(format!("{}://{host}/login?once={}", self.scheme(), self.once(caller)?))
    }

    /// Whether a user's cookie is accepted at the host a request names.
    fn counts(&self, headers: &HeaderMap, holder: &LoginIdentity) -> bool {
        match self.kind(headers) {
            Some(HostKind::Pages(name)) => {
                constant_time_eq(name.as_bytes(), self.pages_host(holder).as_bytes())
            }
            Some(HostKind::Network) => true,
            Some(HostKind::Loopback) | None => false,
        }
    }

    /// The link at the host where a user's cookies are accepted, if that is not the host a request names.
    fn elsewhere(&self, headers: &HeaderMap, holder: &LoginIdentity, link: &str) -> Option<String> {
        if self.counts(headers, holder) {
            return None;
        }
        // A tunnel may lead here from another port.
        let named = headers.get(HOST).and_then(|host| host.to_str().ok()).and_then(port_of);
        let port = named.unwrap_or(self.listens.port());
        Some(format!("{}://{}:{port}/login?once={link}", self.scheme(), self.pages_host(holder)))
    }

    /// The secret of a one-time link for a caller.
    pub(crate) fn once(&self, caller: Caller) -> io::Result<String> {
        let (link, now, holder) = (random()?, Instant::now(), LoginIdentity::of(caller));
        let mut open = self.open();
        open.links.retain(|_, (until, _)| now < *until);
        let theirs = open.links.iter().filter(|(_, (_, by))| by.name() == holder.name());
        if let Some(first) = first_of_many(theirs.map(|(link, (until, _))| (*until, link))) {
            open.links.remove(&first);
        }
        open.links.insert(link.clone(), (now + LINK, holder));
        Ok(link)
    }

    /// Redeems a one-time link, or returns the host where it is to be opened.
    pub(crate) fn enter_once(&self, link: &str, headers: &HeaderMap) -> io::Result<Option<LoginGrant>> {
        let now = Instant::now();
        let holder = self.open().links.get(link).filter(|(until, _)| now < *until).map(|(_, by)| by.clone());
        if let Some(elsewhere) = holder.and_then(|holder| self.elsewhere(headers, &holder, link)) {
            return Ok(Some(LoginGrant::OtherHost(elsewhere)));
        }
        let entry = self.open().links.remove(link);
        match entry {
            Some((until, holder)) if now < until => Ok(Some(LoginGrant::Cookie(self.session(holder)?))),
            _ => Ok(None),
        }
    }

    /// Logs the owner in by the token, here or at the host where their cookies are accepted.
    pub(crate) fn enter_by_token(
        &self,
        given: &str,
        from: IpAddr,
        headers: &HeaderMap,
    ) -> io::Result<Result<LoginGrant, LoginError>> {
        if !self.is_token(given) {
            return Ok(Err(self.wrong(from)));
        }
        if self.counts(headers, &LoginIdentity::Owner) {
            return self.session(LoginIdentity::Owner).map(|cookie| Ok(LoginGrant::Cookie(cookie)));
        }
        let link = self.once(Caller::Owner)?;
        let elsewhere = self.elsewhere(headers, &LoginIdentity::Owner, &link);
        Ok(Ok(LoginGrant::OtherHost(elsewhere.expect("it does not count here"))))
    }

    /// Counts a wrong token.
    fn wrong(&self, from: IpAddr) -> LoginError {
        let now = Instant::now();
        let mut open = self.open();
        if open.wrong.len() >= COUNTED {
            open.wrong.clear();
        }
        let (count, since) = open.wrong.entry(from).or_insert((0, now));
        if now - *since > Duration::from_secs(60) {
            (*count, *since) = (0, now);
        }
        *count = count.saturating_add(1);
        if *count > WRONG_PER_MINUTE { LoginError::TooMany } else { LoginError::Wrong }
    }

    /// Whether this is the token.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        constant_time_eq(given.trim().as_bytes(), self.token.as_bytes())
    }

    /// The session a request belongs to.
    pub(crate) fn session_of(&self, headers: &HeaderMap) -> Option<LoginSession> {
        let (open, now) = (self.open(), self.clock.real_seconds());
        self.cookies(headers).find_map(|id| {
            let session = open.sessions.get(&self.digest("session", id), now)?;
            if !self.counts(headers, &session.holder) {
                return None;
            }
            Some(LoginSession { csrf: self.digest("csrf", id), holder: session.holder.clone() })
        })
    }

    /// The digest of a session's secret for one purpose, from which neither the secret nor its digest for another purpose can
    /// be found. It depends on the token, so a new token ends every session.
    fn digest(&self, to: &str, id: &str) -> String {
        let hasher = [to, &self.token, id]
            .iter()
            .fold(Sha256::new(), |h, part| h.chain_update(part).chain_update([0]));
        hex(&hasher.finalize())
    }

    /// Whether a request carries the CSRF token of its session.
    pub(crate) fn may_change(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(CSRF).map(|v| v.as_bytes()).unwrap_or_default();
        self.session_of(headers).is_some_and(|session| constant_time_eq(given, session.csrf.as_bytes()))
    }

    /// Ends a session; returns the header that removes its cookie.
    pub(crate) fn leave(&self, headers: &HeaderMap) -> String {
        let left: Vec<_> = self.cookies(headers).map(|id| self.digest("session", id)).collect();
        self.open().sessions.change(|sessions| sessions.retain(|hash, _| !left.contains(hash)));
        format!("{}=; Path=/; Max-Age=0; {}", self.cookie, self.cookie_attributes())
    }

    /// The values of our cookie in a request.
    fn cookies<'a>(&'a self, headers: &'a HeaderMap) -> impl Iterator<Item = &'a str> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|v| v.to_str().ok());
        let pairs = cookies.flat_map(|v| v.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.filter(|(name, _)| *name == self.cookie).map(|(_, id)| id)
    }

    fn session(&self, holder: LoginIdentity) -> io::Result<String> {
        let (id, now) = (random()?, self.clock.real_seconds());
        let hash = self.digest("session", &id);
        self.open().sessions.change(|sessions| {
            sessions.retain(|_, s| now < s.until);
            let theirs = sessions.iter().filter(|(_, s)| s.holder.name() == holder.name());
            if let Some(first) = first_of_many(theirs.map(|(hash, s)| (s.until, hash))) {
                sessions.remove(&first);
            }
            sessions.insert(hash, Session { until: now + SESSION, holder });
        });
        Ok(format!("{}={id}; Path=/; Max-Age={SESSION}; {}", self.cookie, self.cookie_attributes()))
    }

    fn cookie_attributes(&self) -> &'static str {
        if self.tls { "HttpOnly; SameSite=Strict; Secure" } else { "HttpOnly; SameSite=Strict" }
    }

    fn open(&self) -> MutexGuard<'_, AuthState> {
        self.open.lock().expect("the lock is never poisoned: nothing panics while holding it")
    }
}

/// The entry that expires first, if a user has as many as one may have.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login_sessions::SESSIONS;

    #[test]
    fn nobody_who_logs_in_again_and_again_throws_others_out() {
        let listens = "127.0.0.1:7700".parse().expect("an address");
        let auth =
            Authenticator::new("token".into(), listens, Hosts::new(&[], "gpu1", listens), Clock::system());
        let at = |caller: Caller| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, auth.pages_host(&LoginIdentity::of(caller)).parse().expect("a host"));
            headers
        };
        let ann = || crate::caller::tests::account("ann", false);
        let bobs = auth.once(crate::caller::tests::account("bob", false)).expect("random bytes");
        let links: Vec<_> = (0..2 * OF_ONE).map(|_| auth.once(ann()).expect("random bytes")).collect();
        let enters = |link: &str, by: Caller| match auth.enter_once(link, &at(by)).expect("random bytes") {
            Some(LoginGrant::Cookie(cookie)) => Some(cookie),
            Some(LoginGrant::OtherHost(_)) | None => None,
        };
        let bob = || crate::caller::tests::account("bob", false);
        assert_eq!(enters(&bobs, ann()), None, "her host is not his");
        let bobs = enters(&bobs, bob()).expect("his link is still there");
        assert_eq!(enters(&links[0], ann()), None, "her first made room");
        assert!(links[OF_ONE..].iter().all(|link| enters(link, ann()).is_some()));
        (0..SESSIONS).for_each(|_| drop(enters(&auth.once(ann()).expect("random bytes"), ann())));
        let mut headers = at(ann());
        headers.insert(COOKIE, bobs.parse().expect("a header"));
        assert!(auth.session_of(&headers).is_none(), "nor is his cookie worth anything there");
        headers.insert(HOST, at(bob())[HOST].clone());
        assert!(auth.session_of(&headers).is_some_and(|session| session.holder.name() == Some("bob")));
        auth.open().sessions.change(|sessions| assert!(sessions.len() <= OF_ONE + 1));
    }
}
