//! Goals as plain linear programs, stated from their definitions, for a general interior point solver and for
//! enumeration of all vertices.

use super::odd::profile;
use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};
use warpyard_allocate::{Instance, Job};

/// Jobs on GPUs of one type, alone or two together, each with its speed there.
struct Way {
    gpu_type: usize,
    gpus: u32,
    jobs: Vec<(usize, f64)>,
}

/// The largest gain over rows that say Σ a·x ≤ b; every variable is at least 0.
pub(crate) struct Program {
    ways: Vec<Way>,
    fastest: Vec<f64>,
    gain: Vec<f64>,
    rows: Vec<(Vec<(usize, f64)>, f64)>,
}

impl Program {
    /// A share for every way to run, and what there is of time and GPUs.
    pub(crate) fn new(instance: &Instance, sharing: bool) -> Self {
        let ways = ways(instance, sharing);
        let (mut rows, used) = (Vec::new(), |way: &Way| f64::from(way.gpus));
        for m in 0..instance.jobs.len() {
            let his = ways.iter().enumerate().filter(|(_, way)| way.jobs.iter().any(|(job, _)| *job == m));
            rows.push((his.map(|(v, _)| (v, 1.0)).collect(), 1.0));
        }
        for (j, t) in instance.types.iter().enumerate() {
            let there = ways.iter().enumerate().filter(|(_, way)| way.gpu_type == j);
            rows.push((there.map(|(v, way)| (v, used(way))).collect(), f64::from(t.count)));
        }
        let fastest = |job: &Job| job.throughputs.iter().copied().fold(0.0, f64::max);
        let fastest = instance.jobs.iter().map(fastest).collect();
        Self { gain: vec![0.0; ways.len()], ways, fastest, rows }
    }

    /// One variable more.
    pub(crate) fn variable(&mut self, gain: f64) -> usize {
        self.gain.push(gain);
        self.gain.len() - 1
    }

    /// What a step a second of job `m` on type `j` gains.
    pub(crate) fn gain(&mut self, of: impl Fn(usize, usize) -> f64) {
        for (gain, way) in self.gain.iter_mut().zip(&self.ways) {
            *gain = way.jobs.iter().map(|(m, speed)| speed * of(*m, way.gpu_type)).sum();
        }
    }

    /// Demands that a job's speed is at least `least` and the variables' parts of themselves.
    pub(crate) fn demand(&mut self, m: usize, least: f64, parts: &[(usize, f64)]) {
        let scale = 1.0 / self.fastest[m];
        let speed = |(v, way): (usize, &Way)| {
            let his = way.jobs.iter().find(|(job, _)| *job == m)?;
            Some((v, -his.1 * scale))
        };
        let entries: Vec<_> = self.ways.iter().enumerate().filter_map(speed).collect();
        let parts = parts.iter().map(|(v, part)| (*v, part * scale));
        self.rows.push((entries.into_iter().chain(parts).collect(), -least * scale));
    }

    /// Bounds what variables come to.
    pub(crate) fn bound(&mut self, entries: &[(usize, f64)], most: f64) {
        self.rows.push((entries.to_vec(), most));
    }

    /// The largest gain, by a general solver.
    pub(crate) fn optimum(&self) -> f64 {
        let (mut cells, n) = (Vec::new(), self.gain.len());
        let signs = (0..n).map(|v| (vec![(v, -1.0)], 0.0));
        let rows: Vec<_> = self.rows.iter().cloned().chain(signs).collect();
        for (row, (entries, _)) in rows.iter().enumerate() {
            cells.extend(entries.iter().map(|&(column, a)| (column, row, a)));
        }
        cells.sort_by_key(|&(column, row, _)| (column, row));
        let (columns, (places, values)): (Vec<_>, (Vec<_>, Vec<_>)) =
            cells.into_iter().map(|(c, r, a)| (c, (r, a))).unzip();
        let starts = (0..=n).map(|c| columns.partition_point(|x| *x < c)).collect();
        let a = CscMatrix::new(rows.len(), n, starts, places, values);
        let largest = self.gain.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        let cost: Vec<f64> = self.gain.iter().map(|g| -g / largest).collect();
        let b: Vec<f64> = rows.iter().map(|(_, b)| *b).collect();
        let settings = DefaultSettingsBuilder::default()
            .verbose(false)
            .tol_gap_rel(1e-9)
            .tol_gap_abs(1e-9)
            .tol_feas(1e-9)
            .build()
            .expect("settings");
        let cones = [NonnegativeConeT(rows.len())];
        let mut solver = DefaultSolver::new(&CscMatrix::zeros((n, n)), &cost, &a, &b, &cones, settings)
            .expect("a program");
        solver.solve();
        let status = solver.solution.status;
        assert!(matches!(status, SolverStatus::Solved | SolverStatus::AlmostSolved), "{status:?}");
        -solver.solution.obj_val * largest
    }

    /// The largest gain, by looking at every corner: as many rows met exactly as there are variables.
    pub(crate) fn by_brute_force(&self) -> f64 {
        let n = self.gain.len();
        let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
        for (entries, b) in &self.rows {
            let mut dense = vec![0.0; n];
            entries.iter().for_each(|(v, a)| dense[*v] += a);
            rows.push((dense, *b));
        }
        for v in 0..n {
            let mut dense = vec![0.0; n];
            dense[v] = -1.0;
            rows.push((dense, 0.0));
        }
        let mut best = f64::NEG_INFINITY;
        let mut chosen: Vec<usize> = (0..n).collect();
        loop {
            if let Some(corner) = meet(&rows, &chosen) {
                let total = |a: &[f64]| a.iter().zip(&corner).map(|(a, x)| a * x).sum::<f64>();
                if rows.iter().all(|(a, b)| total(a) <= b + 1e-9) {
                    best = best.max(total(&self.gain));
                }
            }
            // The next choice of n rows, in order.
            let Some(i) = (0..n).rev().find(|&i| chosen[i] < rows.len() - n + i) else { return best };
            chosen[i] += 1;
            (i + 1..n).for_each(|j| chosen[j] = chosen[j - 1] + 1);
        }
    }
}

/// Where these rows are all met exactly, if that is one point.
fn meet(rows: &[(Vec<f64>, f64)], chosen: &[usize]) -> Option<Vec<f64>> {
    let n = chosen.len();
    let mut system: Vec<Vec<f64>> =
        chosen.iter().map(|&i| rows[i].0.iter().copied().chain([rows[i].1]).collect()).collect();
    for column in 0..n {
        let pivot =
            (column..n).max_by(|&a, &b| system[a][column].abs().total_cmp(&system[b][column].abs()))?;
        if system[pivot][column].abs() < 1e-9 {
            return None;
        }
        system.swap(column, pivot);
        let top = system[column].clone();
        for (_, row) in system.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            let factor = row[column] / top[column];
            row.iter_mut().zip(&top).skip(column).for_each(|(a, b)| *a -= factor * b);
        }
    }
    Some((0..n).map(|i| system[i][n] / system[i][i]).collect())
}

fn ways(instance: &Instance, sharing: bool) -> Vec<Way> {
    let mut ways = Vec::new();
    for (m, job) in instance.jobs.iter().enumerate() {
        for (gpu_type, t) in instance.types.iter().enumerate().filter(|(_, t)| t.count >= job.gpus) {
            let speed = job.throughputs[gpu_type];
            if speed > 0.0 {
                ways.push(Way { gpu_type, gpus: job.gpus, jobs: vec![(m, speed)] });
            }
            let Some(table) = instance.pairs.as_ref().filter(|_| sharing && speed > 0.0) else { continue };
            for (o, other) in instance.jobs.iter().enumerate().skip(m + 1) {
                let both = table.paired(&t.name, &profile(job), &profile(other));
                let runs = other.gpus == job.gpus && other.throughputs[gpu_type] > 0.0;
                if let Some([a, b]) = both.filter(|_| runs) {
                    ways.push(Way { gpu_type, gpus: job.gpus, jobs: vec![(m, a), (o, b)] });
                }
            }
        }
    }
    ways
}
