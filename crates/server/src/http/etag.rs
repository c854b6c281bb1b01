//! Entity tags: responses in JSON and the pages' assets carry a hash of their content, so that clients that poll or load a
//! page again are sent only what changed.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::hash::{DefaultHasher, Hasher};

/// Adds an entity tag to a response, or answers 304 where the client has this content already.
pub(crate) async fn add_etag(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let (api, asset) = (path.starts_with("/v1/"), path.starts_with(super::ASSETS));
    let taggable = request.method() == Method::GET && (api || asset);
    let known = request.headers().get(IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !taggable || !(json || asset) || response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(content) = to_bytes(body, usize::MAX).await else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let mut hash = DefaultHasher::new();
    hash.write(&content);
    // Weak, because the same content may be sent compressed or not.
    let Ok(tag) = HeaderValue::from_str(&format!("W/\"{:016x}\"", hash.finish())) else {
        return Response::from_parts(parts, Body::from(content));
    };
    let same = known.and_then(|k| k.to_str().map(str::to_owned).ok()).is_some_and(|known| {
        known.split(',').any(|one| one.trim() == "*" || one.trim().as_bytes() == tag.as_bytes())
    });
    parts.headers.insert(ETAG, tag);
    if same {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(CONTENT_TYPE);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(content))
}
