//! Training set: layered graphs with unrelated machine costs, the same on related machines (which differ by speed
//! alone), and shapes of real workflows. Small graphs, because they teach as much per task as large ones and more of
//! them fit into the time.

use crate::generate::Layered;
use crate::instance::{Edge, Instance, Links};
use crate::random::SplitMix64;

/// Instances that a seed determines.
pub(super) fn instances(seed: u64, count: usize) -> Vec<Instance> {
    (0..count)
        .map(|at| {
            let mut draw =
                SplitMix64::new(seed.wrapping_mul(1_000_003).wrapping_add(at as u64) ^ 0x005E_ED00);
            match draw.below(10) {
                0..=4 => layered(&mut draw),
                5 | 6 => on_speeds(&layered(&mut draw), &mut draw),
                7 => workflow(&mut draw).with_own_costs(&mut draw),
                _ => workflow(&mut draw).with_speeds(&mut draw),
            }
        })
        .collect()
}

fn pick(from: &[u64], draw: &mut SplitMix64) -> u64 {
    from[draw.index(from.len())]
}

fn layered(draw: &mut SplitMix64) -> Instance {
    let layered = Layered {
        seed: draw.next_u64(),
        tasks: pick(&[40, 80, 160, 320], draw) as usize,
        machines: pick(&[4, 8, 8, 16, 32, 64, 188, 188], draw) as usize,
        alpha: pick(&[50, 100, 100, 200], draw),
        out_degree: pick(&[2, 3, 3, 5], draw),
        ccr: pick(&[20, 100, 100, 100, 300], draw),
        beta: pick(&[50, 100, 100, 150], draw),
        mean_cost: 1000,
    };
    layered.generate().unwrap_or_else(|e| unreachable!("the generator makes instances: {e}"))
}

/// Speeds of a few machines.
fn speeds(draw: &mut SplitMix64) -> Vec<f64> {
    let kinds = pick(&[1, 2, 3, 4, 6], draw);
    let machines = pick(&[3, 4, 8, 8, 16, 32], draw);
    (0..machines).map(|at| 1.0 + (at % kinds) as f64 * [0.5, 1.0][(kinds % 2) as usize]).collect()
}

/// Same graph on machines that differ by speed alone.
fn on_speeds(instance: &Instance, draw: &mut SplitMix64) -> Instance {
    let work = (0..instance.tasks()).map(|task| instance.costs(task)[0] + 1.0).collect();
    let edges = instance.edges().collect();
    Workflow { work, edges }.with_speeds(draw)
}

/// Graph without machines.
struct Workflow {
    work: Vec<f64>,
    edges: Vec<Edge>,
}

/// Log-uniform draw from `least` to `factor` times that.
fn sized(least: f64, factor: f64, draw: &mut SplitMix64) -> f64 {
    least * factor.powf(draw.unit())
}

/// Graph in stages of similar tasks, as people write workflows.
fn workflow(draw: &mut SplitMix64) -> Workflow {
    let mut made = Workflow { work: Vec::new(), edges: Vec::new() };
    let width = pick(&[5, 10, 20, 40, 80], draw) as usize;
    match draw.below(4) {
        0 => made.fork_joins(width, draw),
        1 => made.pipelines(width, draw),
        2 => made.mosaic(width.min(40), draw),
        _ => made.groups(width, draw),
    }
    made
}

impl Workflow {
    /// Adds `count` tasks of one kind; returns the first.
    fn stage(&mut self, count: usize, draw: &mut SplitMix64) -> u32 {
        let first = self.work.len() as u32;
        let mean = sized(1.0, 300.0, draw);
        self.work.extend((0..count).map(|_| mean * (0.5 + draw.unit())));
        first
    }

    fn join(&mut self, from: u32, to: u32, data: f64) {
        self.edges.push(Edge { from, to, data });
    }

    fn data(draw: &mut SplitMix64) -> f64 {
        sized(0.05, 2000.0, draw)
    }

    /// Repeated fork-join.
    fn fork_joins(&mut self, width: usize, draw: &mut SplitMix64) {
        let mut entry = self.stage(1, draw);
        for _ in 0..1 + draw.below(3) {
            let many = self.stage(width, draw);
            let exit = self.stage(1, draw);
            let (out, back) = (Self::data(draw), Self::data(draw));
            for task in many..many + width as u32 {
                self.join(entry, task, out);
                self.join(task, exit, back);
            }
            entry = exit;
        }
    }

    /// Parallel chains between a split and a merge.
    fn pipelines(&mut self, width: usize, draw: &mut SplitMix64) {
        let split = self.stage(1, draw);
        let merge = self.stage(1, draw);
        let mut before: Vec<u32> = vec![split; width];
        for _ in 0..2 + draw.below(4) {
            let first = self.stage(width, draw);
            let data = Self::data(draw);
            for (lane, before) in before.iter_mut().enumerate() {
                let task = first + lane as u32;
                self.join(*before, task, data);
                *before = task;
            }
        }
        let data = Self::data(draw);
        before.into_iter().for_each(|last| self.join(last, merge, data));
    }

    /// Mosaic (as in Montage): pieces, overlaps, one model of all, corrected pieces, merge.
    fn mosaic(&mut self, width: usize, draw: &mut SplitMix64) {
        let pieces = self.stage(width, draw);
        let overlaps = self.stage(2 * width, draw);
        let model = self.stage(1, draw);
        let corrected = self.stage(width, draw);
        let whole = self.stage(1, draw);
        let data = [0; 4].map(|_| Self::data(draw));
        for at in 0..2 * width as u32 {
            for _ in 0..2 {
                let piece = pieces + draw.below(width as u64) as u32;
                self.join(piece, overlaps + at, data[0]);
            }
            self.join(overlaps + at, model, data[1]);
        }
        for at in 0..width as u32 {
            self.join(model, corrected + at, data[2]);
            self.join(pieces + at, corrected + at, data[0]);
            self.join(corrected + at, whole, data[3]);
        }
    }

    /// Groups, each merged, then tasks that each need two of the merges.
    fn groups(&mut self, width: usize, draw: &mut SplitMix64) {
        let merges: Vec<u32> = (0..2 + draw.below(4))
            .map(|_| {
                let many = self.stage(width, draw);
                let merge = self.stage(1, draw);
                let data = Self::data(draw);
                (many..many + width as u32).for_each(|task| self.join(task, merge, data));
                merge
            })
            .collect();
        let last = self.stage(width, draw);
        let data = Self::data(draw);
        for task in last..last + width as u32 {
            for _ in 0..2 {
                let merge = merges[draw.index(merges.len())];
                self.join(merge, task, data);
            }
        }
    }

    fn with_speeds(self, draw: &mut SplitMix64) -> Instance {
        let speeds = speeds(draw);
        self.on(speeds.len(), |work, machine| work / speeds[machine])
    }

    /// Instance with unrelated costs per machine.
    fn with_own_costs(self, draw: &mut SplitMix64) -> Instance {
        let machines = pick(&[4, 8, 16, 32], draw) as usize;
        self.on(machines, |work, _| work * (0.1 + 1.8 * draw.unit()))
    }

    fn on(self, machines: usize, mut cost: impl FnMut(f64, usize) -> f64) -> Instance {
        let mut costs = Vec::with_capacity(self.work.len() * machines);
        for work in &self.work {
            costs.extend((0..machines).map(|machine| cost(*work, machine)));
        }
        Instance::new(machines, costs, &self.edges, Links::Uniform)
            .unwrap_or_else(|e| unreachable!("a workflow made here is whole: {e}"))
    }
}
