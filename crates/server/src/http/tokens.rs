//! Personal tokens, join tokens, and workers that join.

use super::access::is_login_name;
use super::refusal::Refusal;
use super::{App, AppState, CallerExtension};
use crate::caller::{Caller, OriginSource};
use crate::tokens::{Listed, ListedKind, NewKind, NewToken, Role, TokenRefusal, Tokens};
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use warpyard_api::problem::{Problem, code};
use warpyard_api::quantity::Micros;
use warpyard_api::token::{JoinToken, PersonalToken};
use warpyard_api::wire::{
    JoinReply, JoinRequest, Timestamp, TlsView, TokenReply, TokenRequest, TokenRole, TokenView,
};
use warpyard_worker::accounts::Account;

/// The address where workers join, which checks the secret of a join token itself.
pub(super) const JOIN: &str = "/v1/workers/join";

/// How long a join token is valid unless something else is said.
const JOIN_LASTS: Micros = Micros::from_secs(3600);

/// How long a personal token is valid unless something else is said.
const PERSONAL_LASTS: Micros = Micros::from_secs(30 * 86_400);

impl From<TokenRefusal> for Refusal {
    fn from(refused: TokenRefusal) -> Refusal {
        match (refused.code(), &refused) {
            (_, TokenRefusal::Storage(source)) => Refusal::internal(format!("{refused}: {source}")),
            ((status, code), _) => Refusal::new(status, code, refused.to_string()),
        }
    }
}

/// Runs a change of the tokens on a blocking thread, since it waits for the disk.
async fn changed<T: Send + 'static>(
    app: &App,
    change: impl FnOnce(&Tokens) -> Result<T, TokenRefusal> + Send + 'static,
) -> Result<T, Refusal> {
    let tokens = app.tokens.clone();
    let change = move || change(&tokens);
    Ok(tokio::task::spawn_blocking(change).await.map_err(Refusal::internal)??)
}

pub(super) async fn list(State(app): AppState, Extension(who): CallerExtension) -> Json<Vec<TokenView>> {
    Json(app.tokens.list().iter().filter(|listed| concerns(&who, listed)).map(view).collect())
}

/// Whether a token is the caller's, or the caller an admin.
fn concerns(who: &Caller, listed: &Listed) -> bool {
    let own = |user: &Option<String>| user.is_some() && user.as_deref() == who.name();
    who.is_admin() || matches!(&listed.kind, ListedKind::Personal { user, .. } if own(user))
}

pub(super) async fn create(
    State(app): AppState,
    Extension(who): CallerExtension,
    body: Result<Json<TokenRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<TokenReply>), Refusal> {
    let Json(request) = body?;
    let server = match &request.server {
        Some(server) => address(server)?,
        None => app.reached.url.clone(),
    };
    let new = new_token(&app, &who, request)?;
    let is_join = matches!(new.kind, NewKind::Join { .. });
    let (secret, listed) = changed(&app, move |tokens| tokens.create(new)).await?;
    let ca = app.reached.ca.as_ref().map(|(print, _)| *print);
    let token = match is_join {
        true => JoinToken { server, ca, secret }.to_string(),
        false => PersonalToken { server, ca, secret }.to_string(),
    };
    tracing::info!("token {} was made by {}", listed.id, who.name().unwrap_or("the owner"));
    Ok((StatusCode::CREATED, Json(TokenReply { token, view: view(&listed) })))
}

/// The token that a caller asks for, if they may.
fn new_token(app: &App, who: &Caller, request: TokenRequest) -> Result<NewToken, Refusal> {
    let TokenRequest { role, user, uses, expires, label, vouch, server: _ } = request;
    let only_for_workers = |field: &str| {
        Refusal::from(Problem::new(code::BAD_REQUEST, field, "only a token of the role worker has this"))
    };
    let role = match role {
        TokenRole::Worker => {
            who.must_be_admin("make join tokens")?;
            if user.is_some() {
                return Err(Problem::new(code::BAD_REQUEST, "user", "a join token is nobody's").into());
            }
            let kind = NewKind::Join { uses: uses.unwrap_or(1), vouch };
            return Ok(NewToken { label, lasts: seconds(expires.unwrap_or(JOIN_LASTS)), kind });
        }
        TokenRole::Admin => {
            who.must_be_admin("make tokens of admins")?;
            Role::Admin
        }
        TokenRole::User => Role::User,
        TokenRole::Viewer => Role::Viewer,
    };
    if uses.is_some() {
        return Err(only_for_workers("uses"));
    }
    if vouch {
        return Err(only_for_workers("vouch"));
    }
    let vouched_by = match who.known_by() {
        // A stolen token must not outlive its own expiry and revocation.
        Some(OriginSource::Token(_)) if !who.is_admin() => {
            let said =
                "a token makes no further tokens; use the socket of the server's machine, or ask an admin";
            return Err(Refusal::new(403, code::FORBIDDEN, said));
        }
        Some(OriginSource::Worker(worker)) => Some(worker.clone()),
        _ => None,
    };
    let user = match (user, who.name()) {
        (Some(user), Some(own)) if user != own && !who.is_admin() => {
            let said =
                format!("you are {own} and make tokens for yourself; only admins make them for others");
            return Err(Refusal::new(403, code::NOT_YOURS, said));
        }
        (Some(user), _) if !is_login_name(&user) => {
            return Err(Problem::new(code::BAD_NAME, "user", "this is not a login name").into());
        }
        (Some(user), _) => Some(user),
        (None, Some(own)) => Some(own.to_owned()),
        // The owner of an unshared server is the account it runs as.
        (None, None) => app.account.as_ref().filter(|_| app.sharing.is_none()).map(|own| own.name.clone()),
    };
    if user.is_none() && role == Role::User {
        let said = "say whose it is: a token of the role user has a user";
        return Err(Problem::new(code::MISSING_FIELD, "user", said).into());
    }
    let uid = account_for(app, user.as_deref(), role)?.map(|account| account.uid);
    let kind = NewKind::Personal { user, uid, role, vouched_by };
    Ok(NewToken { label, lasts: seconds(expires.unwrap_or(PERSONAL_LASTS)), kind })
}

/// The account that a token is for, where tasks run as their users. Refuses one that is not there, whose name is probably
/// mistyped, and one that may not do what the token would let its holder do.
fn account_for(app: &App, user: Option<&str>, role: Role) -> Result<Option<Account>, Refusal> {
    let (Some(user), Some(sharing)) = (user, &app.sharing) else { return Ok(None) };
    let refused = |code, field, said: String| Err(Problem::new(code, field, said).into());
    match Account::by_name(user).map_err(Refusal::internal)? {
        Some(account) if role <= sharing.role_of(&account) => Ok(Some(account)),
        Some(_) => {
            let group = &sharing.admins;
            let said =
                format!("{user} is not an admin of this server; add {user} to the group '{group}' first");
            refused(code::BAD_REQUEST, "role", said)
        }
        None => {
            refused(code::NO_ACCOUNT, "user", format!("there is no user '{user}' on the server's machine"))
        }
    }
}

fn seconds(length: Micros) -> u64 {
    length.0.div_ceil(1_000_000)
}

/// The address of a server as a token carries it.
fn address(text: &str) -> Result<String, Refusal> {
    let wrong = |why| Refusal::from(Problem::new(code::BAD_REQUEST, "server", why));
    let plain = text.bytes().all(|b| b.is_ascii_graphic()) && text.len() <= 256;
    match text.trim_end_matches('/').split_once("://") {
        Some(("http" | "https", host))
            if plain && !host.is_empty() && !host.contains(['/', '@', '?', '#']) =>
        {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(wrong("write the address as https://host:port")),
    }
}

pub(super) async fn revoke(
    State(app): AppState,
    Extension(who): CallerExtension,
    Path(id): Path<String>,
) -> Result<Json<TokenView>, Refusal> {
    let listed = match app.tokens.find(&id) {
        Ok(listed) if concerns(&who, &listed) => listed,
        // Others' tokens are nobody else's to know of.
        Ok(_) => return Err(TokenRefusal::NoSuchToken(id).into()),
        Err(refused) => return Err(refused.into()),
    };
    let full = listed.id.clone();
    changed(&app, move |tokens| tokens.revoke(&full)).await?;
    tracing::info!("token {} was revoked by {}", listed.id, who.name().unwrap_or("the owner"));
    Ok(Json(view(&listed)))
}

pub(super) async fn join(
    State(app): AppState,
    body: Result<Json<JoinRequest>, JsonRejection>,
) -> Result<Json<JoinReply>, Refusal> {
    let Json(JoinRequest { secret, name, key }) = body?;
    // The worker inside the server has no key, but a name.
    if app.local_worker.as_ref() == Some(&name) {
        return Err(TokenRefusal::NameTaken(name).into());
    }
    let worker = name.clone();
    let redeemed = changed(&app, move |tokens| tokens.redeem_join(&secret, &name, &key)).await;
    match &redeemed {
        Ok(_) => tracing::info!("worker {worker} joined"),
        Err(refused) => tracing::warn!("a worker was refused: {}", refused.detail()),
    }
    let vouch = redeemed? || app.may_vouch(&worker);
    Ok(Json(JoinReply { worker, vouch, ca: app.reached.ca.as_ref().map(|(_, pem)| pem.clone()) }))
}

/// How others reach the server, and by which CA they know it.
pub(super) async fn tls(State(app): AppState) -> Json<TlsView> {
    let (fingerprint, certificate) = match &app.reached.ca {
        Some((print, pem)) => (Some(print.to_string()), Some(pem.clone())),
        None => (None, None),
    };
    Json(TlsView { server: app.reached.url.clone(), fingerprint, certificate })
}

/// Revokes the key of a worker, and what was granted on its word.
pub(super) async fn revoke_key(
    State(app): AppState,
    Path(name): Path<String>,
) -> Result<StatusCode, Refusal> {
    let worker = name.clone();
    if changed(&app, move |tokens| tokens.revoke_worker(&name)).await? {
        tracing::info!("the key of worker {worker} was revoked");
        // Its attempts may still run there: only the end of its lease says that they do not.
        app.remote.disconnect(&worker);
        return Ok(StatusCode::NO_CONTENT);
    }
    let said = format!("no worker '{worker}' has joined with a token");
    Err(Problem::new(code::UNKNOWN_WORKER, "", said).into())
}

fn view(listed: &Listed) -> TokenView {
    let time = |seconds: u64| {
        let millis = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        Timestamp::from_millis(millis)
            .unwrap_or_else(|| Timestamp::from_millis(0).expect("1970 can be written"))
    };
    let base = TokenView {
        id: listed.id[..10.min(listed.id.len())].to_owned(),
        role: TokenRole::Worker,
        user: None,
        label: listed.label.clone(),
        created_at: time(listed.created),
        expires_at: time(listed.expires),
        expired: listed.expired,
        last_used_at: None,
        uses_left: None,
        vouch: false,
        vouched_by: None,
    };
    match &listed.kind {
        ListedKind::Join { uses_left, vouch } => {
            TokenView { uses_left: Some(*uses_left), vouch: *vouch, ..base }
        }
        ListedKind::Personal { user, role, last_used, vouched_by } => TokenView {
            role: match role {
                Role::Viewer => TokenRole::Viewer,
                Role::User => TokenRole::User,
                Role::Admin => TokenRole::Admin,
            },
            user: user.clone(),
            last_used_at: last_used.map(time),
            vouched_by: vouched_by.clone(),
            ..base
        },
    }
}
