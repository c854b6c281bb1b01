//! Nash welfare with GPU sharing, in classes. Σ log speed is concave in the time of each way to run, so a primal-dual
//! interior point method finds the optimum; the duals there (one over the speed, and the prices of GPUs and time)
//! bound every other allocation.

use super::program::{Duals, Ways};
use crate::goal::SolveError;

/// Steps of the walk at most; a few dozen will do.
const STEPS: usize = 200;
/// How far towards the edge of what is feasible one step goes.
const NEARLY: f64 = 0.98;
/// A step of which less than this stays inside is none.
const SHORT: f64 = 0.2;
/// Steps without a smaller gap after which rounding is all there is.
const PATIENCE: usize = 30;

/// The largest Σ log speed of some jobs of each class.
pub(super) struct Agreed {
    pub(super) value: f64,
    /// What it cannot pass.
    pub(super) bound: f64,
    /// The time of every way.
    pub(super) times: Vec<f64>,
    pub(super) duals: Duals,
}

/// Solves it for `jobs[c]` jobs of class c, to this absolute gap if rounding allows.
pub(super) fn agree(ways: &Ways, jobs: &[f64], gap: f64) -> Result<Agreed, SolveError> {
    let program = Program::new(ways, jobs);
    let mut walk = Walk::new(&program);
    let (mut best, mut found, mut idle) = (f64::INFINITY, None, 0);
    for _ in 0..STEPS {
        let (value, bound) = (program.value(&walk.x), program.bound(&walk.duals));
        idle += 1;
        if bound - value < best {
            (best, idle) = (bound - value, 0);
            found = Some((value, bound, program.within(&walk.x), walk.duals.clone()));
        }
        if best <= gap || idle > PATIENCE {
            break;
        }
        walk.step();
    }
    let (value, bound, x, duals) = found.ok_or(SolveError::NotFinite)?;
    Ok(program.agreed(ways, value, bound, &x, &duals))
}

/// What Σ log speed of these jobs cannot pass at these prices, whatever prices they are.
pub(super) fn bound(ways: &Ways, jobs: &[f64], duals: &Duals) -> f64 {
    let program = Program::new(ways, jobs);
    let time = program.present.iter().map(|&c| duals.time[c]);
    let speed = program.present.iter().map(|&c| duals.speed[c] * program.fastest[c]);
    program.bound(&duals.types.iter().copied().chain(time).chain(speed).collect::<Vec<f64>>())
}

/// Rows B·x + slack = b: first what there is of GPUs and of each class's time, then, as 0, each class's speed less what
/// it does, in units of the fastest it can be.
struct Program<'a> {
    types: usize,
    /// The classes that have a job.
    present: Vec<usize>,
    jobs: &'a [f64],
    fastest: Vec<f64>,
    /// The ways that are open to them, by place.
    open: Vec<usize>,
    columns: Vec<Vec<(usize, f64)>>,
    rhs: Vec<f64>,
}

impl<'a> Program<'a> {
    fn new(ways: &Ways, jobs: &'a [f64]) -> Self {
        let (k, classes) = (ways.capacity.len(), ways.classes.len());
        let present: Vec<usize> = (0..classes).filter(|&c| jobs[c] > 0.0).collect();
        let mut place = vec![None; classes];
        present.iter().enumerate().for_each(|(i, &c)| place[c] = Some(i));
        let mut fastest = vec![0.0_f64; classes];
        for way in &ways.ways {
            way.members().for_each(|(class, speed)| fastest[class] = fastest[class].max(speed));
        }
        let (mut open, mut columns) = (Vec::new(), Vec::new());
        for (i, way) in ways.ways.iter().enumerate() {
            let itself = way.pair && way.classes[0] == way.classes[1];
            if way.members().any(|(c, _)| place[c].is_none()) || itself && jobs[way.classes[0]] < 2.0 {
                continue;
            }
            let mut column = vec![(way.gpu_type, ways.classes[way.classes[0]].gpus)];
            for (class, speed) in way.members() {
                let at = place[class].unwrap_or_default();
                column.push((k + at, 1.0));
                if speed > 0.0 {
                    column.push((k + present.len() + at, -speed / fastest[class]));
                }
            }
            open.push(i);
            columns.push(column);
        }
        let mut rhs = ways.capacity.clone();
        // Types nobody runs on limit nothing.
        let used: Vec<bool> = (0..k).map(|j| open.iter().any(|&i| ways.ways[i].gpu_type == j)).collect();
        rhs.iter_mut().zip(used).for_each(|(b, used)| *b = if used { *b } else { 1.0 });
        rhs.extend(present.iter().map(|&c| jobs[c]));
        rhs.extend(std::iter::repeat_n(0.0, present.len()));
        Self { types: k, present, jobs, fastest, open, columns, rhs }
    }

    /// Rows that limit something; the rest are speeds.
    fn limits(&self) -> usize {
        self.types + self.present.len()
    }

    /// What the product of a row's slack and price comes to at the optimum.
    fn target(&self, row: usize) -> f64 {
        let limits = self.limits();
        if row < limits { 0.0 } else { self.jobs[self.present[row - limits]] }
    }

    fn times(&self, x: &[f64]) -> Vec<f64> {
        let mut rows = vec![0.0; self.rhs.len()];
        for (column, x) in self.columns.iter().zip(x) {
            column.iter().for_each(|&(row, a)| rows[row] += a * x);
        }
        rows
    }

    fn cost(&self, column: usize, duals: &[f64]) -> f64 {
        self.columns[column].iter().map(|&(row, a)| a * duals[row]).sum()
    }

    /// The same time, but no more than there is.
    fn within(&self, x: &[f64]) -> Vec<f64> {
        let used = self.times(x);
        let limits = self.limits();
        let over = used[..limits].iter().zip(&self.rhs).map(|(used, b)| used / b).fold(1.0, f64::max);
        x.iter().map(|x| x / over).collect()
    }

    /// Σ log speed, once no more is given out than there is.
    fn value(&self, x: &[f64]) -> f64 {
        let rows = self.times(&self.within(x));
        let speeds = self.present.iter().zip(&rows[self.limits()..]);
        speeds.map(|(&c, speed)| self.jobs[c] * (-speed * self.fastest[c] / self.jobs[c]).ln()).sum()
    }

    /// What Σ log speed cannot pass: log u ≤ w·u − 1 − log w for any worth w, and Σ w·u is at most what GPUs and time
    /// cost, types' prices raised until no way is worth more than it costs.
    fn bound(&self, duals: &[f64]) -> f64 {
        let mut raised = vec![0.0_f64; self.types];
        for (i, column) in self.columns.iter().enumerate() {
            let (gpu_type, gpus) = column[0];
            raised[gpu_type] = raised[gpu_type].max(-self.cost(i, duals) / gpus);
        }
        let limits = self.limits();
        let prices = duals[..limits].iter().zip(raised.into_iter().chain(std::iter::repeat(0.0)));
        let budget: f64 = prices.zip(&self.rhs).map(|((price, more), b)| (price + more) * b).sum();
        let most = self.present.iter().zip(&duals[limits..]);
        budget + most.map(|(&c, worth)| self.jobs[c] * ((self.fastest[c] / worth).ln() - 1.0)).sum::<f64>()
    }

    fn agreed(&self, ways: &Ways, value: f64, bound: f64, x: &[f64], duals: &[f64]) -> Agreed {
        let (classes, limits) = (ways.classes.len(), self.limits());
        let mut times = vec![0.0; ways.ways.len()];
        self.open.iter().zip(x).for_each(|(&i, x)| times[i] = *x);
        let (mut time, mut speed) = (vec![0.0; classes], vec![0.0; classes]);
        for (i, &c) in self.present.iter().enumerate() {
            time[c] = duals[self.types + i];
            speed[c] = duals[limits + i] / self.fastest[c];
        }
        let mut types = duals[..self.types].to_vec();
        let used = |j: usize| self.columns.iter().any(|column| column[0].0 == j);
        (0..self.types).filter(|&j| !used(j)).for_each(|j| types[j] = 0.0);
        Agreed { value, bound, times, duals: Duals { types, time, speed } }
    }
}

/// A point inside: time x > 0 with its reduced price z > 0, slacks > 0 with their duals > 0. At the optimum x·z is 0, and
/// every row's slack times its dual is the row's target.
struct Walk<'a> {
    program: &'a Program<'a>,
    x: Vec<f64>,
    z: Vec<f64>,
    slack: Vec<f64>,
    duals: Vec<f64>,
}

/// Where a step leads to from each of those.
struct Move {
    x: Vec<f64>,
    z: Vec<f64>,
    slack: Vec<f64>,
    duals: Vec<f64>,
}

impl<'a> Walk<'a> {
    /// Half of what there is, spread evenly, at prices so high that every way costs more than it is worth.
    fn new(program: &'a Program<'a>) -> Self {
        let limits = program.limits();
        let mut all = vec![0.0; limits];
        let each = program.columns.iter().flatten().filter(|(row, _)| *row < limits);
        each.for_each(|&(row, a)| all[row] += a);
        let part = |column: &Vec<(usize, f64)>| {
            let parts =
                column.iter().filter(|(row, _)| *row < limits).map(|&(row, _)| program.rhs[row] / all[row]);
            0.5 * parts.fold(f64::INFINITY, f64::min)
        };
        let x: Vec<f64> = program.columns.iter().map(part).collect();
        let slack: Vec<f64> = program.times(&x).iter().zip(&program.rhs).map(|(bx, b)| b - bx).collect();
        let people: f64 = program.present.iter().map(|&c| program.jobs[c]).sum();
        let mut duals: Vec<f64> = (0..program.rhs.len())
            .map(|row| {
                if row < limits {
                    people / (limits as f64 * program.rhs[row])
                } else {
                    program.target(row) / slack[row]
                }
            })
            .collect();
        let mut dearer = vec![0.0_f64; program.types];
        for (i, column) in program.columns.iter().enumerate() {
            let (gpu_type, gpus) = column[0];
            dearer[gpu_type] = dearer[gpu_type].max(-program.cost(i, &duals) / gpus);
        }
        duals.iter_mut().zip(dearer).for_each(|(price, more)| *price = 2.0 * *price + 1.5 * more);
        let z = (0..x.len()).map(|i| program.cost(i, &duals)).collect();
        Self { program, x, z, slack, duals }
    }

    /// How far x·z and the limits' slack times price are from 0, on average.
    fn distance(&self) -> f64 {
        let limits = self.program.limits();
        let ways: f64 = self.x.iter().zip(&self.z).map(|(x, z)| x * z).sum();
        let rows: f64 = self.slack[..limits].iter().zip(&self.duals).map(|(s, d)| s * d).sum();
        (ways + rows) / (self.x.len() + limits) as f64
    }

    /// One step: first as if straight to the optimum, to see how far that goes, then with what that teaches (Mehrotra).
    fn step(&mut self) {
        let system = self.system();
        let straight = self.toward(&system, 0.0, None);
        let reach = self.reach(&straight);
        let distance = self.distance();
        let there = Self {
            program: self.program,
            x: moved(&self.x, &straight.x, reach),
            z: moved(&self.z, &straight.z, reach),
            slack: moved(&self.slack, &straight.slack, reach),
            duals: moved(&self.duals, &straight.duals, reach),
        };
        let centre = distance * (there.distance() / distance).clamp(0.0, 1.0).powi(3);
        let mut step = self.toward(&system, centre, Some(&straight));
        let mut reach = self.reach(&step);
        if reach < SHORT {
            // Too near an edge to learn from that: first towards the middle.
            step = self.toward(&system, 0.5 * distance, None);
            reach = self.reach(&step);
        }
        self.x = moved(&self.x, &step.x, reach);
        self.z = moved(&self.z, &step.z, reach);
        self.slack = moved(&self.slack, &step.slack, reach);
        self.duals = moved(&self.duals, &step.duals, reach);
    }

    /// B·(x/z)·Bᵀ plus slack over price: what the prices' change is found from.
    fn system(&self) -> Factors {
        let rows = self.slack.len();
        let mut matrix = vec![0.0; rows * rows];
        for ((column, x), z) in self.program.columns.iter().zip(&self.x).zip(&self.z) {
            for &(i, a) in column {
                for &(j, b) in column.iter().filter(|(j, _)| *j <= i) {
                    matrix[i * rows + j] += a * b * (x / z);
                }
            }
        }
        for (row, (slack, price)) in self.slack.iter().zip(&self.duals).enumerate() {
            matrix[row * rows + row] += slack / price;
        }
        Factors::new(matrix, rows)
    }

    /// The step that would bring every product to its target, or to `centre` where that is 0, by the system's linear part;
    /// `after` is a step whose products are taken off.
    fn toward(&self, system: &Factors, centre: f64, after: Option<&Move>) -> Move {
        let Self { program, x, z, slack, duals } = self;
        let ways = |i: usize| centre - x[i] * z[i] - after.map_or(0.0, |m| m.x[i] * m.z[i]);
        let rows = |i: usize| {
            let target = if i < program.limits() { centre } else { program.target(i) };
            target - slack[i] * duals[i] - after.map_or(0.0, |m| m.slack[i] * m.duals[i])
        };
        // What rounding has left undone: Bᵀd − z and b − B·x − slack.
        let lean: Vec<f64> = (0..x.len()).map(|i| z[i] - program.cost(i, duals) + ways(i) / x[i]).collect();
        let pushed: Vec<f64> = (0..x.len()).map(|i| x[i] / z[i] * lean[i]).collect();
        let left = program.times(x);
        let mut change = program.times(&pushed);
        for (i, change) in change.iter_mut().enumerate() {
            *change += rows(i) / duals[i] - (program.rhs[i] - left[i] - slack[i]);
        }
        system.solve(&mut change);
        let dx: Vec<f64> = (0..x.len()).map(|i| x[i] / z[i] * (lean[i] - program.cost(i, &change))).collect();
        let dz = (0..x.len()).map(|i| (ways(i) - z[i] * dx[i]) / x[i]).collect();
        let ds = (0..slack.len()).map(|i| (rows(i) - slack[i] * change[i]) / duals[i]).collect();
        Move { x: dx, z: dz, slack: ds, duals: change }
    }

    /// How much of a step stays inside.
    fn reach(&self, step: &Move) -> f64 {
        let parts =
            [(&self.x, &step.x), (&self.z, &step.z), (&self.slack, &step.slack), (&self.duals, &step.duals)];
        let edges = parts.into_iter().flat_map(|(from, by)| from.iter().zip(by));
        let edge =
            edges.filter(|(_, by)| **by < 0.0).map(|(from, by)| -from / by).fold(f64::INFINITY, f64::min);
        (NEARLY * edge).min(1.0)
    }
}

fn moved(from: &[f64], by: &[f64], reach: f64) -> Vec<f64> {
    from.iter().zip(by).map(|(from, by)| from + reach * by).collect()
}

/// A symmetric matrix as L·Lᵀ (Cholesky); only what is on and below the diagonal is read.
struct Factors {
    lower: Vec<f64>,
    rows: usize,
}

impl Factors {
    fn new(mut a: Vec<f64>, rows: usize) -> Self {
        for i in 0..rows {
            let (before, rest) = a.split_at_mut(i * rows);
            let row = &mut rest[..=i];
            for j in 0..i {
                let other = &before[j * rows..=j * rows + j];
                row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
            }
            let whole = row[i];
            let left = whole - dot(&row[..i], &row[..i]);
            // What rounding makes nothing of says nothing of its row either: the row stays where it is.
            row[i] = if left > 1e-15 * whole { left.sqrt() } else { 1e100 };
        }
        Self { lower: a, rows }
    }

    fn solve(&self, b: &mut [f64]) {
        let n = self.rows;
        for i in 0..n {
            let row = &self.lower[i * n..=i * n + i];
            b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
        }
        for i in (0..n).rev() {
            b[i] /= self.lower[i * n + i];
            let (done, value) = (&self.lower[i * n..i * n + i], b[i]);
            b[..i].iter_mut().zip(done).for_each(|(b, a)| *b -= a * value);
        }
    }
}

/// Σ x·y, added up in several places at once: nearly all of the time goes here.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    const AT_ONCE: usize = 8;
    let (xs, ys) = (x.chunks_exact(AT_ONCE), y.chunks_exact(AT_ONCE));
    let rest: f64 = xs.remainder().iter().zip(ys.remainder()).map(|(x, y)| x * y).sum();
    let mut sums = [0.0; AT_ONCE];
    for (xs, ys) in xs.zip(ys) {
        sums.iter_mut().zip(xs.iter().zip(ys)).for_each(|(sum, (x, y))| *sum += x * y);
    }
    sums.iter().sum::<f64>() + rest
}
