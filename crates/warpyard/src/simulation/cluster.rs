//! The cluster to simulate: a line such as `12xV100:16GiB,2xK80/8`, a TOML file with that line or its servers, or the list
//! of nodes of Alibaba's GPU trace of 2023.

use crate::input::{bad_file, read_file};
use crate::usage_error::UsageError;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;
use toml::Spanned;
use warpyard_api::quantity::{ByteSize, MilliCpus};
use warpyard_core::event::WorkerInfo;
use warpyard_sim::workload::{self, ClusterSpecError, MAX_DEVICES, MAX_PER_SERVER, OpenbNode, openb_nodes};

/// The file's form. What holds for all GPUs is called as in the server's configuration.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(description = "A cluster to simulate, for `--cluster FILE`. TOML.")]
struct File {
    /// A cluster on one line, such as 12xV100:16GiB,2xK80/8: servers of 4 unless /8.
    #[schemars(with = "Option<String>")]
    gpus: Option<Spanned<String>>,
    /// Or server by server.
    #[serde(default, rename = "server")]
    #[schemars(with = "Vec<Server>")]
    servers: Vec<Spanned<Server>>,
    /// How much of each GPU's memory may be shared out.
    gpu_budget: Option<ByteSize>,
    /// How many tasks may share a GPU.
    tasks_per_gpu: Option<u16>,
    /// Whether GPUs may be given more than fits.
    #[serde(default)]
    overcommit: bool,
}

/// One server, or several alike.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Server {
    /// Its name; several alike are numbered.
    name: Option<String>,
    /// Its GPUs on one line, such as 6xV100:16GiB,2xK80; all of them are in it.
    #[schemars(with = "String")]
    gpus: Spanned<String>,
    /// How many there are; 1 unless given.
    #[serde(default = "one")]
    count: usize,
    /// How many CPUs it has; more than anything asks for unless given.
    cpus: Option<MilliCpus>,
    /// How much main memory it has; more than anything asks for unless given.
    memory: Option<ByteSize>,
}

/// The form of the file as JSON Schema.
pub(crate) fn cluster_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<File>();
    schema.insert("title".to_owned(), "warpyard cluster".into());
    schema.into()
}

fn one() -> usize {
    1
}

/// An error in a cluster file, with its line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {source}")]
struct BadLine {
    line: usize,
    source: ClusterSpecError,
}

/// Why a list of nodes cannot be used as a cluster.
#[derive(Debug, thiserror::Error)]
enum BadNodes {
    #[error(transparent)]
    Row(#[from] workload::OpenbError),
    #[error(transparent)]
    Cluster(#[from] ClusterSpecError),
}

/// The servers a line or a file describes.
pub(crate) fn cluster(given: &str) -> Result<Vec<WorkerInfo>, UsageError> {
    let path = Path::new(given);
    let named_as_file = path.extension().is_some_and(|extension| extension == "toml");
    if !(named_as_file || path.is_file()) {
        return workload::cluster(given).map_err(UsageError::BadCluster);
    }
    let text = read_file(given)?;
    if OpenbNode::looks_like(&text) {
        return nodes(&text).map_err(|e| bad_file(given, e));
    }
    let file: File = toml::from_str(&text).map_err(|e| bad_file(given, e))?;
    servers(file, &text).map_err(|e| bad_file(given, e))
}

/// Nodes of Alibaba's trace. A pod's share of a GPU is the same share of this much memory, whatever the GPU.
fn nodes(text: &str) -> Result<Vec<WorkerInfo>, BadNodes> {
    let whole_gpu = crate::workload::ImportOptions::default().whole_gpu();
    let mut devices = 0;
    let server = |node: Result<OpenbNode, workload::OpenbError>| {
        let node = node?;
        devices += u64::from(node.gpus);
        match devices > MAX_DEVICES {
            true => Err(ClusterSpecError::TooMany { asked: devices }.into()),
            false => Ok(node.server(whole_gpu)),
        }
    };
    openb_nodes(text.as_bytes()).map(server).collect()
}

/// The servers of a file's text, for tests of what is written about such files.
#[cfg(test)]
pub(crate) fn cluster_in(text: &str) -> Result<Vec<WorkerInfo>, String> {
    let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
    servers(file, text).map_err(|e| e.to_string())
}

fn servers(file: File, text: &str) -> Result<Vec<WorkerInfo>, BadLine> {
    let at = |from: usize| move |source| BadLine { line: 1 + text[..from].matches('\n').count(), source };
    let mut all = match &file.gpus {
        Some(line) => workload::cluster(line.get_ref()).map_err(at(line.span().start))?,
        None => Vec::new(),
    };
    let mut names: BTreeSet<String> = all.iter().map(|server| server.name.clone()).collect();
    let mut devices: u64 = all.iter().map(|server| server.devices.len() as u64).sum();
    for server in &file.servers {
        let Server { name, gpus, count, cpus, memory } = server.get_ref();
        let at_gpus = at(gpus.span().start);
        // Groups of a line fill servers of their own; here all of them are in one.
        let mut parts = workload::cluster(gpus.get_ref()).map_err(&at_gpus)?.into_iter();
        let mut one = parts.next().expect("a line that is one has a server");
        one.devices.extend(parts.flat_map(|part| part.devices));
        if one.devices.len() > MAX_PER_SERVER {
            return Err(at_gpus(ClusterSpecError::TooManyPerServer(one.devices.len())));
        }
        devices = devices.saturating_add((*count as u64).saturating_mul(one.devices.len() as u64));
        if devices > MAX_DEVICES {
            return Err(at_gpus(ClusterSpecError::TooMany { asked: devices }));
        }
        one.cpus = cpus.map_or(one.cpus, |cpus| cpus.0);
        one.memory = memory.map_or(one.memory, |memory| memory.0);
        for copy in 1..=*count {
            let mut server = one.clone();
            server.name = match name {
                Some(name) if *count == 1 => name.clone(),
                Some(name) => format!("{name}-{copy}"),
                None => format!("server{}", all.len() + 1),
            };
            if !names.insert(server.name.clone()) {
                return Err(at_gpus(ClusterSpecError::SameName(server.name)));
            }
            for (i, device) in server.devices.iter_mut().enumerate() {
                device.uuid = format!("GPU-{}-{i}", all.len());
            }
            all.push(server);
        }
    }
    if all.is_empty() {
        return Err(at(file.servers.first().map_or(0, |server| server.span().start))(
            ClusterSpecError::Empty,
        ));
    }
    for device in all.iter_mut().flat_map(|server| &mut server.devices) {
        device.budget = file.gpu_budget.map_or(device.memory, |budget| budget.0.min(device.memory));
        (device.limit, device.overcommit) = (file.tasks_per_gpu, file.overcommit);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<WorkerInfo>, BadLine> {
        servers(toml::from_str(text).unwrap(), text)
    }

    #[test]
    fn a_file_has_a_line_or_servers() {
        let line = read("gpus = '8xV100:16GiB'").unwrap();
        assert_eq!(line.iter().map(|s| s.devices.len()).collect::<Vec<_>>(), [4, 4]);
        let servers =
            read("[[server]]\nname = 'big'\ngpus = '6xV100,2xK80'\ncpus = 32\n[[server]]\ngpus = '1xT4'\ncount = 2")
                .unwrap();
        let names: Vec<_> = servers.iter().map(|s| (s.name.as_str(), s.devices.len())).collect();
        assert_eq!(names, [("big", 8), ("server2", 1), ("server3", 1)]);
        assert_eq!(servers[0].cpus, 32_000);
        let uuids: std::collections::BTreeSet<_> =
            servers.iter().flat_map(|s| s.devices.iter().map(|d| &d.uuid)).collect();
        assert_eq!(uuids.len(), 10, "no two devices have the same name");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(told(""), "line 1: a cluster with no devices");
        assert_eq!(told("\ngpus = ''"), "line 2: a cluster with no devices");
        assert_eq!(
            told("# two\n\n[[server]]\ngpus = '4xV100'\ncount = 0"),
            "line 3: a cluster with no devices"
        );
        assert_eq!(told("[[server]]\nname = 'a'\ngpus = '0xV100'"), "line 3: '0xV100' has no devices");
        assert_eq!(
            told("gpus = '4xV100'\n[[server]]\ngpus = '2xK80:x'"),
            "line 3: 'x' is not a size such as 16GiB"
        );
        assert_eq!(
            told("[[server]]\ngpus = '4xV100'\ncount = 1000000000000"),
            "line 2: 4000000000000 GPUs are more than can be simulated (1000000)"
        );
        let twice = "[[server]]\nname = 'a'\ngpus = '1xK80'\n[[server]]\nname = 'a'\ngpus = '1xT4'";
        assert!(told(twice).starts_with("line 6: there is a server 'a' already"), "{}", told(twice));
    }

    #[test]
    fn what_holds_for_all_gpus_is_said_once() {
        let said = "gpus = '2xV100:16GiB'\ngpu_budget = '20GiB'\ntasks_per_gpu = 3\novercommit = true";
        for device in &read(said).unwrap()[0].devices {
            assert_eq!((device.budget, device.limit, device.overcommit), (16 << 30, Some(3), true));
        }
        let said = "gpus = '1xV100:16GiB'\ngpu_budget = '5GiB'";
        assert_eq!(read(said).unwrap()[0].devices[0].budget, 5 << 30);
    }

    #[test]
    fn nodes_of_alibaba_are_servers() {
        let text = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,64000,262144,2,P100\nnode-1,96000,786432,0,\n";
        let servers = nodes(text).unwrap();
        let shapes: Vec<_> = servers.iter().map(|s| (s.name.as_str(), s.devices.len(), s.cpus)).collect();
        assert_eq!(shapes, [("node-0", 2, 64_000), ("node-1", 0, 96_000)]);
        assert_eq!((servers[0].devices[1].kind.as_str(), servers[0].devices[1].memory), ("P100", 16 << 30));
        let wrong =
            nodes("sn,cpu_milli,memory_mib,gpu,model\nnode-0,many,1,2,P100\n").unwrap_err().to_string();
        assert_eq!(wrong, "line 2: cpu_milli: 'many' is not a number in its range");
    }
}
