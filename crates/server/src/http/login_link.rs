//! Login links for the pages, and the proof that this server knows its token.

use super::refusal::Refusal;
use super::{AppState, CallerExtension};
use crate::serve::Connection;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::{LoginView, ProofView};

/// The address of the proof, which needs no token.
pub(super) const PROOF: &str = "/v1/proof";

/// The length of a nonce in characters.
const NONCE: std::ops::RangeInclusive<usize> = 16..=128;

pub(super) async fn login(
    State(app): AppState,
    Extension(who): CallerExtension,
) -> Result<Json<LoginView>, Refusal> {
    if app.private() {
        who.must_be_admin("open the pages, which show everyone's jobs")?;
    }
    let login = app.auth.link(who.remembered()?).map_err(Refusal::internal)?;
    Ok(Json(LoginView { login }))
}

/// The input of a proof.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofQuery {
    /// A nonce: 16 to 128 letters and digits, never used before.
    nonce: String,
    /// The digest of a personal token, a join token or a worker's key to prove knowledge of, in place of the server's
    /// token.
    token: Option<String>,
}

pub(super) async fn proof(
    State(app): AppState,
    connection: Option<Extension<Arc<Connection>>>,
    query: Result<Query<ProofQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<ProofView>, Refusal> {
    let Query(ProofQuery { nonce, token }) = query?;
    if !NONCE.contains(&nonce.len()) || !nonce.bytes().all(|b| b.is_ascii_alphanumeric()) {
        let wrong = "a nonce has 16 to 128 letters and digits";
        return Err(Problem::new(code::BAD_REQUEST, "nonce", wrong).into());
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let key = match token {
        None => None,
        Some(id) => {
            let unknown = || {
                let said =
                    "the token is not known here: it has expired or was revoked, or is another server's";
                Refusal::new(401, code::UNAUTHORISED, said)
            };
            Some(app.tokens.proof_key(&id).ok_or_else(unknown)?)
        }
    };
    let proof = connection.and_then(|Extension(by)| app.auth.proof(key.as_deref(), &nonce, host, by.local));
    match proof {
        Some(proof) => Ok(Json(ProofView { proof })),
        None => Err(Refusal::new(
            421,
            code::WRONG_HOST,
            format!(
                "a proof is made for the address a connection comes in at, and for `hosts` of the configuration; '{host}' \
                 is neither"
            ),
        )),
    }
}
