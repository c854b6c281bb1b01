//! The JSON Schema of the job document, with descriptions from the types' documentation.

use super::{DependencyCondition, DeviceRef, JobDependency, JobDoc, TaskDependency};
use crate::quantity::{ArraySpec, ByteSize, Micros, MilliCpus};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// One value, or a list of them.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "stands for the form in the schema only")]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// The JSON Schema of the job document, for TOML and JSON alike.
///
/// ```
/// let schema = warpyard_api::job::job_schema();
/// assert_eq!(schema["title"], "warpyard job");
/// ```
pub fn job_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = AnyJob::json_schema(&mut generator);
    let definitions: Map<String, Value> = generator.take_definitions(true);
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("warpyard job"));
    schema.insert("$defs".to_owned(), definitions.into());
    schema.into()
}

/// The job document in either form, for schemas that refer to it.
pub(crate) struct AnyJob;

impl JsonSchema for AnyJob {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Job")
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let job = generator.subschema_for::<JobDoc>();
        let shorthand = generator.subschema_for::<OneTaskJob>();
        json_schema!({
            "description": "A job of several tasks, or of one whose fields stand beside the job's own.",
            "oneOf": [job, shorthand]
        })
    }
}

/// A job of one task.
struct OneTaskJob;

impl JsonSchema for OneTaskJob {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("OneTaskJob")
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<JobDoc>();
        let of = |name: &str| generator.definitions().get(name).cloned().unwrap_or_default();
        let shorthand = one_task_job(&of("JobDoc"), &of("TaskDoc"));
        Schema::try_from(shorthand).expect("an object is a schema")
    }
}

/// The fields of a job and its one task in one table; `name` and `after` are the job's.
fn one_task_job(job: &Value, task: &Value) -> Value {
    let fields = |schema: &Value| schema["properties"].as_object().cloned().unwrap_or_default();
    let mut properties = fields(task);
    properties.extend(fields(job));
    properties.remove("tasks");
    json!({
        "description": "A job of one task.",
        "type": "object",
        "properties": properties,
        "required": ["command"],
        "additionalProperties": false,
    })
}

macro_rules! human_schema {
    ($($type:ident $name:literal $schema:tt)*) => {
        $(impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

human_schema! {
    ByteSize "Size" {
        "description": "Bytes: a number and a unit; in JSON also a whole number of bytes.",
        "examples": ["6GiB", "512 MiB", "16GB"],
        "anyOf": [
            {"type": "string", "pattern": r"^\s*(0|[0-9]+(\.[0-9]+)?\s*([KkMmGgTtPpEe][Ii]?)?[Bb])\s*$"},
            {"type": "integer", "minimum": 0}
        ]
    }
    Micros "Duration" {
        "description": "A length of time: numbers with the units d, h, m, s, ms and us, from large to small.",
        "examples": ["10m", "1h30m", "90s", "1.5h", "2d"],
        "type": "string",
        "pattern": r"^\s*(0|([0-9]+(\.[0-9]+)?\s*(d|h|m|s|ms|us|µs)\s*)+)$"
    }
    MilliCpus "Cpus" {
        "description": "A number of CPUs, to the thousandth.",
        "examples": [2, 0.5],
        "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^[0-9]+(\.[0-9]{1,3})?$"}]
    }
    ArraySpec "Array" {
        "description": "Indices: single ones and ranges, with a step after ':' and the most at once after '%'.",
        "examples": ["1-100%8", "0-9:2%4", "1,3,5-7"],
        "type": "string",
        "pattern": r"^[0-9,\-: ]+(%[0-9]+)?$"
    }
    DeviceRef "Device" {
        "description": "A device: its number, or its worker's name and its number there.",
        "examples": [0, "gpu1/0"],
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^(.+/)?[0-9]+$"}]
    }
}

impl JsonSchema for TaskDependency {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("TaskDependency")
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let on = generator.subschema_for::<DependencyCondition>();
        json_schema!({
            "description": "A task of this job that must end first: its name, or its name and how it must have ended.",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"task": {"type": "string"}, "on": on}, "required": ["task"],
                 "additionalProperties": false}
            ]
        })
    }
}

impl JsonSchema for JobDependency {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("JobDependency")
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let on = generator.subschema_for::<DependencyCondition>();
        let id =
            json!({"anyOf": [{"type": "string", "pattern": "^[0-9]+$"}, {"type": "integer", "minimum": 0}]});
        json_schema!({
            "description": "A job that must end first: its id, or its id and how it must have ended.",
            "anyOf": [
                id,
                {"type": "object", "properties": {"job": id, "on": on}, "required": ["job"],
                 "additionalProperties": false}
            ]
        })
    }
}
