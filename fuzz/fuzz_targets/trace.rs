//! Workloads, in every format they are read in; the first byte says in which. Jobs that were read can be written as CSV, and
//! are read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpyard_sim::workload::format::{alibaba, csv, gavel, json, philly, sacct, swf};
use warpyard_sim::workload::{ParsedTrace, openb_nodes, openb_pods};

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    let Some(format) = text.chars().next() else { return };
    let text = &text[format.len_utf8()..];
    let looks: [fn(&str) -> bool; 6] = [
        csv::looks_like,
        sacct::looks_like,
        swf::looks_like,
        alibaba::looks_like,
        philly::looks_like,
        gavel::looks_like,
    ];
    let _may_look_like_several = looks.map(|looks_like| looks_like(text));
    let reading = match format {
        'c' => csv::read(text),
        'l' => Ok(json::read_lines(text)),
        'j' => json::read_list(text),
        's' => sacct::read(text),
        'w' => Ok(swf::read(text, 1)),
        'a' => alibaba::read(text, 16 << 30),
        'p' => philly::read(text, 10.0, 1),
        'g' => Ok(gavel::read(text, |_, gpus| Some(10.0 / f64::from(gpus.max(1))))),
        'n' => {
            openb_nodes(text.as_bytes()).filter_map(Result::ok).for_each(|node| drop(node.server(16 << 30)));
            return;
        }
        'o' => {
            openb_pods(text.as_bytes()).for_each(drop);
            return;
        }
        _ => return,
    };
    if let Ok(ParsedTrace { jobs, .. }) = reading {
        let jobs: Vec<_> = jobs.into_iter().map(|(_, job)| job).collect();
        for job in &jobs {
            let _steps = job.clone().at_speeds(|_, _| None);
        }
        let mut written = Vec::new();
        let columns = csv::Columns::of(jobs.iter());
        csv::write(&mut written, &columns, jobs.iter().cloned()).expect("memory");
        let written = String::from_utf8(written).expect("text");
        if !jobs.is_empty() {
            csv::read(&written).unwrap_or_else(|e| panic!("{e}: {written}"));
        }
    }
});
