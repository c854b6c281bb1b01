//! Revised primal simplex for small dense problems: maximise c·x over Ax ≤ b, x ≥ 0, with b ≥ 0, few rows and columns
//! added on the way. It solves the master problem of the decomposition (one row per GPU type) and the programs of GPU
//! sharing (a few rows per class of jobs); it is not meant for one row per job.

/// Column: objective coefficient and non-zero entries.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) gain: f64,
    pub(crate) entries: Vec<(usize, f64)>,
}

/// Reason no optimum was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimplexFailure {
    Unbounded,
    TooManyPivots,
    /// A basic value is negative and no column can replace it.
    Infeasible,
}

/// Smallest pivot, relative to the largest entry of its column.
const PIVOT_TOLERANCE: f64 = 1e-9;
/// Negative basic values up to this, relative to the largest right-hand side, are rounding.
const NEGATIVE_TOLERANCE: f64 = 1e-10;
/// Row excess up to this, relative to the largest right-hand side, is rounding.
const ROW_TOLERANCE: f64 = 1e-11;
/// Pivots between two inversions of the basis.
const PIVOTS_PER_REFACTOR: usize = 60;
/// Iterative refinements of the basic values per inversion.
const MAX_REFINEMENTS: usize = 6;
/// Consecutive degenerate pivots before switching to Bland's rule, which cannot cycle.
const MAX_DEGENERATE_PIVOTS: usize = 200;

/// Simplex state: basis, its inverse and the basic values. Variables below `rows` are the slacks.
#[derive(Debug, Clone)]
pub(crate) struct Simplex {
    rows: usize,
    rhs: Vec<f64>,
    columns: Vec<Column>,
    excluded: Vec<bool>,
    basis: Vec<usize>,
    basic: Vec<bool>,
    inverse: Vec<f64>,
    values: Vec<f64>,
    pivots_since_refactor: usize,
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
            excluded: vec![false; rows],
            basis: (0..rows).collect(),
            basic: vec![true; rows],
            inverse,
            pivots_since_refactor: 0,
        }
    }

    pub(crate) fn add(&mut self, column: Column) -> usize {
        self.columns.push(column);
        self.excluded.push(false);
        self.basic.push(false);
        self.columns.len() - 1
    }

    /// Replaces the objective.
    pub(crate) fn set_gains(&mut self, gain: impl Fn(usize) -> f64) {
        self.columns.iter_mut().enumerate().for_each(|(i, column)| column.gain = gain(i));
    }

    /// Value of every column.
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

    /// Cost of a column's entries at these prices.
    pub(crate) fn cost(&self, column: usize, prices: &[f64]) -> f64 {
        self.columns[column].entries.iter().map(|&(row, a)| prices[row] * a).sum()
    }

    /// Dual prices: value of one more unit of each right-hand side.
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

    /// Excludes every variable with a negative reduced gain, so that a second objective only breaks ties
    /// (lexicographic optimisation).
    pub(crate) fn restrict_to_optimal_face(&mut self) {
        let prices = self.prices();
        let scale = self.columns.iter().map(|c| c.gain.abs()).fold(1e-300, f64::max);
        for (i, price) in prices.iter().enumerate() {
            self.excluded[i] = !self.basic[i] && *price > 1e-9 * scale;
        }
        for (i, column) in self.columns.iter().enumerate() {
            let variable = self.rows + i;
            self.excluded[variable] =
                !self.basic[variable] && self.reduced_gain(column, &prices) < -1e-9 * scale;
        }
    }

    fn gain(&self, variable: usize) -> f64 {
        if variable < self.rows { 0.0 } else { self.columns[variable - self.rows].gain }
    }

    fn reduced_gain(&self, column: &Column, prices: &[f64]) -> f64 {
        column.gain - column.entries.iter().map(|&(row, a)| prices[row] * a).sum::<f64>()
    }

    /// Pivots until no column gains.
    pub(crate) fn solve(&mut self) -> Result<(), SimplexFailure> {
        let limit = 50 * (self.rows + 20) + 4 * self.columns.len();
        let scale = self.columns.iter().map(|c| c.gain.abs()).fold(1e-300, f64::max);
        let (mut degenerate, mut dual_steps) = (0, 0);
        for _ in 0..limit {
            let prices = self.prices();
            let Some(entering) =
                self.entering_variable(&prices, 1e-13 * scale, degenerate > MAX_DEGENERATE_PIVOTS)
            else {
                // Optimality is decided only on a fresh inverse, which may show that the basis is primal infeasible;
                // dual steps repair that.
                if self.pivots_since_refactor > 0 {
                    self.refactor();
                } else if !self.dual_step(&prices, 1e-12 * scale)? {
                    return Ok(());
                } else if dual_steps < self.rows {
                    dual_steps += 1;
                } else {
                    return Err(SimplexFailure::Infeasible);
                }
                continue;
            };
            let direction = self.direction(entering);
            let (leaving, step) = self
                .ratio_test(&direction, degenerate > MAX_DEGENERATE_PIVOTS)
                .ok_or(SimplexFailure::Unbounded)?;
            degenerate = if step > 0.0 { 0 } else { degenerate + 1 };
            self.pivot(entering, leaving, step, &direction);
        }
        Err(SimplexFailure::TooManyPivots)
    }

    /// Entering variable: largest reduced gain, or the first positive one under Bland's rule.
    fn entering_variable(&self, prices: &[f64], tolerance: f64, bland: bool) -> Option<usize> {
        let mut best = (tolerance, None);
        for (i, &price) in prices.iter().enumerate() {
            if !self.basic[i] && !self.excluded[i] && -price > best.0 {
                best = (-price, Some(i));
                if bland {
                    return best.1;
                }
            }
        }
        for (i, column) in self.columns.iter().enumerate() {
            if !self.excluded[self.rows + i] && !self.basic[self.rows + i] {
                let gain = self.reduced_gain(column, prices);
                if gain > best.0 {
                    best = (gain, Some(self.rows + i));
                    if bland {
                        return best.1;
                    }
                }
            }
        }
        best.1
    }

    /// Dual simplex step: replaces the most negative basic variable by the one that lowers the objective least;
    /// returns whether there was one. Nearly parallel columns make bases that look feasible until their inverse is
    /// fresh.
    fn dual_step(&mut self, prices: &[f64], tie: f64) -> Result<bool, SimplexFailure> {
        let below = self.values.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((leaving, _)) =
            below.filter(|(_, value)| **value < -NEGATIVE_TOLERANCE * largest(&self.rhs))
        else {
            return Ok(false);
        };
        let row = &self.inverse[leaving * self.rows..(leaving + 1) * self.rows];
        let slacks = (0..self.rows).map(|i| (i, row[i], prices[i]));
        let columns = self.columns.iter().enumerate().map(|(i, column)| {
            let moves = column.entries.iter().map(|&(j, a)| row[j] * a).sum::<f64>();
            (self.rows + i, moves, -self.reduced_gain(column, prices))
        });
        let free = slacks.chain(columns).filter(|(v, ..)| !self.basic[*v] && !self.excluded[*v]);
        let mut raising: Vec<(usize, f64, f64)> = free.filter(|(_, moves, _)| *moves < 0.0).collect();
        let most = raising.iter().map(|(_, moves, _)| -moves).fold(0.0, f64::max);
        raising.retain(|(_, moves, _)| -moves > PIVOT_TOLERANCE * most);
        // Ratio test with tolerance (Harris): among ties the largest pivot wins, for stability.
        let least = raising
            .iter()
            .map(|(_, moves, cost)| (cost.max(0.0) + tie) / -moves)
            .fold(f64::INFINITY, f64::min);
        let tied = raising.iter().filter(|(_, moves, cost)| cost.max(0.0) / -moves <= least);
        let &(entering, ..) = tied.min_by(|a, b| a.1.total_cmp(&b.1)).ok_or(SimplexFailure::Infeasible)?;
        let direction = self.direction(entering);
        self.pivot(entering, leaving, self.values[leaving] / direction[leaving], &direction);
        Ok(true)
    }

    /// Entering column in terms of the basis.
    fn direction(&self, variable: usize) -> Vec<f64> {
        let m = self.rows;
        if variable < m {
            return (0..m).map(|i| self.inverse[i * m + variable]).collect();
        }
        let entries = &self.columns[variable - m].entries;
        (0..m).map(|i| entries.iter().map(|&(row, a)| self.inverse[i * m + row] * a).sum()).collect()
    }

    /// Primal ratio test: leaving row and step length. Ties go to the largest pivot, or to the lowest variable under
    /// Bland's rule.
    fn ratio_test(&self, direction: &[f64], bland: bool) -> Option<(usize, f64)> {
        let largest = direction.iter().fold(0.0_f64, |a, d| a.max(d.abs()));
        let pivots = |d: f64| d > PIVOT_TOLERANCE * largest;
        let step = direction
            .iter()
            .zip(&self.values)
            .filter(|(d, _)| pivots(**d))
            .map(|(d, v)| v.max(0.0) / d)
            .min_by(f64::total_cmp)?;
        let tied = |(d, v): (&f64, &f64)| pivots(*d) && v.max(0.0) / d <= step * (1.0 + 1e-12) + 1e-15;
        let candidates = (0..self.rows).filter(|&i| tied((&direction[i], &self.values[i])));
        let row = if bland {
            candidates.min_by_key(|&i| self.basis[i])
        } else {
            candidates.max_by(|&a, &b| direction[a].total_cmp(&direction[b]))
        };
        row.map(|row| (row, step))
    }

    /// Exchanges two variables and updates the inverse by one elimination step.
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
        self.pivots_since_refactor += 1;
        if self.pivots_since_refactor >= PIVOTS_PER_REFACTOR {
            self.refactor();
        }
    }

    /// Inverts the basis anew, so that rounding errors do not accumulate.
    pub(crate) fn refactor(&mut self) {
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
        self.pivots_since_refactor = 0;
        if let Some(inverse) = invert(matrix, m) {
            self.inverse = inverse;
            self.values = vec![0.0; m];
            // Iterative refinement: the inverse of a nearly singular basis has few correct digits, so the residual is
            // solved for again.
            let (mut residual, mut worst) = (self.rhs.clone(), f64::INFINITY);
            for _ in 0..MAX_REFINEMENTS {
                let mut values = self.values.clone();
                for (value, row) in values.iter_mut().zip(self.inverse.chunks_exact(m)) {
                    *value += row.iter().zip(&residual).map(|(b, r)| b * r).sum::<f64>();
                }
                let next = self.residual(&values);
                if largest(&next) >= worst {
                    break;
                }
                worst = largest(&next);
                (self.values, residual) = (values, next);
            }
        }
    }

    /// Right-hand side minus what the basic values use.
    fn residual(&self, values: &[f64]) -> Vec<f64> {
        let mut residual = self.rhs.clone();
        for (&variable, &value) in self.basis.iter().zip(values) {
            if variable < self.rows {
                residual[variable] -= value;
            } else {
                let entries = &self.columns[variable - self.rows].entries;
                entries.iter().for_each(|&(row, a)| residual[row] -= a * value);
            }
        }
        residual
    }

    /// Largest fraction of the solution that is feasible: below 1 where a row is exceeded by more than rounding.
    pub(crate) fn feasible_fraction(&self) -> f64 {
        let mut used = vec![0.0; self.rows];
        for (column, x) in self.columns.iter().zip(self.solution()) {
            column.entries.iter().for_each(|&(row, a)| used[row] += a * x);
        }
        // A right-hand side may be zero up to rounding.
        let rounding = ROW_TOLERANCE * largest(&self.rhs);
        let part =
            |(used, rhs): (&f64, &f64)| if *used > rhs + rounding { (rhs + rounding) / used } else { 1.0 };
        used.iter().zip(&self.rhs).map(part).fold(1.0, f64::min)
    }
}

fn largest(of: &[f64]) -> f64 {
    of.iter().fold(0.0, |most, x| x.abs().max(most))
}

/// Inverse of a square matrix by Gauss-Jordan elimination with row pivoting; `None` if singular.
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

    /// A basis that is infeasible and cannot be repaired must not pass for an optimum.
    #[test]
    fn an_infeasible_basis_is_not_reported_optimal() {
        let mut simplex = Simplex::new(vec![1.0, 1.0]);
        simplex.add(Column { gain: 1.0, entries: vec![(0, 1.0), (1, 1.0)] });
        assert_eq!(simplex.solve(), Ok(()));
        simplex.rhs = vec![1.0, -0.5];
        simplex.refactor();
        assert_eq!(simplex.solve(), Err(SimplexFailure::Infeasible));
    }
}
