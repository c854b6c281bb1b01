//! Instances of DAG scheduling: warpyard's own, WfCommons, STG and DOT; after a line of `--`, the machines in TOML. What is
//! accepted can be planned, and the plan is one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpyard_dag::read::{Format, Machines, parse, parse_as};
use warpyard_dag::{algorithm, check};

/// Planning is not what is fuzzed here: enough to see that an instance can be used.
const PLANNED: usize = 32;

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    let (tasks, machines) = text.split_once("\n--\n").unwrap_or((text, ""));
    let machines = Machines::from_toml(machines).ok();
    for format in [Format::Native, Format::WfFormat, Format::Stg, Format::Dot] {
        let _refused = parse_as(tasks, format);
    }
    let Ok(input) = parse(tasks) else { return };
    let _commands = input.commands();
    let three = Machines::identical(3);
    for machines in [None, machines.as_ref(), Some(&three)] {
        let Ok(instance) = input.clone().instantiate(machines) else { continue };
        if instance.tasks() <= PLANNED && instance.machines() <= PLANNED {
            check(&instance, &algorithm::heft(&instance)).expect("a plan");
        }
    }
});
