//! One thing that can be asked: where, what it takes and gives, and who answers. The interface and its description are
//! both made from these, so that neither has what the other lacks.

use super::App;
use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::sync::Arc;

/// A type's form, made when it is asked for.
pub(super) type Shape = fn(&mut SchemaGenerator) -> Schema;

/// An object of any fields, where what is in it is described elsewhere. Generators of clients do not take a schema that
/// is only `true`, which is what a JSON value has.
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

/// Something that can be asked.
pub(super) struct Endpoint {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    /// Its fields are the parameters of the query.
    pub(super) query: Option<Shape>,
    /// Headers that mean something here alone, with what they mean.
    pub(super) headers: Vec<(&'static str, &'static str)>,
    pub(super) body: Option<Shape>,
    pub(super) answers: Vec<Answer>,
    pub(super) route: MethodRouter<Arc<App>>,
}

/// An answer that is no refusal.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) media: Option<&'static str>,
    pub(super) shape: Option<Shape>,
    pub(super) about: &'static str,
}

impl Endpoint {
    fn new(
        method: &'static str,
        path: &'static str,
        about: &'static str,
        route: MethodRouter<Arc<App>>,
    ) -> Self {
        Endpoint {
            method,
            path,
            about,
            query: None,
            headers: Vec::new(),
            body: None,
            answers: Vec::new(),
            route,
        }
    }

    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Endpoint { query: Some(T::json_schema), ..self }
    }

    pub(super) fn header(mut self, name: &'static str, about: &'static str) -> Self {
        self.headers.push((name, about));
        self
    }

    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        Endpoint { body: Some(|g| g.subschema_for::<T>()), ..self }
    }

    pub(super) fn gives<T: JsonSchema>(self) -> Self {
        self.gives_as::<T>(200, "As asked.")
    }

    pub(super) fn gives_as<T: JsonSchema>(mut self, status: u16, about: &'static str) -> Self {
        let shape: Shape = |g| g.subschema_for::<T>();
        self.answers.push(Answer { status, media: Some("application/json"), shape: Some(shape), about });
        self
    }

    pub(super) fn gives_text(mut self, media: &'static str, about: &'static str) -> Self {
        self.answers.push(Answer { status: 200, media: Some(media), shape: None, about });
        self
    }

    pub(super) fn gives_part(mut self) -> Self {
        let about = "The part of it that the header Range asked for.";
        self.answers.push(Answer { status: 206, media: Some("text/plain"), shape: None, about });
        self
    }

    pub(super) fn gives_nothing(mut self, status: u16, about: &'static str) -> Self {
        self.answers.push(Answer { status, media: None, shape: None, about });
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
