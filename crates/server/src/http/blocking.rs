//! Work whose cost grows with the request: parsed and checked on blocking threads, a few at a time for each user, so
//! that no request holds up the async threads that serve everyone.

use super::App;
use super::refusal::Refusal;
use crate::caller::Caller;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use warpyard_api::problem::code;

/// The largest body that is parsed on the async thread; handing a smaller one over costs more than parsing it.
pub(super) const SMALL: usize = 16 << 10;

impl App {
    /// Runs work of a user on a blocking thread. Its slot is held until the work is done, also where the client has
    /// gone.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        who: &Caller,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = self.quotas.blocking.of(who).acquire_owned().await.map_err(Refusal::internal)?;
        let work = move || {
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(Refusal::internal)
    }

    /// The request body parsed as JSON.
    pub(super) async fn parsed<T: DeserializeOwned + Send + 'static>(
        &self,
        who: &Caller,
        headers: &HeaderMap,
        body: Result<Bytes, BytesRejection>,
    ) -> Result<T, Refusal> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_json =
            kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json");
        if !is_json {
            let said = "send JSON, with `Content-Type: application/json`";
            return Err(Refusal::new(415, code::BAD_REQUEST, said));
        }
        let refused = |e: BytesRejection| Refusal::new(e.status().as_u16(), code::BAD_REQUEST, e.body_text());
        let bytes = body.map_err(refused)?;
        let Json(parsed) = match bytes.len() <= SMALL {
            true => Json::from_bytes(&bytes)?,
            false => self.blocking(who, move || Json::from_bytes(&bytes)).await??,
        };
        Ok(parsed)
    }
}
