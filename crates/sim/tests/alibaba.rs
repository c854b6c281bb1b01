//! Part of the Alibaba trace, where the shared data is present: the rule that minds fragmentation gives away the most.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use warpyard_sim::reproduce::alibaba::{fill, mean};
use warpyard_sim::workload::{openb_nodes, openb_pods};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/traces");

#[test]
fn on_a_part_of_the_nodes_the_gradient_allocates_the_most() {
    let open = |name: &str| File::open(Path::new(DATA).join(name)).map(BufReader::new).ok();
    let (Some(nodes), Some(pods)) =
        (open("openb_node_list_gpu_node.csv"), open("openb_pod_list_default.csv"))
    else {
        eprintln!("SKIPPED: the Alibaba trace is not in {DATA}");
        return;
    };
    let nodes: Vec<_> = openb_nodes(nodes).map(Result::unwrap).collect();
    let pods: Vec<_> = openb_pods(pods).map(Result::unwrap).collect();
    assert_eq!((nodes.len(), pods.len()), (1213, 8152));
    let part: Vec<_> = nodes.into_iter().step_by(24).collect();
    let curves = fill(&part, &pods, 2, |_, _| {});
    let end = |rule: &str| {
        let curve = curves.iter().find(|curve| curve.rule == rule).expect("the rule was tried");
        mean(curve.allocated.last().expect("it was looked at"))
    };
    let gradient = end("gradient");
    for other in ["first", "best", "spread"] {
        assert!(gradient > end(other), "gradient {gradient}, {other} {}", end(other));
    }
}
