//! Every format that can be written reads back as it was.

use proptest::prelude::*;
use warpyard_core::spec::{AfterNode, DependencyCondition, Preempt};
use warpyard_sim::workload::format::{csv, json};
use warpyard_sim::workload::{ParsedTrace, TraceJob, TraceTask};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-z][a-z0-9 ,\"é-]{0,6}[a-z0-9]"]
}

fn seconds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..1e9f64, (0u32..100).prop_map(f64::from)]
}

fn task() -> impl Strategy<Value = TraceTask> {
    let preempt =
        prop_oneof![Just(Preempt::None), Just(Preempt::Freeze), Just(Preempt::Requeue), Just(Preempt::Yield)];
    let numbers = (any::<u16>(), any::<Option<u64>>(), any::<u32>(), any::<u64>(), any::<i32>());
    let times = (seconds(), prop::option::of(seconds()), prop::option::of(seconds()));
    (times, numbers, prop::collection::vec("[A-Z][A-Z0-9-]{1,5}", 0..3), preempt).prop_map(
        |((runs, timeout, expected), (gpus, gpu_memory, cpus, memory, exit), gpu_types, preempt)| TraceTask {
            runs,
            timeout,
            expected,
            gpus,
            gpu_memory,
            gpu_types,
            cpus,
            memory,
            preempt,
            exit,
            batch_time: timeout,
            item_time: expected,
            resume_time: timeout,
            ..TraceTask::default()
        },
    )
}

fn job() -> impl Strategy<Value = TraceJob> {
    let edges = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    let on = prop_oneof![
        Just(DependencyCondition::Ok),
        Just(DependencyCondition::Fail),
        Just(DependencyCondition::Any)
    ];
    let tasks = prop::collection::vec((task(), edges, on), 1..6);
    (name(), seconds(), any::<i64>(), name(), tasks).prop_map(|(id, submitted, priority, user, tasks)| {
        let several = tasks.len() > 1;
        let mut job = TraceJob { id, submitted, priority, user, tasks: Vec::new(), ..TraceJob::default() };
        for (at, (mut task, edges, on)) in tasks.into_iter().enumerate() {
            if several {
                task.name = format!("t{at}");
            }
            if at > 0 {
                let mut nodes: Vec<u32> = edges.iter().map(|edge| edge.index(at) as u32).collect();
                nodes.sort_unstable();
                nodes.dedup();
                task.after = nodes.into_iter().map(|node| AfterNode { node, on }).collect();
            }
            job.tasks.push(task);
        }
        job
    })
}

/// Jobs as a file has them: those of several tasks, or with a name, have one of their own.
fn jobs() -> impl Strategy<Value = Vec<TraceJob>> {
    prop::collection::vec(job(), 0..12).prop_map(|mut jobs| {
        for (at, job) in jobs.iter_mut().enumerate() {
            if job.tasks.len() > 1 || !job.id.is_empty() {
                job.id = format!("{}{at}", job.id);
            }
        }
        jobs
    })
}

fn only(reading: ParsedTrace) -> Vec<TraceJob> {
    assert!(reading.bad.is_empty(), "{:?}", reading.bad);
    reading.jobs.into_iter().map(|(_, job)| job).collect()
}

proptest! {
    #[test]
    fn csv_reads_back_as_it_was(jobs in jobs()) {
        let mut text = Vec::new();
        csv::write(&mut text, &csv::Columns::of(jobs.iter()), jobs.iter().cloned()).unwrap();
        prop_assert_eq!(only(csv::read(std::str::from_utf8(&text).unwrap()).unwrap()), jobs);
    }

    #[test]
    fn json_reads_back_as_it_was(jobs in jobs()) {
        let (mut lines, mut list) = (Vec::new(), Vec::new());
        json::write_lines(&mut lines, jobs.iter().cloned()).unwrap();
        json::write_list(&mut list, jobs.iter().cloned()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        prop_assert_eq!(only(json::read_lines(&text(&lines))), jobs.clone());
        prop_assert_eq!(only(json::read_list(&text(&list)).unwrap()), jobs);
    }

    #[test]
    fn no_text_makes_a_reader_fail_in_any_other_way_than_by_saying_so(text in "[a-z0-9|;:,.\n -]{0,200}") {
        use warpyard_sim::workload::format::{philly, sacct, swf};
        let _said = csv::read(&text).map(|reading| reading.jobs.len());
        let _said = csv::read(&format!("job,task,after,submitted,runs\n{text}"));
        let _said = sacct::read(&format!("JobID|Submit|Elapsed\n{text}"));
        let _said = (swf::read(&text, 1), philly::read(&text, 0.0, 1), json::read_lines(&text));
    }
}
