//! The OpenAPI 3.1 document, generated from the endpoint table and the wire types.

use super::endpoint::{Endpoint, ResponseDoc, SchemaFn};
use super::table::endpoints;
use crate::caller::Access;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use warpyard_api::problem::CODES;
use warpyard_api::wire::ProblemBody;

/// The OpenAPI document.
pub fn openapi() -> Value {
    let mut forms = SchemaCollector::new();
    let mut paths = Map::new();
    for endpoint in endpoints() {
        let at = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        at[endpoint.method] = operation(&endpoint, &mut forms);
    }
    let codes: Vec<_> = CODES.iter().map(|c| json!({"code": c.code, "meaning": c.meaning})).collect();
    let refusal = forms.given.subschema_for::<ProblemBody>();
    let mut spec = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "warpyard",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "One scheduler for shared GPUs. Every call needs the server's token or a personal token in the \
                header `Authorization: Bearer`, or the cookie of a login and, to change something, the token of that login in \
                `x-warpyard-csrf`. Answers in JSON have an ETag. An id of a job may be a selector: `412`, \
                `412.train[3]`, `3-7`, `last`.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": {
                "description": "It was refused; `code` says why, and `problems` each thing that is wrong.",
                "content": {"application/problem+json": {"schema": refusal}},
            }},
        },
        "x-problem-codes": codes,
    });
    spec["components"]["schemas"] = forms.all().into();
    plain_enums(&mut spec);
    plain_words(&mut spec);
    spec
}

/// Collects the schemas of types, for requests and for responses: a field that may be omitted in a request is always
/// present in a response.
struct SchemaCollector {
    taken: SchemaGenerator,
    given: SchemaGenerator,
}

impl SchemaCollector {
    fn new() -> SchemaCollector {
        let settings = SchemaSettings::draft2020_12().with(|s| {
            s.definitions_path = "/components/schemas".into();
            s.meta_schema = None;
        });
        SchemaCollector {
            taken: settings.clone().for_deserialize().into_generator(),
            given: settings.for_serialize().into_generator(),
        }
    }

    fn all(mut self) -> Map<String, Value> {
        let mut all = self.given.take_definitions(true);
        for (name, form) in self.taken.take_definitions(true) {
            all.entry(name).or_insert(form);
        }
        let mut sorted: Vec<_> = all.into_iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted.into_iter().collect()
    }
}

fn operation(endpoint: &Endpoint, forms: &mut SchemaCollector) -> Value {
    let mut responses: Map<String, Value> = Map::new();
    for answer in &endpoint.responses {
        let entry = responses
            .entry(answer.status.to_string())
            .or_insert_with(|| json!({"description": answer.about}));
        if let Some(media) = answer.media {
            entry["content"][media_of(endpoint, media)] = content(answer, &mut forms.given);
        }
    }
    responses.insert("default".into(), json!({"$ref": "#/components/responses/Problem"}));
    let mut operation = json!({
        "operationId": name_of(endpoint),
        "summary": endpoint.about,
        "responses": responses,
    });
    if endpoint.access == Access::Open {
        operation["security"] = json!([]);
    }
    let parameters = parameters(endpoint, &mut forms.taken);
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    if let Some(body) = endpoint.body {
        let schema = body(&mut forms.taken);
        operation["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    operation
}

/// The content of a response; a stream is described by the data of its events.
fn media_of(endpoint: &Endpoint, media: &'static str) -> &'static str {
    if endpoint.path == "/v1/events" { "text/event-stream" } else { media }
}

fn content(answer: &ResponseDoc, given: &mut SchemaGenerator) -> Value {
    match answer.shape {
        Some(shape) => json!({"schema": shape(given)}),
        None => json!({"schema": {"type": "string"}}),
    }
}

fn name_of(endpoint: &Endpoint) -> String {
    let words = endpoint.path.trim_start_matches("/v1").split(['/', '.']);
    let words = words.filter(|w| !w.is_empty()).map(|w| w.trim_matches(['{', '}']));
    words.fold(endpoint.method.to_owned(), |name, word| format!("{name}_{word}"))
}

fn parameters(endpoint: &Endpoint, taken: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = endpoint.path.split('/').filter_map(|w| w.strip_prefix('{')?.strip_suffix('}'));
    let mut all: Vec<Value> = in_path
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}}))
        .collect();
    all.extend(endpoint.query.map(|shape| in_query(shape, taken)).unwrap_or_default());
    let in_header = |(name, about): &(&str, &str)| json!({"name": name, "in": "header", "description": about, "schema": {"type": "string"}});
    all.extend(endpoint.headers.iter().map(in_header));
    all
}

fn in_query(shape: SchemaFn, taken: &mut SchemaGenerator) -> Vec<Value> {
    let form: Value = shape(taken).into();
    let fields = form["properties"].as_object().cloned().unwrap_or_default();
    let parameter = |(name, mut field): (String, Value)| {
        let about = field.as_object_mut().and_then(|f| f.remove("description"));
        let mut parameter = json!({"name": name, "in": "query", "schema": field});
        if let Some(about) = about {
            parameter["description"] = about;
        }
        parameter
    };
    fields.into_iter().map(parameter).collect()
}

/// Turns a choice of single words, each with its meaning, into an enumeration with the meanings in its description,
/// which client generators make a type of.
fn plain_enums(value: &mut Value) {
    if let Some((words, meanings)) = value.get("oneOf").and_then(words_of) {
        let about = value["description"].as_str().map(str::to_owned);
        let about: Vec<_> = about.into_iter().chain(meanings).collect();
        let fields = value.as_object_mut().expect("it has a field");
        fields.remove("oneOf");
        fields.insert("type".to_owned(), json!("string"));
        fields.insert("enum".to_owned(), words.into());
        fields.insert("description".to_owned(), about.join("\n").into());
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(plain_enums),
        Value::Array(items) => items.iter_mut().for_each(plain_enums),
        _ => {}
    }
}

/// The words of a choice that consists of nothing else, and the meaning of each.
fn words_of(choice: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let (mut words, mut meanings) = (Vec::new(), Vec::new());
    for one in choice.as_array()? {
        let found = match (&one["const"], one["enum"].as_array()) {
            (word @ Value::String(_), _) => vec![word.clone()],
            (_, Some(several)) if several.iter().all(Value::is_string) => several.clone(),
            _ => return None,
        };
        if let Some(means) = one["description"].as_str() {
            let named: Vec<_> =
                found.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
            meanings.push(format!("- {}: {means}", named.join(", ")));
        }
        words.extend(found);
    }
    Some((words, meanings))
}

/// Removes links that only the documentation of the code can follow: `[name](where)` becomes `name`.
fn plain_words(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == "description" => *text = without_links(text),
                    other => plain_words(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain_words),
        _ => {}
    }
}

fn without_links(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once('[') {
        out.push_str(before);
        let Some((name, after)) = link.split_once(']') else {
            out.push('[');
            rest = link;
            continue;
        };
        let linked = after.strip_prefix('(').and_then(|a| a.split_once(')'));
        match (linked, name.starts_with('`')) {
            (Some((_, after)), _) => {
                out.push_str(name);
                rest = after;
            }
            (None, true) => {
                out.push_str(name);
                rest = after;
            }
            (None, false) => {
                out.push('[');
                rest = link;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_openapi_is_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let now = serde_json::to_string_pretty(&openapi()).expect("JSON") + "\n";
        if std::env::var_os("WARPYARD_WRITE").is_some() {
            std::fs::write(path, &now).expect("it can be written");
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == now,
            "docs/openapi.json is stale; make it again: WARPYARD_WRITE=1 cargo test -p warpyard-server openapi"
        );
    }

    #[test]
    fn every_parameter_is_described_and_no_schema_takes_just_anything() {
        let spec = openapi();
        for (path, methods) in spec["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let taken = operation["parameters"].as_array().into_iter().flatten();
                for parameter in taken.filter(|parameter| parameter["in"] != "path") {
                    assert!(parameter["description"].is_string(), "{method} {path}: {parameter}");
                }
                let contents = operation["responses"].as_object().expect("responses").values();
                for content in contents.chain([&operation["requestBody"]]).map(|c| &c["content"]) {
                    for (media, content) in content.as_object().into_iter().flatten() {
                        assert!(content["schema"].is_object(), "{method} {path}: {media}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn each(value: &Value, see: &mut impl FnMut(&str)) {
            match value {
                Value::Object(fields) => {
                    for (name, field) in fields {
                        match field {
                            Value::String(to) if name == "$ref" => see(to),
                            other => each(other, see),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| each(item, see)),
                _ => {}
            }
        }
        let spec = openapi();
        let mut seen = 0;
        each(&spec, &mut |to| {
            seen += 1;
            assert!(spec.pointer(to.trim_start_matches('#')).is_some(), "{to}");
        });
        assert!(seen > 20);
    }

    #[test]
    fn links_for_the_code_become_words() {
        assert_eq!(
            without_links("One of [`CODES`](crate::CODES): a[0], [`x`]."),
            "One of `CODES`: a[0], `x`."
        );
    }
}
