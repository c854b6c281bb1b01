//! Pods of Alibaba's GPU cluster trace of 2023 (`openb_pod_list_*.csv`) as jobs. A share of a GPU becomes the same share
//! of its memory.

use crate::workload::reading::bad;
use crate::workload::{
    Location, OpenbError, OpenbPod, ParsedTrace, RowProblem, TraceError, TraceJob, TraceTask, openb_pods,
};

/// Whether a text looks like it.
pub fn looks_like(text: &str) -> bool {
    text.starts_with("name,cpu_milli,memory_mib,num_gpu")
}

/// Classes of service, the most urgent first.
const CLASSES: [&str; 4] = ["LS", "Guaranteed", "Burstable", "BE"];

/// Reads pods; `gpu_memory` is what a whole GPU has, in bytes.
pub fn read(text: &str, gpu_memory: u64) -> Result<ParsedTrace, TraceError> {
    let mut reading = ParsedTrace::default();
    for (line, pod) in (2..).zip(openb_pods(text.as_bytes())) {
        let pod = match pod {
            Ok(pod) => pod,
            Err(wrong) => {
                let (line, why) = problem(wrong)?;
                reading.enter(Location::Line(line), Err(why));
                continue;
            }
        };
        match job(pod, gpu_memory) {
            Ok(Some(job)) => reading.enter(Location::Line(line), Ok(job)),
            Ok(None) => reading.leave_out("a pod that never got a machine"),
            Err(why) => reading.enter(Location::Line(line), Err(why)),
        }
    }
    let gib = gpu_memory as f64 / f64::from(1 << 30);
    reading.notes.push(format!(
        "a share of a GPU is the same share of {gib} GiB of memory; LS, Guaranteed, Burstable and BE have priorities 3 to 0"
    ));
    reading.count_from_the_first();
    Ok(reading)
}

fn job(pod: OpenbPod, gpu_memory: u64) -> Result<Option<TraceJob>, RowProblem> {
    let Some(scheduled) = pod.scheduled else { return Ok(None) };
    let runs = pod.deleted.checked_sub(scheduled);
    let runs = runs.ok_or_else(|| bad("deletion_time", &pod.deleted.to_string(), "after scheduled_time"))?;
    let shared = pod.gpus > 0 && pod.gpu_milli < 1000;
    let task = TraceTask {
        runs: runs as f64,
        gpus: pod.gpus,
        gpu_memory: shared.then(|| gpu_memory / 1000 * u64::from(pod.gpu_milli)),
        gpu_types: pod.gpu_types,
        cpus: pod.cpu_milli,
        memory: pod.memory_mib << 20,
        exit: i32::from(pod.phase == "Failed"),
        ..TraceTask::default()
    };
    let class = CLASSES.iter().position(|class| *class == pod.qos);
    let priority = class.map_or(0, |place| (CLASSES.len() - 1 - place) as i64);
    Ok(Some(TraceJob { id: pod.name, ..TraceJob::single(pod.created as f64, priority, "", task) }))
}

fn problem(wrong: OpenbError) -> Result<(usize, RowProblem), TraceError> {
    Ok(match wrong {
        OpenbError::Unreadable { line, source } => (line, RowProblem::Unreadable(source.into())),
        OpenbError::Header { .. } => return Err(TraceError::NoColumn("name,cpu_milli,memory_mib,num_gpu,…")),
        OpenbError::Columns { line, found, wanted } => (line, RowProblem::Columns { found, wanted }),
        OpenbError::Value { line, column, text } => (line, bad(column, &text, "a number in its range")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_gpu_is_a_share_of_its_memory() {
        let text = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
            a,1000,1024,1,1000,,LS,Running,100,400,150\n\
            b,1000,1024,1,250,V100M16|V100M32,BE,Running,90,200,100\n\
            c,1000,1024,1,x,,BE,Running,90,200,100\n\
            d,1000,1024,1,100,,BE,Pending,90,200,\n";
        let reading = read(text, 16_000).unwrap();
        let jobs: Vec<_> = reading.jobs.iter().map(|(_, job)| job).collect();
        assert_eq!((jobs[0].id.as_str(), jobs[0].priority, jobs[1].priority), ("b", 0, 3));
        assert_eq!((jobs[0].tasks[0].gpu_memory, jobs[1].tasks[0].gpu_memory), (Some(4000), None));
        assert_eq!((jobs[1].submitted, jobs[1].tasks[0].runs), (10.0, 250.0));
        assert_eq!(reading.left_out["a pod that never got a machine"], 1);
        assert_eq!(reading.bad[0].to_string(), "line 4: gpu_milli: 'x' is not a number in its range");
    }
}
