//! Random layered DAGs after Topcuoglu, Hariri and Wu (2002), section 5, with integral costs: the same parameters give
//! the same instance, bit for bit, in any language that has SplitMix64.

use std::collections::BTreeSet;

use crate::instance::{Edge, Instance, InstanceError, Links};
use crate::random::SplitMix64;

/// Parameters of a layered DAG. Ratios are in percent.
///
/// ```
/// let small = warpyard_dag::Layered { tasks: 100, machines: 8, seed: 1, ..Default::default() }.generate()?;
/// assert_eq!(small.edge_count(), 276);
/// # Ok::<(), warpyard_dag::InstanceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layered {
    /// Seed: one instance per seed for the same parameters.
    pub seed: u64,
    /// Number of tasks; at least 1.
    pub tasks: usize,
    /// Number of machines; at least 1.
    pub machines: usize,
    /// Shape: the mean layer width is alpha times the root of the number of tasks.
    pub alpha: u64,
    /// Approximate mean number of extra children per task.
    pub out_degree: u64,
    /// Communication-to-computation ratio.
    pub ccr: u64,
    /// Heterogeneity: spread of a task's costs over the machines; at most 200.
    pub beta: u64,
    /// Mean cost.
    pub mean_cost: u64,
}

impl Default for Layered {
    fn default() -> Self {
        Self {
            seed: 1,
            tasks: 100,
            machines: 8,
            alpha: 100,
            out_degree: 3,
            ccr: 100,
            beta: 100,
            mean_cost: 1000,
        }
    }
}

impl Layered {
    /// Generates the instance.
    ///
    /// # Errors
    /// When there are no machines or the size is beyond a 32-bit index.
    pub fn generate(&self) -> Result<Instance, InstanceError> {
        let mut draw = SplitMix64::new(self.seed);
        let layer_starts = self.layers(&mut draw);
        let pairs = self.edges(&layer_starts, &mut draw);
        let costs = self.costs(&mut draw);
        let most = 2 * (self.mean_cost * self.ccr / 100);
        let edges: Vec<Edge> =
            pairs.into_iter().map(|(from, to)| Edge { from, to, data: draw.range(0, most) as f64 }).collect();
        Instance::new(self.machines, costs, &edges, Links::Uniform)
    }

    /// First task of each layer, and the number of tasks at the end. The entry and the exit are layers of one task.
    fn layers(&self, draw: &mut SplitMix64) -> Vec<usize> {
        if self.tasks < 2 {
            return vec![0, self.tasks];
        }
        let alpha = u128::from(self.alpha);
        let mean = ((alpha * alpha * self.tasks as u128).isqrt() / 100).max(1) as u64;
        let mut starts = vec![0, 1];
        let mut left = self.tasks - 2;
        while left > 0 {
            let width = if mean > 1 { draw.range(1, 2 * mean - 1) } else { 1 };
            let width = usize::try_from(width).map_or(left, |w| w.min(left));
            starts.push(starts[starts.len() - 1] + width);
            left -= width;
        }
        starts.push(self.tasks);
        starts
    }

    fn edges(&self, starts: &[usize], draw: &mut SplitMix64) -> Vec<(u32, u32)> {
        let layers = starts.len() - 1;
        if self.tasks < 2 {
            return Vec::new();
        }
        let exit = self.tasks - 1;
        let mut children: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); self.tasks];
        // Every task of an inner layer gets one parent in the layer before.
        for layer in 1..layers - 1 {
            let (before, here) = (starts[layer - 1], starts[layer]);
            for task in here..starts[layer + 1] {
                let parent = before + draw.below((here - before) as u64) as usize;
                children[parent].insert(task as u32);
            }
        }
        // Extra edges: three in four to the next layer, the others to any later one.
        for layer in 0..layers - 1 {
            let (next, after) = (starts[layer + 1], starts[layer + 2]);
            for children in &mut children[starts[layer]..next] {
                for _ in 0..draw.below((2 * self.out_degree).max(2) - 1) {
                    // Only the exit follows: it is given its edges below.
                    if next >= exit {
                        continue;
                    }
                    let near = draw.below(4) < 3;
                    let end = if near { after } else { exit };
                    children.insert((next + draw.below((end - next) as u64) as usize) as u32);
                }
            }
        }
        for childless in children[..exit].iter_mut().filter(|c| c.is_empty()) {
            childless.insert(exit as u32);
        }
        let flat = children.iter().enumerate();
        flat.flat_map(|(from, to)| to.iter().map(move |to| (from as u32, *to))).collect()
    }

    fn costs(&self, draw: &mut SplitMix64) -> Vec<f64> {
        let mut costs = Vec::with_capacity(self.tasks * self.machines);
        for _ in 0..self.tasks {
            let mean = draw.range(1, 2 * self.mean_cost.max(1));
            let least = (mean * (200 - self.beta.min(200)) / 200).max(1);
            let most = (mean * (200 + self.beta.min(200)) / 200).max(1);
            costs.extend((0..self.machines).map(|_| draw.range(least, most) as f64));
        }
        costs
    }
}
