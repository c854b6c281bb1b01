//! The router of the whole server: the API, the pages, and what applies to every request.

use crate::app::{App, AppState};
use crate::http::refusal::Refusal;
use crate::{http, pages};
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Extensions, HeaderMap, Method, StatusCode, Uri, Version};
use axum::middleware;
use axum::response::IntoResponse;
use std::sync::Arc;
use std::time::Duration;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;
use warpyard_api::problem::code;

/// The largest request body elsewhere, where bodies are parsed on the async threads.
const SMALL_BODY_LIMIT: usize = 1 << 20;

/// The longest pause while a request body arrives; short in tests, which wait for it.
const BODY_WITHIN: Duration = if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(30) };

/// The router of the API and the pages, which admits only authenticated requests.
pub(crate) fn router(app: Arc<App>) -> Router {
    http::routes()
        .merge(pages::router(app.clone()))
        .fallback(async |State(app): AppState, uri: Uri, headers: HeaderMap| match uri.path() {
            path if path.starts_with("/v1/") => {
                Refusal::new(404, code::NOT_FOUND, "there is nothing at this address").into_response()
            }
            path if path.starts_with(http::ASSETS) => pages::no_asset(),
            _ => pages::not_found_page(&app, &headers).await,
        })
        .method_not_allowed_fallback(async |method: Method| {
            Refusal::new(405, code::WRONG_METHOD, format!("{method} is not supported at this address"))
        })
        .layer(middleware::from_fn(http::etag::add_etag))
        .layer(middleware::from_fn_with_state(app.clone(), http::access::authenticate))
        .layer(middleware::map_response(pages::add_login))
        .layer(middleware::map_response(pages::add_security_headers))
        .layer(DefaultBodyLimit::max(SMALL_BODY_LIMIT))
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(is_compressible))
        .layer(RequestBodyTimeoutLayer::new(BODY_WITHIN))
        .with_state(app)
}

/// Whether a response is worth compressing. Streams are not: their chunks would wait in the compressor.
fn is_compressible(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    [
        "application/json",
        "application/problem+json",
        "text/html",
        "text/css",
        "text/javascript",
        "image/svg+xml",
    ]
    .iter()
    .any(|k| kind.starts_with(k))
}
