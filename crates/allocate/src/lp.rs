//! A small exact simplex: maximise c·x over Ax ≤ b, x ≥ 0, with b ≥ 0, few rows, and columns that may be added as one
//! goes. It serves the master problem of the price method (a row per GPU type) and the problem of sharing (a few rows
//! per class of jobs); it is not meant for a row per job.

/// A column: its gain and its entries.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) gain: f64,
    pub(crate) entries: Vec<(usize, f64)>,
}

/// Why no optimum came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stuck {
    Unbounded,
    TooManyPivots,
    /// The basis has something below zero, and nothing to take its place.
    DoesNotFit,
}

/// What is smaller than this, against the largest entry of its column, is no pivot.
const TINY: f64 = 1e-9;
/// What is further below zero than this, against the largest right-hand side, is not rounding.
const BELOW: f64 = 1e-10;
/// What is further above a right-hand side than this, against the largest, is not rounding.
const OVERRUN: f64 = 1e-11;
const REFRESH: usize = 60;
/// How often values are asked for anew of one inverse at most.
const REFINE: usize = 6;
/// A run of pivots without gain this long switches to the rule that cannot cycle.
const PATIENCE: usize = 200;

/// The tableau's state: a basis, its inverse and the basic values. Variables below `rows` are the rows' slacks.
#[derive(Debug, Clone)]
pub(crate) struct Simplex {
    rows: usize,
    rhs: Vec<f64>,
    columns: Vec<Column>,
    barred: Vec<bool>,
    basis: Vec<usize>,
    basic: Vec<bool>,
    inverse: Vec<f64>,
    values: Vec<f64>,
    stale: usize,
}

impl Simplex {
    pub(crate) fn new(rhs: Vec<f64>) -> Self {
        let rows = rhs.len();
        debug_assert!(rhs.iter().all(|b| *b >= 0.0));
        let mut inverse = vec![0.0; rows * rows];
        (0..rows).for_each(|i| inverse[i * rows + i] = 1.0);
        Self {
            rows,
            values: rhs.clone(),
            rhs,
            columns: Vec::new(),
            barred: vec![false; rows],
            basis: (0..rows).collect(),
            basic: vec![true; rows],
            inverse,
            stale: 0,
        }
    }

    pub(crate) fn add(&mut self, column: Column) -> usize {
        self.columns.push(column);
        self.barred.push(false);
        self.basic.push(false);
        self.columns.len() - 1
    }

    /// Changes the objective.
    pub(crate) fn set_gains(&mut self, gain: impl Fn(usize) -> f64) {
        self.columns.iter_mut().enumerate().for_each(|(i, column)| column.gain = gain(i));
    }

    /// The value of every column.
    pub(crate) fn solution(&self) -> Vec<f64> {
        let mut x = vec![0.0; self.columns.len()];
        for (&variable, &value) in self.basis.iter().zip(&self.values) {
            if variable >= self.rows {
                x[variable - self.rows] = value.max(0.0);
            }
        }
        x
    }

    pub(crate) fn objective(&self) -> f64 {
        self.basis.iter().zip(&self.values).map(|(&v, &x)| self.gain(v) * x).sum()
    }

    /// What a column's entries cost at these prices.
    pub(crate) fn cost(&self, column: usize, prices: &[f64]) -> f64 {
        self.columns[column].entries.iter().map(|&(row, a)| prices[row] * a).sum()
    }

    /// What one more unit of each row's right-hand side would be worth.
    pub(crate) fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.rows];
        for (i, &variable) in self.basis.iter().enumerate() {
            let gain = self.gain(variable);
            if gain != 0.0 {
                let row = &self.inverse[i * self.rows..(i + 1) * self.rows];
                prices.iter_mut().zip(row).for_each(|(p, b)| *p += gain * b);
            }
        }
        prices
    }

    /// Keeps out of the basis whatever would lower the optimum just found: a second objective then breaks ties only.
    pub(crate) fn hold_optimum(&mut self) {
        let prices = self.prices();
        let scale = self.columns.iter().map(|c| c.gain.abs()).fold(1e-300, f64::max);
        for (i, price) in prices.iter().enumerate() {
            self.barred[i] = !self.basic[i] && *price > 1e-9 * scale;
        }
        for (i, column) in self.columns.iter().enumerate() {
            let variable = self.rows + i;
            self.barred[variable] = !self.basic[variable] && self.reduced(column, &prices) < -1e-9 * scale;
        }
    }

    fn gain(&self, variable: usize) -> f64 {
        if variable < self.rows { 0.0 } else { self.columns[variable - self.rows].gain }
    }

    fn reduced(&self, column: &Column, prices: &[f64]) -> f64 {
        column.gain - column.entries.iter().map(|&(row, a)| prices[row] * a).sum::<f64>()
    }

    /// Pivots until no column gains.
    pub(crate) fn solve(&mut self) -> Result<(), Stuck> {
        let limit = 50 * (self.rows + 20) + 4 * self.columns.len();
        let scale = self.columns.iter().map(|c| c.gain.abs()).fold(1e-300, f64::max);
        let (mut idle, mut repairs) = (0, 0);
        for _ in 0..limit {
            let prices = self.prices();
            let Some(entering) = self.enter(&prices, 1e-13 * scale, idle > PATIENCE) else {
                // Only a fresh inverse has the last word, and it may find that the basis does not fit.
                if self.stale > 0 {
                    self.refresh();
                } else if !self.repair(&prices, 1e-12 * scale)? {
                    return Ok(());
                } else if repairs < self.rows {
                    repairs += 1;
                } else {
                    return Err(Stuck::DoesNotFit);
                }
                continue;
            };
            let direction = self.direction(entering);
            let (leaving, step) = self.leave(&direction, idle > PATIENCE).ok_or(Stuck::Unbounded)?;
            idle = if step > 0.0 { 0 } else { idle + 1 };
            self.pivot(entering, leaving, step, &direction);
        }
        Err(Stuck::TooManyPivots)
    }

    fn enter(&self, prices: &[f64], tolerance: f64, first: bool) -> Option<usize> {
        let mut best = (tolerance, None);
        for (i, &price) in prices.iter().enumerate() {
            if !self.basic[i] && !self.barred[i] && -price > best.0 {
                best = (-price, Some(i));
                if first {
                    return best.1;
                }
            }
        }
        for (i, column) in self.columns.iter().enumerate() {
            if !self.barred[self.rows + i] && !self.basic[self.rows + i] {
                let gain = self.reduced(column, prices);
                if gain > best.0 {
                    best = (gain, Some(self.rows + i));
                    if first {
                        return best.1;
                    }
                }
            }
        }
        best.1
    }

    /// Takes what is most below zero out of the basis, for what lowers the objective least (a step of the dual simplex);
    /// says whether there was anything to take. Columns that are all but the same make bases that look fine until their
    /// inverse is fresh.
    fn repair(&mut self, prices: &[f64], tie: f64) -> Result<bool, Stuck> {
        let below = self.values.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((leaving, _)) = below.filter(|(_, value)| **value < -BELOW * largest(&self.rhs)) else {
            return Ok(false);
        };
        let row = &self.inverse[leaving * self.rows..(leaving + 1) * self.rows];
        let slacks = (0..self.rows).map(|i| (i, row[i], prices[i]));
        let columns = self.columns.iter().enumerate().map(|(i, column)| {
            let moves = column.entries.iter().map(|&(j, a)| row[j] * a).sum::<f64>();
            (self.rows + i, moves, -self.reduced(column, prices))
        });
        let free = slacks.chain(columns).filter(|(v, ..)| !self.basic[*v] && !self.barred[*v]);
        let mut raising: Vec<(usize, f64, f64)> = free.filter(|(_, moves, _)| *moves < 0.0).collect();
        let most = raising.iter().map(|(_, moves, _)| -moves).fold(0.0, f64::max);
        raising.retain(|(_, moves, _)| -moves > TINY * most);
        let least = raising
            .iter()
            .map(|(_, moves, cost)| (cost.max(0.0) + tie) / -moves)
            .fold(f64::INFINITY, f64::min);
        let tied = raising.iter().filter(|(_, moves, cost)| cost.max(0.0) / -moves <= least);
        let &(entering, ..) = tied.min_by(|a, b| a.1.total_cmp(&b.1)).ok_or(Stuck::DoesNotFit)?;
        let direction = self.direction(entering);
        self.pivot(entering, leaving, self.values[leaving] / direction[leaving], &direction);
        Ok(true)
    }

    fn direction(&self, variable: usize) -> Vec<f64> {
        let m = self.rows;
        if variable < m {
            return (0..m).map(|i| self.inverse[i * m + variable]).collect();
        }
        let entries = &self.columns[variable - m].entries;
        (0..m).map(|i| entries.iter().map(|&(row, a)| self.inverse[i * m + row] * a).sum()).collect()
    }

    fn leave(&self, direction: &[f64], first: bool) -> Option<(usize, f64)> {
        let largest = direction.iter().fold(0.0_f64, |a, d| a.max(d.abs()));
        let pivots = |d: f64| d > TINY * largest;
        let step = direction
            .iter()
            .zip(&self.values)
            .filter(|(d, _)| pivots(**d))
            .map(|(d, v)| v.max(0.0) / d)
            .min_by(f64::total_cmp)?;
        let tied = |(d, v): (&f64, &f64)| pivots(*d) && v.max(0.0) / d <= step * (1.0 + 1e-12) + 1e-15;
        let candidates = (0..self.rows).filter(|&i| tied((&direction[i], &self.values[i])));
        let row = if first {
            candidates.min_by_key(|&i| self.basis[i])
        } else {
            candidates.max_by(|&a, &b| direction[a].total_cmp(&direction[b]))
        };
        row.map(|row| (row, step))
    }

    fn pivot(&mut self, entering: usize, leaving: usize, step: f64, direction: &[f64]) {
        let m = self.rows;
        self.basic[self.basis[leaving]] = false;
        self.basic[entering] = true;
        self.basis[leaving] = entering;
        for (value, d) in self.values.iter_mut().zip(direction) {
            *value -= step * d;
        }
        self.values[leaving] = step;
        let scale = 1.0 / direction[leaving];
        let (before, rest) = self.inverse.split_at_mut(leaving * m);
        let (row, after) = rest.split_at_mut(m);
        row.iter_mut().for_each(|b| *b *= scale);
        let others = before.chunks_exact_mut(m).chain(after.chunks_exact_mut(m));
        for (other, d) in others.zip(direction[..leaving].iter().chain(&direction[leaving + 1..])) {
            if *d != 0.0 {
                other.iter_mut().zip(row.iter()).for_each(|(o, b)| *o -= d * b);
            }
        }
        self.stale += 1;
        if self.stale >= REFRESH {
            self.refresh();
        }
    }

    /// Inverts the basis afresh, so that errors do not pile up.
    pub(crate) fn refresh(&mut self) {
        let m = self.rows;
        let mut matrix = vec![0.0; m * m];
        for (i, &variable) in self.basis.iter().enumerate() {
            if variable < m {
                matrix[variable * m + i] = 1.0;
            } else {
                for &(row, a) in &self.columns[variable - m].entries {
                    matrix[row * m + i] += a;
                }
            }
        }
        self.stale = 0;
        if let Some(inverse) = invert(matrix, m) {
            self.inverse = inverse;
            self.values = vec![0.0; m];
            // A basis that is all but singular has an inverse of a few digits: what it leaves missing is asked of it again.
            let (mut missing, mut worst) = (self.rhs.clone(), f64::INFINITY);
            for _ in 0..REFINE {
                let mut values = self.values.clone();
                for (value, row) in values.iter_mut().zip(self.inverse.chunks_exact(m)) {
                    *value += row.iter().zip(&missing).map(|(b, r)| b * r).sum::<f64>();
                }
                let left = self.missing(&values);
                if largest(&left) >= worst {
                    break;
                }
                worst = largest(&left);
                (self.values, missing) = (values, left);
            }
        }
    }

    /// What basic values leave of the right-hand side.
    fn missing(&self, values: &[f64]) -> Vec<f64> {
        let mut missing = self.rhs.clone();
        for (&variable, &value) in self.basis.iter().zip(values) {
            if variable < self.rows {
                missing[variable] -= value;
            } else {
                let entries = &self.columns[variable - self.rows].entries;
                entries.iter().for_each(|&(row, a)| missing[row] -= a * value);
            }
        }
        missing
    }

    /// The part of the solution that fits: less than all of it where it overruns a row by more than rounding.
    pub(crate) fn fits(&self) -> f64 {
        let mut used = vec![0.0; self.rows];
        for (column, x) in self.columns.iter().zip(self.solution()) {
            column.entries.iter().for_each(|&(row, a)| used[row] += a * x);
        }
        // A row may have nothing to give but rounding.
        let rounding = OVERRUN * largest(&self.rhs);
        let part =
            |(used, rhs): (&f64, &f64)| if *used > rhs + rounding { (rhs + rounding) / used } else { 1.0 };
        used.iter().zip(&self.rhs).map(part).fold(1.0, f64::min)
    }
}

fn largest(of: &[f64]) -> f64 {
    of.iter().fold(0.0, |most, x| x.abs().max(most))
}

/// The inverse of a square matrix by elimination with row pivoting; `None` where there is none.
pub(crate) fn invert(mut a: Vec<f64>, m: usize) -> Option<Vec<f64>> {
    let mut inverse = vec![0.0; m * m];
    (0..m).for_each(|i| inverse[i * m + i] = 1.0);
    for column in 0..m {
        let pivot =
            (column..m).max_by(|&x, &y| a[x * m + column].abs().total_cmp(&a[y * m + column].abs()))?;
        if a[pivot * m + column].abs() < 1e-280 {
            return None;
        }
        if pivot != column {
            for i in 0..m {
                a.swap(pivot * m + i, column * m + i);
                inverse.swap(pivot * m + i, column * m + i);
            }
        }
        let scale = 1.0 / a[column * m + column];
        for i in 0..m {
            a[column * m + i] *= scale;
            inverse[column * m + i] *= scale;
        }
        let (pivot_a, pivot_inverse) =
            (a[column * m..(column + 1) * m].to_vec(), inverse[column * m..(column + 1) * m].to_vec());
        for row in (0..m).filter(|&row| row != column) {
            let factor = a[row * m + column];
            if factor != 0.0 {
                for i in 0..m {
                    a[row * m + i] -= factor * pivot_a[i];
                    inverse[row * m + i] -= factor * pivot_inverse[i];
                }
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a basis that does not fit, and cannot be made to, nothing is an optimum.
    #[test]
    fn a_basis_that_does_not_fit_is_no_optimum() {
        let mut simplex = Simplex::new(vec![1.0, 1.0]);
        simplex.add(Column { gain: 1.0, entries: vec![(0, 1.0), (1, 1.0)] });
        assert_eq!(simplex.solve(), Ok(()));
        simplex.rhs = vec![1.0, -0.5];
        simplex.refresh();
        assert_eq!(simplex.solve(), Err(Stuck::DoesNotFit));
    }
}
