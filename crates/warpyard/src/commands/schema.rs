//! `schema`: the form of every file this program reads, as JSON Schema, and an example of each that it accepts.

use crate::context::Context;
use crate::exit::Exit;
use crate::simulation::cluster_schema;
use crate::usage_error::UsageError;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// Arguments of `schema`.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    #[command(subcommand)]
    document: Document,
    /// Print an example file instead
    #[arg(long, global = true)]
    example: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
enum Document {
    /// A job file: `submit FILE` and `run FILE` (TOML or JSON)
    Job,
    /// The server's configuration: `up --config FILE` (TOML)
    Config,
    /// GPUs and jobs: `allocate --instance FILE` (JSON)
    Instance,
    /// A workflow: `plan FILE` (JSON)
    Workflow,
    /// Machines to plan for: `plan --machines FILE` (TOML)
    Machines,
    /// A cluster to simulate: `sim --cluster FILE` (TOML)
    Cluster,
    /// A workload to simulate: `sim --trace FILE` (CSV or JSON)
    Trace,
    /// The HTTP interface, as OpenAPI 3.1
    Openapi,
}

/// An instance for `allocate`.
pub(crate) const INSTANCE: &str = include_str!("../../schemas/instance.example.json");

impl Schema {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        if self.example {
            context.print(self.document.example()?)?;
            return Ok(Exit::Fine);
        }
        let text = serde_json::to_string_pretty(&self.document.schema())?;
        context.print(&(text + "\n"))?;
        Ok(Exit::Fine)
    }
}

impl Document {
    /// A file of this form.
    fn example(self) -> Result<&'static str, UsageError> {
        match self {
            Self::Job => Ok(include_str!("../../schemas/job.example.toml")),
            Self::Config => Ok(include_str!("../../schemas/config.example.toml")),
            Self::Instance => Ok(INSTANCE),
            Self::Workflow => Ok(include_str!("../../schemas/workflow.example.json")),
            Self::Machines => Ok(include_str!("../../schemas/machines.example.toml")),
            Self::Cluster => Ok(include_str!("../../schemas/cluster.example.toml")),
            Self::Trace => Ok(include_str!("../../schemas/trace.example.csv")),
            Self::Openapi => Err(UsageError::NoExample),
        }
    }

    /// The form, with the example in it.
    fn schema(self) -> Value {
        let written = |text: &str| serde_json::from_str::<Value>(text).expect("a schema is JSON");
        let mut schema = match self {
            Self::Job => warpyard_api::job::job_schema(),
            Self::Config => warpyard_server::config::config_schema(),
            Self::Cluster => cluster_schema(),
            Self::Instance => written(include_str!("../../schemas/instance.json")),
            Self::Workflow => written(include_str!("../../schemas/workflow.json")),
            Self::Machines => written(include_str!("../../schemas/machines.json")),
            Self::Trace => written(include_str!("../../schemas/trace.json")),
            Self::Openapi => return warpyard_server::openapi(),
        };
        schema["examples"] = json!([self.example_value()]);
        schema
    }

    /// The example as the schema describes it.
    fn example_value(self) -> Value {
        let text = self.example().unwrap_or_default();
        match self {
            Self::Instance | Self::Workflow => serde_json::from_str(text).expect("an example is JSON"),
            Self::Trace => {
                let reading = warpyard_sim::workload::format::csv::read(text).expect("an example is a trace");
                let jobs: Vec<_> = reading.jobs.into_iter().map(|(_, job)| job).collect();
                serde_json::to_value(jobs).expect("a job is JSON")
            }
            _ => toml::from_str(text).expect("an example is TOML"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use warpyard_dag::read::{Format, ReadError, parse_as};

    /// The fields a reader knows, from what it says of one it does not.
    fn known(error: String) -> BTreeSet<String> {
        let (_, listed) = error.split_once(", expected ").unwrap_or_else(|| panic!("{error}"));
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[track_caller]
    fn same(schema: &Value, error: String, aliases: &[&str]) {
        let described = schema["properties"].as_object().expect("fields").keys().cloned();
        let known: BTreeSet<_> =
            known(error).into_iter().filter(|name| !aliases.contains(&name.as_str())).collect();
        assert_eq!(described.collect::<BTreeSet<_>>(), known);
    }

    #[test]
    fn schemas_have_the_fields_that_readers_know() {
        let instance = Document::Instance.schema();
        let read =
            |text: &str| serde_json::from_str::<warpyard_allocate::Instance>(text).unwrap_err().to_string();
        same(&instance, read(r#"{"x": 1}"#), &[]);
        same(&instance["$defs"]["Job"], read(r#"{"jobs": [{"x": 1}]}"#), &[]);
        same(&instance["$defs"]["Entities"], read(r#"{"entities": {"x": 1}}"#), &[]);

        let workflow = Document::Workflow.schema();
        let cause = |error: ReadError| {
            std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
        };
        let read = |text: &str| cause(parse_as(text, Format::Native).unwrap_err());
        same(&workflow, read(r#"{"x": 1}"#), &[]);
        same(&workflow["$defs"]["Task"], read(r#"{"tasks": [{"x": 1}]}"#), &[]);
        same(&workflow["$defs"]["Machine"], read(r#"{"machines": [{"x": 1}]}"#), &[]);
        same(&workflow["$defs"]["Edge"]["anyOf"][1], read(r#"{"edges": [{"x": 1}]}"#), &["cost"]);

        let machines = Document::Machines.schema();
        let read = |text: &str| cause(warpyard_dag::read::Machines::from_toml(text).unwrap_err());
        same(&machines, read("x = 1"), &["machine"]);
        same(&machines["$defs"]["Machine"], read("[[machines]]\nx = 1"), &[]);

        let trace = Document::Trace.schema();
        let read = |text: &str| {
            serde_json::from_str::<warpyard_sim::workload::TraceJob>(text).unwrap_err().to_string()
        };
        same(&trace["$defs"]["Job"], read(r#"{"x": 1}"#), &[]);
        same(&trace["$defs"]["Task"], read(r#"{"tasks": [{"x": 1}]}"#), &[]);
    }

    #[test]
    fn every_schema_says_what_it_is_of_and_describes_every_field() {
        use Document::*;
        for document in [Job, Config, Instance, Workflow, Machines, Cluster, Trace] {
            let schema = document.schema();
            assert!(schema["title"].is_string() && schema["description"].is_string(), "{document:?}");
            for part in schema["$defs"].as_object().into_iter().flat_map(|all| all.values()).chain([&schema])
            {
                for (name, field) in part["properties"].as_object().into_iter().flatten() {
                    let said = field["description"].is_string() || field["$ref"].is_string();
                    assert!(said, "{document:?}: {name}: {field}");
                }
            }
        }
    }
}
