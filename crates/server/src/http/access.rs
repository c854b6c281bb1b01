//! Authentication and authorisation of requests: who calls, and whether their role may ask an endpoint for anything. Whose
//! job a request concerns is looked at by its handler.

#[cfg(test)]
mod tests;

use super::refusal::Refusal;
use super::{ASSETS, App, AppState, login_link, tokens};
use crate::caller::{Access, Caller, PeerCredentials};
use crate::serve::Connection;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{AUTHORIZATION, CONNECTION, HOST};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::time::Duration;
use warpyard_api::problem::code;

/// Marks a response to a page's request without a login, which the login page replaces; names the page.
#[derive(Clone)]
pub(crate) struct LoginRequired(pub(crate) Uri);

/// Authenticates a request: by peer credentials on a socket, by the token, or by a login session. A change from a
/// session must carry the CSRF token of its pages. Others are refused; those of pages are marked with [`LoginRequired`].
pub(crate) async fn authenticate(State(app): AppState, mut request: Request, next: Next) -> Response {
    if let Some(refusal) = wrong_host(&app, &request) {
        return refused(request, refusal.into_response()).await;
    }
    if is_open(request.uri().path()) {
        return next.run(request).await;
    }
    match caller(&app, &request) {
        Ok(caller) => {
            let connection = request.extensions().get::<Arc<Connection>>();
            if connection.is_some_and(|connection| !connection.admit(caller.quota_name())) {
                return refused(request, too_many_connections()).await;
            }
            let _seat = match app.seat(&caller) {
                Ok(seat) => seat,
                Err(refusal) => return refused(request, refusal.into_response()).await,
            };
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => refused(request, *refusal).await,
    }
}

/// The most of a refused request's body that is read, and for how long.
const DRAINED: (usize, Duration) = (64 << 10, Duration::from_secs(1));

/// The response of a refused request. Its body is read first, as far as it is small: a client that is still sending it when
/// the connection is closed sees a broken connection instead of the refusal.
async fn refused(request: Request, response: Response) -> Response {
    let (most, within) = DRAINED;
    let _too_large_or_late = tokio::time::timeout(within, to_bytes(request.into_body(), most)).await;
    response
}

/// Authorises a request: the one place where it is decided which roles may ask an endpoint for anything.
pub(super) async fn authorise(access: Access, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>();
    match caller.map(|caller| caller.permits(access)) {
        Some(Ok(())) => next.run(request).await,
        None if access == Access::Open => next.run(request).await,
        Some(Err(denied)) => refused(request, Refusal::from(denied).into_response()).await,
        None => Refusal::internal("a request was not authenticated").into_response(),
    }
}

/// Paths that need no authentication, and reveal nothing about the server's users.
fn is_open(path: &str) -> bool {
    path == "/login" || path == login_link::PROOF || path == tokens::JOIN || path.starts_with(ASSETS)
}

/// Refuses requests for a host this server does not answer for, which DNS rebinding would make a browser send.
/// Requests through a socket come from no browser.
fn wrong_host(app: &App, request: &Request) -> Option<Refusal> {
    if request.extensions().get::<ConnectInfo<PeerCredentials>>().is_some() {
        return None;
    }
    let header = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let in_line = request.uri().authority().map(|authority| authority.as_str());
    let agree = in_line.is_none_or(|in_line| Some(in_line) == header);
    if agree && app.auth.kind(request.headers()).is_some() {
        return None;
    }
    let host = in_line.or(header).unwrap_or_default();
    Some(Refusal::new(
        421,
        code::WRONG_HOST,
        format!(
            "this server does not answer for the host '{host}'; add it to `hosts` in its configuration if it should"
        ),
    ))
}

fn too_many_connections() -> Response {
    let said = "the limit of connections is reached, yours or the server's; close some, or use its socket";
    let mut response = Refusal::new(503, code::TOO_MANY_CONNECTIONS, said).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The caller of a request, or the response that refuses it.
fn caller(app: &App, request: &Request) -> Result<Caller, Box<Response>> {
    let refuse =
        |status, code, detail: &str| Err(Box::new(Refusal::new(status, code, detail).into_response()));
    let (path, headers) = (request.uri().path(), request.headers());
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_page = !path.starts_with("/v1/") && path != "/metrics";
    // Pages show everyone's jobs.
    let has_no_pages = |caller: &Caller| is_page && app.private() && !caller.is_admin();
    let no_pages =
        || refuse(403, code::ADMINS_ONLY, &format!("the pages at {} are for admins only", app.url));
    let peer = request.extensions().get::<ConnectInfo<PeerCredentials>>();
    if let Some(ConnectInfo(peer)) = peer {
        let Some(sharing) = &app.sharing else {
            return match peer.is_owner() {
                true => Ok(Caller::Owner),
                false => refuse(
                    401,
                    code::NO_ACCOUNT,
                    "this server is not yours; start your own with `warpyard up`",
                ),
            };
        };
        return match Caller::at(*peer, sharing) {
            Ok(Some(caller)) if has_no_pages(&caller) => no_pages(),
            Ok(Some(caller)) => Ok(caller),
            Ok(None) => refuse(401, code::NO_ACCOUNT, "you have no account on this machine"),
            Err(e) => Err(Box::new(Refusal::internal(e).into_response())),
        };
    }
    let given = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    if let Some(secret) = given.and_then(|v| v.strip_prefix("Bearer ")) {
        return match bearing(app, secret, headers) {
            Ok(Some(caller)) if has_no_pages(&caller) => no_pages(),
            Ok(Some(caller)) if is_page => match caller.permits(Access::Read) {
                Ok(()) => Ok(caller),
                Err(denied) => Err(Box::new(Refusal::from(denied).into_response())),
            },
            Ok(Some(caller)) => Ok(caller),
            Ok(None) if looks && is_page => Err(Box::new(login_required(request))),
            Ok(None) => refuse(
                401,
                code::UNAUTHORISED,
                "the token is wrong, expired or revoked; a personal token is made with `warpyard token create`, and the \
                 server's own is in the file token of its data directory",
            ),
            Err(refusal) => Err(Box::new(refusal.into_response())),
        };
    }
    let holder = app.auth.session_of(headers).map(|session| session.holder);
    let session =
        holder.map(|holder| holder.now(app.sharing.as_ref(), &app.tokens, |worker| app.may_vouch(worker)));
    let by = match session.transpose() {
        Ok(found) => found.flatten(),
        Err(e) => return Err(Box::new(Refusal::internal(e).into_response())),
    };
    match by {
        Some(caller) if has_no_pages(&caller) && path != "/logout" => no_pages(),
        Some(caller) if looks => Ok(caller),
        // A session must not create further login links.
        Some(caller) if app.auth.may_change(headers) && path != "/v1/login" => Ok(caller),
        Some(_) => refuse(403, code::FORBIDDEN, "the CSRF token is missing or wrong; reload the page"),
        None if looks && is_page => Err(Box::new(login_required(request))),
        None => refuse(
            401,
            code::UNAUTHORISED,
            "the token is missing or wrong; send `Authorization: Bearer` with what is in the file token of the \
             server's data directory",
        ),
    }
}

/// The response to whoever asks for a page and is not known: marked, so that the login page replaces it.
fn login_required(request: &Request) -> Response {
    let mut response = StatusCode::UNAUTHORIZED.into_response();
    response.extensions_mut().insert(LoginRequired(request.uri().clone()));
    response
}

/// The header by which a worker names the user of its machine that it vouches for.
pub(crate) const VOUCHED_USER: &str = "warpyard-user";

/// The caller with a bearer token: the owner, the holder of a personal token, a worker, or the user it vouches for.
fn bearing(app: &App, secret: &str, headers: &HeaderMap) -> Result<Option<Caller>, Refusal> {
    let vouched = headers.get(VOUCHED_USER);
    let not_a_worker = || {
        let said = format!("the header {VOUCHED_USER} is for workers, which vouch for their users");
        Err(Refusal::new(403, code::MAY_NOT_VOUCH, said))
    };
    if app.auth.is_token(secret) {
        return if vouched.is_none() { Ok(Some(Caller::Owner)) } else { not_a_worker() };
    }
    let Some(bearer) = app.tokens.bearer(secret) else { return Ok(None) };
    let caller = Caller::bearing(bearer, app.sharing.as_ref(), |worker| app.may_vouch(worker));
    let Some(caller) = caller.map_err(Refusal::internal)? else { return Ok(None) };
    let Some(user) = vouched else { return Ok(Some(caller)) };
    let Caller::Worker(worker) = caller else { return not_a_worker() };
    if !app.may_vouch(&worker) {
        let said = format!(
            "the worker {worker} may not vouch for its users; an admin adds it to `vouch` under [workers] in the server's \
             configuration, or lets it join with a token made with --vouch"
        );
        return Err(Refusal::new(403, code::MAY_NOT_VOUCH, said));
    }
    let user = user.to_str().ok().filter(|user| is_login_name(user)).ok_or_else(|| {
        Refusal::new(422, code::BAD_NAME, format!("the header {VOUCHED_USER} has no login name"))
    })?;
    let caller = Caller::vouched_for(user, &worker, app.sharing.as_ref()).map_err(Refusal::internal)?;
    Ok(Some(caller?))
}

/// Whether a text can be the login name of a user.
pub(super) fn is_login_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.@$+".contains(&b);
    (1..=64).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-')
}
