//! Refusals as `application/problem+json`, the errors that become one, and streamed bodies.

use crate::caller::AccessDenied;
use crate::convert;
use crate::engine::{CommandError, EngineStopped};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;
use warpyard_api::problem::{Problem, code};
use warpyard_api::wire::ProblemBody;

/// A refused request: the problem document of its response.
#[derive(Debug)]
pub(crate) struct Refusal(Box<ProblemBody>);

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Refusal {
        Refusal(Box::new(ProblemBody::new(status, code, detail)))
    }

    /// What is wrong, in words.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// An internal error, which the server's log records too.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Refusal {
        tracing::error!("a request failed: {error}");
        Refusal::new(500, code::INTERNAL, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.0)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        vec![problem].into()
    }
}

impl From<Vec<Problem>> for Refusal {
    fn from(problems: Vec<Problem>) -> Refusal {
        let status = match problems.first().map(|p| &*p.code) {
            Some(code::UNKNOWN_JOB | code::UNKNOWN_TASK | code::UNKNOWN_ATTEMPT | code::UNKNOWN_WORKER) => {
                404
            }
            Some(code::WRONG_STATE | code::IDEMPOTENCY_MISMATCH | code::FULL) => 409,
            _ => 422,
        };
        Refusal(Box::new(ProblemBody::of_problems(status, problems)))
    }
}

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Refusal {
        match error {
            CommandError::Rejected(rejected) => convert::problem(rejected).into(),
            CommandError::Stopped(stopped) => stopped.into(),
        }
    }
}

impl From<AccessDenied> for Refusal {
    fn from(denied: AccessDenied) -> Refusal {
        Refusal::new(if denied.hides { 404 } else { 403 }, denied.code, denied.to_string())
    }
}

impl From<EngineStopped> for Refusal {
    fn from(stopped: EngineStopped) -> Refusal {
        Refusal::new(503, code::NOT_READY, stopped.to_string())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Refusal {
        let why = detail(&rejection);
        let said = match &rejection {
            JsonRejection::MissingJsonContentType(_) => {
                "send JSON, with `Content-Type: application/json`".into()
            }
            JsonRejection::JsonSyntaxError(_) => format!("the body is not JSON: {why}"),
            JsonRejection::JsonDataError(_) => {
                format!("the body does not match the schema: {why}")
            }
            _ => rejection.body_text(),
        };
        Refusal::new(rejection.status().as_u16(), code::BAD_REQUEST, said)
    }
}

/// The root cause of an error, without the context around it.
fn detail(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Refusal {
        let said = format!("the query cannot be parsed: {}", detail(&rejection));
        Refusal::new(rejection.status().as_u16(), code::BAD_REQUEST, said)
    }
}

/// A body streamed from a channel until it closes; an error aborts it.
pub(super) fn stream_body<E>(from: Receiver<Result<Bytes, E>>) -> Body
where
    E: std::error::Error + Send + Sync + 'static,
{
    Body::from_stream(ReceiverStream(from))
}

struct ReceiverStream<T>(Receiver<T>);

impl<T> futures_core::Stream for ReceiverStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.0.poll_recv(cx)
    }
}
