//! The interface described for people, from the same description programs have.

use super::{Chrome, Frame, NoPage, html};
use crate::http::{Shared, described_paths, openapi};
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
    text: &'static Text,
}

/// All that is said; the same for as long as the program is.
static TEXT: LazyLock<Text> = LazyLock::new(|| Text::of(&openapi()));

struct Text {
    about: Prose,
    calls: Vec<Call>,
    forms: Vec<Form>,
    codes: Vec<(String, Prose)>,
}

/// Something that can be asked.
struct Call {
    id: String,
    method: String,
    path: String,
    about: Prose,
    fields: Vec<Field>,
    takes: Option<Kind>,
    answers: Vec<(String, Prose, Option<Kind>)>,
}

/// A type's fields.
struct Form {
    name: String,
    about: Prose,
    fields: Vec<Field>,
    words: Vec<String>,
}

struct Field {
    name: String,
    place: &'static str,
    kind: Kind,
    needed: bool,
    about: Prose,
}

/// What a value is, and where that is described.
struct Kind {
    words: String,
    form: Option<String>,
}

pub(super) async fn page(State(app): Shared, headers: HeaderMap) -> Result<Response, NoPage> {
    let frame = Frame::of(&app, &headers);
    let chrome = app.engine.read(move |f| Chrome::of(f, "HTTP API", "docs", frame)).await?;
    Ok(html(StatusCode::OK, &Docs { chrome, text: &TEXT }))
}

impl Text {
    fn of(spec: &Value) -> Text {
        let mut calls = Vec::new();
        for (path, methods) in spec["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                calls.push(call(path, method, operation));
            }
        }
        // As they are described, which begins with what is asked most.
        let order = described_paths();
        calls.sort_by_key(|call| order.iter().position(|path| *path == call.path));
        let forms = spec["components"]["schemas"].as_object().into_iter().flatten();
        let code = |c: &Value| (words(&c["code"]), prose(&c["meaning"]));
        Text {
            about: prose(&spec["info"]["description"]),
            calls,
            forms: forms.map(|(name, form)| described(name, form)).collect(),
            codes: spec["x-problem-codes"].as_array().into_iter().flatten().map(code).collect(),
        }
    }
}

/// Running text; what stands between backticks is code.
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

fn call(path: &str, method: &str, operation: &Value) -> Call {
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
    Call {
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

fn described(name: &str, form: &Value) -> Form {
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
    Form {
        name: name.to_owned(),
        about: prose(&form["description"]),
        fields: form["properties"].as_object().into_iter().flatten().map(field).collect(),
        words: words_of.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

fn kind(schema: &Value) -> Kind {
    let form = |s: &Value| s["$ref"].as_str().and_then(|r| r.rsplit('/').next()).map(str::to_owned);
    let plain = |words: String| Kind { words, form: None };
    if let Some(name) = form(schema) {
        return Kind { words: name.clone(), form: Some(name) };
    }
    if schema["type"] == "array" {
        let of = kind(&schema["items"]);
        return Kind { words: format!("list of {}", of.words), form: of.form };
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
