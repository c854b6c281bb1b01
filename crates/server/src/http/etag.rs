//! Answers in JSON carry a tag of their content, so that whoever polls is sent nothing new where nothing is.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::hash::{DefaultHasher, Hasher};

pub(super) async fn tagged(request: Request, next: Next) -> Response {
    let asked = request.method() == Method::GET && request.uri().path().starts_with("/v1/");
    let known = request.headers().get(IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    let json = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !asked || !json || response.status() != StatusCode::OK {
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
