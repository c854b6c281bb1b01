//! A new way into the pages, for the person who asks for it, and the proof that this is the server its callers mean.

use super::answer::Refusal;
use super::{By, Shared};
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

/// Where anyone may ask for a proof.
pub(super) const PROOF: &str = "/v1/proof";

/// How many characters a nonce has.
const NONCE: std::ops::RangeInclusive<usize> = 16..=128;

pub(super) async fn login(State(app): Shared, Extension(who): By) -> Result<Json<LoginView>, Refusal> {
    if app.private() {
        who.must_be_admin("open the pages, which show everyone's jobs")?;
    }
    let login = app.auth.link(who.remembered()?).map_err(Refusal::internal)?;
    Ok(Json(LoginView { login }))
}

/// What a proof is to be made of.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProofQuery {
    /// Letters and digits nobody used before, 16 to 128 of them.
    nonce: String,
}

pub(super) async fn proof(
    State(app): Shared,
    connection: Option<Extension<Arc<Connection>>>,
    query: Result<Query<ProofQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<ProofView>, Refusal> {
    let Query(ProofQuery { nonce }) = query?;
    if !NONCE.contains(&nonce.len()) || !nonce.bytes().all(|b| b.is_ascii_alphanumeric()) {
        let wrong = "a nonce has between 16 and 128 letters and digits";
        return Err(Problem::new(code::BAD_REQUEST, "nonce", wrong).into());
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let proof = connection.and_then(|Extension(by)| app.auth.proof(&nonce, host, by.local));
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
