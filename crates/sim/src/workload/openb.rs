//! The two files of Alibaba's GPU cluster trace of 2023: nodes (`openb_node_list_*.csv`) and pods (`openb_pod_list_*.csv`),
//! row by row as they are written. What becomes of them, a cluster or jobs, is for whoever reads them to say.

use std::io::{self, BufRead};
use warpyard_core::event::WorkerInfo;
use warpyard_core::pool::{DeviceInfo, DeviceState};

/// A machine of the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenbNode {
    /// Its name, such as `openb-node-0000`.
    pub name: String,
    /// Thousandths of a processor.
    pub cpu_milli: u32,
    /// Main memory.
    pub memory_mib: u64,
    /// How many GPUs it has.
    pub gpus: u16,
    /// Their type, such as `V100M16`.
    pub model: String,
}

impl OpenbNode {
    /// Whether a text looks like a list of them.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with("sn,cpu_milli,memory_mib,gpu")
    }

    /// A server like it, each of its GPUs with so much memory: what a share of a GPU is a share of.
    pub fn server(&self, gpu_memory: u64) -> WorkerInfo {
        let device = |i: u16| DeviceInfo {
            uuid: format!("{}-{i}", self.name),
            kind: self.model.clone(),
            memory: gpu_memory,
            budget: gpu_memory,
            limit: None,
            overcommit: false,
            state: DeviceState::Usable,
        };
        WorkerInfo {
            name: self.name.clone(),
            devices: (0..self.gpus).map(device).collect(),
            cpus: self.cpu_milli,
            memory: self.memory_mib << 20,
            ..WorkerInfo::default()
        }
    }
}

/// A pod of the trace: a job of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenbPod {
    /// Its name, such as `openb-pod-0000`.
    pub name: String,
    /// Thousandths of a processor.
    pub cpu_milli: u32,
    /// Main memory.
    pub memory_mib: u64,
    /// How many GPUs it wants; none for one that runs on processors alone.
    pub gpus: u16,
    /// Thousandths of each GPU: 1000 for whole ones.
    pub gpu_milli: u16,
    /// The types it may run on; none named means any.
    pub gpu_types: Vec<String>,
    /// Its class of service: `LS`, `BE`, `Burstable`, `Guaranteed`.
    pub qos: String,
    /// What had become of it: `Running`, `Succeeded`, `Failed`, `Pending`.
    pub phase: String,
    /// When it was made, in seconds from the beginning of the trace.
    pub created: u64,
    /// When it was gone.
    pub deleted: u64,
    /// When it got a machine, if it ever did.
    pub scheduled: Option<u64>,
}

/// A row that is none.
#[derive(Debug, thiserror::Error)]
pub enum OpenbError {
    /// The file cannot be read.
    #[error("line {line}: cannot be read")]
    Unreadable {
        /// Where.
        line: usize,
        /// Why.
        source: io::Error,
    },
    /// The first line does not name the columns.
    #[error("line 1: the columns must be {wanted}")]
    Header {
        /// What they are.
        wanted: &'static str,
    },
    /// A row has too few or too many columns.
    #[error("line {line}: {found} columns instead of {wanted}")]
    Columns {
        /// Where.
        line: usize,
        /// How many it has.
        found: usize,
        /// How many it should have.
        wanted: usize,
    },
    /// A column holds something else than a number in its range.
    #[error("line {line}: {column}: '{text}' is not a number in its range")]
    Value {
        /// Where.
        line: usize,
        /// In which column.
        column: &'static str,
        /// What stands there.
        text: String,
    },
}

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model";
const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time";

/// Reads the nodes: each row, or what is wrong with it.
pub fn openb_nodes(from: impl BufRead) -> impl Iterator<Item = Result<OpenbNode, OpenbError>> {
    rows(from, NODES, |row: Row<'_>| {
        Ok(OpenbNode {
            name: row.text(0).to_owned(),
            cpu_milli: row.number(1)?,
            memory_mib: row.number(2)?,
            gpus: row.number(3)?,
            model: row.text(4).to_owned(),
        })
    })
}

/// Reads the pods: each row, or what is wrong with it.
pub fn openb_pods(from: impl BufRead) -> impl Iterator<Item = Result<OpenbPod, OpenbError>> {
    rows(from, PODS, |row: Row<'_>| {
        let scheduled = !row.text(10).is_empty();
        let types = row.text(5).split('|').filter(|t| !t.is_empty());
        Ok(OpenbPod {
            name: row.text(0).to_owned(),
            cpu_milli: row.number(1)?,
            memory_mib: row.number(2)?,
            gpus: row.number(3)?,
            gpu_milli: row.at_most(4, 1000)?,
            gpu_types: types.map(str::to_owned).collect(),
            qos: row.text(6).to_owned(),
            phase: row.text(7).to_owned(),
            created: row.number(8)?,
            deleted: row.number(9)?,
            scheduled: scheduled.then(|| row.number(10)).transpose()?,
        })
    })
}

struct Row<'a> {
    line: usize,
    header: &'static str,
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn text(&self, at: usize) -> &str {
        self.fields[at]
    }

    fn number<T: std::str::FromStr>(&self, at: usize) -> Result<T, OpenbError> {
        self.fields[at].parse().map_err(|_| self.bad(at))
    }

    fn at_most(&self, at: usize, most: u16) -> Result<u16, OpenbError> {
        self.number(at).and_then(|n| if n <= most { Ok(n) } else { Err(self.bad(at)) })
    }

    fn bad(&self, at: usize) -> OpenbError {
        let column = self.header.split(',').nth(at).expect("a field that is asked for has a heading");
        OpenbError::Value { line: self.line, column, text: self.fields[at].to_owned() }
    }
}

fn rows<T>(
    from: impl BufRead,
    header: &'static str,
    read: impl Fn(Row<'_>) -> Result<T, OpenbError>,
) -> impl Iterator<Item = Result<T, OpenbError>> {
    let wanted = header.split(',').count();
    from.lines().zip(1..).filter_map(move |(text, line)| match text {
        Err(source) => Some(Err(OpenbError::Unreadable { line, source })),
        Ok(text) if line == 1 => {
            (text.trim() != header).then_some(Err(OpenbError::Header { wanted: header }))
        }
        Ok(text) if text.trim().is_empty() => None,
        Ok(text) => {
            let fields: Vec<_> = text.split(',').map(str::trim).collect();
            let found = fields.len();
            Some(if found == wanted {
                read(Row { line, header, fields })
            } else {
                Err(OpenbError::Columns { line, found, wanted })
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_pods_are_read_as_they_are_written() {
        let nodes = format!("{NODES}\nopenb-node-0000,64000,262144,2,P100\n");
        let nodes: Vec<_> = openb_nodes(nodes.as_bytes()).map(Result::unwrap).collect();
        assert_eq!((nodes[0].gpus, nodes[0].model.as_str(), nodes[0].cpu_milli), (2, "P100", 64_000));
        let pods = format!(
            "{PODS}\nopenb-pod-0001,6000,12288,1,460,V100M16|V100M32,LS,Running,427061,12902960,427061\n\
             openb-pod-0002,6000,12288,1,1000,,BE,Pending,5,6,\n"
        );
        let pods: Vec<_> = openb_pods(pods.as_bytes()).map(Result::unwrap).collect();
        assert_eq!((pods[0].gpu_milli, pods[0].gpu_types.len()), (460, 2));
        assert_eq!((pods[0].created, pods[0].scheduled), (427_061, Some(427_061)));
        assert_eq!((pods[1].scheduled, pods[1].gpu_types.len()), (None, 0));
    }

    #[test]
    fn bad_rows_are_told_with_their_line() {
        let told = |row: &str| {
            let text = format!("{NODES}\n{row}\n");
            openb_nodes(text.as_bytes()).next().unwrap().unwrap_err().to_string()
        };
        assert_eq!(told("a,many,2,3,T4"), "line 2: cpu_milli: 'many' is not a number in its range");
        assert_eq!(told("a,1,2"), "line 2: 3 columns instead of 5");
        let pods = format!("{PODS}\na,1,1,1,2000,,LS,Running,0,1,0\n");
        let told = openb_pods(pods.as_bytes()).next().unwrap().unwrap_err().to_string();
        assert_eq!(told, "line 2: gpu_milli: '2000' is not a number in its range");
        let told = openb_nodes(&b"sn,cpu\n"[..]).next().unwrap().unwrap_err().to_string();
        assert_eq!(told, format!("line 1: the columns must be {NODES}"));
    }
}
