//! The HTTP API page: the OpenAPI document for people.

use super::{Chrome, Frame, PageError, html};
use crate::app::AppState;
use crate::http::{described_paths, openapi};
use askama::Template;
use askama::filters::HtmlSafe;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::Value;
use std::sync::LazyLock;

#[derive(Template)]
#[template(path = "docs.html")]
struct Docs {
    chrome: Chrome,
    text: &'static ApiDocs,
}

/// The content of the page, which is the same for the life of the process.
static TEXT: LazyLock<ApiDocs> = LazyLock::new(|| ApiDocs::of(&openapi()));

struct ApiDocs {
    about: Prose,
    calls: Vec<Operation>,
    forms: Vec<SchemaDocs>,
    codes: Vec<(String, Prose)>,
}

/// An operation of the API.
struct Operation {
    id: String,
    method: String,
    path: String,
    about: Prose,
    fields: Vec<Field>,
    takes: Option<TypeLink>,
    answers: Vec<(String, Prose, Option<TypeLink>)>,
}

/// A type and its fields.
struct SchemaDocs {
    name: String,
    about: Prose,
    fields: Vec<Field>,
    words: Vec<String>,
}

struct Field {
    name: String,
    place: &'static str,
    kind: TypeLink,
    needed: bool,
    about: Prose,
}

/// The type of a value, linked to its description where it has one.
#[derive(Template)]
#[template(
    source = r##"{% if let Some(form) = form %}<a href="#form-{{ form }}">{{ words }}</a>{% else %}{{ words }}{% endif %}"##,
    ext = "html"
)]
struct TypeLink {
    words: String,
    form: Option<String>,
}

impl HtmlSafe for TypeLink {}

pub(super) async fn page(State(app): AppState, headers: HeaderMap) -> Result<Response, PageError> {
    let frame = Frame::of(&app, &headers);
    let chrome = app.engine.read(move |f| Chrome::of(f, "HTTP API", "docs", frame)).await?;
    Ok(html(StatusCode::OK, &Docs { chrome, text: &TEXT }))
}

impl ApiDocs {
    fn of(spec: &Value) -> ApiDocs {
        let mut calls = Vec::new();
        for (path, methods) in spec["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                calls.push(call(path, method, operation));
            }
        }
        // In the order of the endpoint table, which begins with the most common.
        let order = described_paths();
        calls.sort_by_key(|call| order.iter().position(|path| *path == call.path));
        let forms = spec["components"]["schemas"].as_object().into_iter().flatten();
        let code = |c: &Value| (words(&c["code"]), prose(&c["meaning"]));
        ApiDocs {
            about: prose(&spec["info"]["description"]),
            calls,
            forms: forms.map(|(name, form)| described(name, form)).collect(),
            codes: spec["x-problem-codes"].as_array().into_iter().flatten().map(code).collect(),
        }
    }
}

/// Running text, in which backticks mark code.
#[derive(Template)]
#[template(
    ext = "html",
    source = "{% for part in parts %}{% if loop.index0 % 2 == 1 %}<code>{{ part }}</code>{% else %}{{ part }}{% endif %}{% endfor %}"
)]
struct Prose {
    parts: Vec<String>,
}

impl HtmlSafe for Prose {}

fn prose(value: &Value) -> Prose {
    Prose { parts: words(value).split('`').map(str::to_owned).collect() }
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn call(path: &str, method: &str, operation: &Value) -> Operation {
    let field = |p: &Value| Field {
        name: words(&p["name"]),
        place: match p["in"].as_str() {
            Some("path") => "path",
            Some("header") => "header",
            _ => "query",
        },
        kind: kind(&p["schema"]),
        needed: p["required"] == true,
        about: prose(&p["description"]),
    };
    let content = |media: &Value| {
        media.as_object().and_then(|m| m.iter().next()).map(|(media, content)| {
            let mut kind = kind(&content["schema"]);
            if media != "application/json" {
                kind.words = format!("{media}, {}", kind.words);
            }
            kind
        })
    };
    let answers = operation["responses"].as_object().into_iter().flatten().filter(|(s, _)| *s != "default");
    Operation {
        id: words(&operation["operationId"]),
        method: method.to_uppercase(),
        path: path.to_owned(),
        about: prose(&operation["summary"]),
        fields: operation["parameters"].as_array().into_iter().flatten().map(field).collect(),
        takes: content(&operation["requestBody"]["content"]),
        answers: answers
            .map(|(s, a)| (s.clone(), prose(&a["description"]), content(&a["content"])))
            .collect(),
    }
}

fn described(name: &str, form: &Value) -> SchemaDocs {
    let needed: Vec<_> =
        form["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let field = |(name, field): (&String, &Value)| Field {
        name: name.clone(),
        place: "",
        kind: kind(field),
        needed: needed.contains(&name.as_str()),
        about: prose(&field["description"]),
    };
    let one_of = form["oneOf"].as_array().into_iter().flatten();
    let words_of = form["enum"].as_array().into_iter().flatten().chain(one_of.filter_map(|o| o.get("const")));
    SchemaDocs {
        name: name.to_owned(),
        about: prose(&form["description"]),
        fields: form["properties"].as_object().into_iter().flatten().map(field).collect(),
        words: words_of.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

fn kind(schema: &Value) -> TypeLink {
    let form = |s: &Value| s["$ref"].as_str().and_then(|r| r.rsplit('/').next()).map(str::to_owned);
    let plain = |words: String| TypeLink { words, form: None };
    if let Some(name) = form(schema) {
        return TypeLink { words: name.clone(), form: Some(name) };
    }
    if schema["type"] == "array" {
        let of = kind(&schema["items"]);
        return TypeLink { words: format!("list of {}", of.words), form: of.form };
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let real: Vec<_> = choices.iter().filter(|c| c["type"] != "null").collect();
        if let [only] = real[..] {
            return kind(only);
        }
        return plain(real.iter().map(|c| kind(c).words).collect::<Vec<_>>().join(" or "));
    }
    match &schema["type"] {
        Value::String(name) => plain(name.clone()),
        Value::Array(names) => {
            let names: Vec<_> = names.iter().filter_map(Value::as_str).filter(|n| *n != "null").collect();
            plain(names.join(" or "))
        }
        _ => plain("any".into()),
    }
}
