//! One endpoint of the HTTP API: method, path, what it accepts and returns, and its handler. Router and OpenAPI
//! document are both made from these, so that neither has what the other lacks.

use super::App;
use crate::caller::Access;
use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::sync::Arc;

/// Generates the schema of a type.
pub(super) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// An object with any fields, whose content is described elsewhere. The schema `true` of a JSON value is not accepted
/// by client generators.
pub(super) struct AnyObject;

impl JsonSchema for AnyObject {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("AnyObject")
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

/// An endpoint.
pub(super) struct Endpoint {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    /// What it requires of its callers.
    pub(super) access: Access,
    /// A struct whose fields are the query parameters.
    pub(super) query: Option<SchemaFn>,
    /// Request headers with a meaning of their own here, each with its description.
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: Option<SchemaFn>,
    pub(super) responses: Vec<ResponseDoc>,
    pub(super) route: MethodRouter<Arc<App>>,
}

/// A successful response.
pub(super) struct ResponseDoc {
    pub(super) status: u16,
    pub(super) media: Option<&'static str>,
    pub(super) shape: Option<SchemaFn>,
    pub(super) about: &'static str,
}

impl Endpoint {
    fn new(
        method: &'static str,
        path: &'static str,
        about: &'static str,
        route: MethodRouter<Arc<App>>,
    ) -> Self {
        let access = if method == "get" { Access::Read } else { Access::Change };
        Endpoint {
            method,
            path,
            about,
            access,
            query: None,
            headers: Vec::new(),
            body: None,
            responses: Vec::new(),
            route,
        }
    }

    /// The same with other requirements than those of its method: to look for GET, to change something for others.
    pub(super) fn requires(self, access: Access) -> Self {
        Endpoint { access, ..self }
    }

    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Endpoint { query: Some(T::json_schema), ..self }
    }

    pub(super) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.headers.push((name, about));
        self
    }

    pub(super) fn accepts<T: JsonSchema>(self) -> Self {
        Endpoint { body: Some(|g| g.subschema_for::<T>()), ..self }
    }

    pub(super) fn returns<T: JsonSchema>(self) -> Self {
        self.returns_as::<T>(200, "Success.")
    }

    pub(super) fn returns_as<T: JsonSchema>(mut self, status: u16, about: &'static str) -> Self {
        let shape: SchemaFn = |g| g.subschema_for::<T>();
        self.responses.push(ResponseDoc {
            status,
            media: Some("application/json"),
            shape: Some(shape),
            about,
        });
        self
    }

    pub(super) fn returns_text(mut self, media: &'static str, about: &'static str) -> Self {
        self.responses.push(ResponseDoc { status: 200, media: Some(media), shape: None, about });
        self
    }

    pub(super) fn returns_range(mut self) -> Self {
        let about = "The requested range of bytes.";
        self.responses.push(ResponseDoc { status: 206, media: Some("text/plain"), shape: None, about });
        self
    }

    pub(super) fn returns_nothing(mut self, status: u16, about: &'static str) -> Self {
        self.responses.push(ResponseDoc { status, media: None, shape: None, about });
        self
    }
}

pub(super) fn get<T, H>(path: &'static str, about: &'static str, handler: H) -> Endpoint
where
    T: 'static,
    H: Handler<T, Arc<App>>,
{
    Endpoint::new("get", path, about, routing::get(handler))
}

pub(super) fn post<T, H>(path: &'static str, about: &'static str, handler: H) -> Endpoint
where
    T: 'static,
    H: Handler<T, Arc<App>>,
{
    Endpoint::new("post", path, about, routing::post(handler))
}

pub(super) fn put<T, H>(path: &'static str, about: &'static str, handler: H) -> Endpoint
where
    T: 'static,
    H: Handler<T, Arc<App>>,
{
    Endpoint::new("put", path, about, routing::put(handler))
}

pub(super) fn delete<T, H>(path: &'static str, about: &'static str, handler: H) -> Endpoint
where
    T: 'static,
    H: Handler<T, Arc<App>>,
{
    Endpoint::new("delete", path, about, routing::delete(handler))
}
