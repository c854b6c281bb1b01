//! Closed-form response sums within a price region. Where prices move little, nearly every job keeps its types, and
//! the responses of such jobs add up in closed form; the few that might switch are evaluated singly. Responses are
//! exact; prices outside the region are not handled here.

use super::best_response;
use crate::problem::Problem;

/// Sum of responses: gains, log speeds, and usage of each type.
pub(super) struct ResponseSum {
    pub(super) gain: f64,
    pub(super) value: f64,
    pub(super) usage: Vec<f64>,
}

impl ResponseSum {
    pub(super) fn zero(types: usize) -> Self {
        Self { gain: 0.0, value: 0.0, usage: vec![0.0; types] }
    }

    /// Adds a job's own response (`times` 1) or removes it (`times` −1).
    pub(super) fn add_response(&mut self, problem: &Problem, m: usize, prices: &[f64], times: f64) {
        let (response, gpus) =
            (best_response(problem.row(m), prices, problem.gpus[m]), times * problem.gpus[m]);
        self.gain += times * response.gain;
        self.value += times * response.speed.ln();
        self.usage[response.first.0] += gpus * response.first.1;
        self.usage[response.second.0] += gpus * response.second.1;
    }
}

/// Form of a job's response throughout the region.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ResponseKind {
    /// One type, all of the time.
    All(usize),
    /// One type, as much of the time as its price allows.
    Part(usize),
    /// Two types, the fast one for part of the time.
    Two { fast: usize, slow: usize },
}

/// Sums over jobs with the same kind of response.
#[derive(Debug, Clone, Copy, Default)]
struct ResponseGroup {
    jobs: f64,
    /// Σ of the price-independent part of the log speed.
    logs: f64,
    gpus: f64,
    /// Σ s·slow/(fast − slow), for two types.
    lag: f64,
}

/// Box of prices, with the jobs grouped by their response in it.
pub(crate) struct PriceRegion {
    low: Vec<f64>,
    high: Vec<f64>,
    all: Vec<ResponseGroup>,
    part: Vec<ResponseGroup>,
    two: Vec<(usize, usize, ResponseGroup)>,
    settled: Vec<bool>,
    unsettled: Vec<usize>,
}

impl PriceRegion {
    /// Box around these prices, extending `radius` times each.
    pub(super) fn new(problem: &Problem, prices: &[f64], radius: f64) -> Self {
        let k = problem.k;
        let mean = prices.iter().sum::<f64>() / k as f64;
        let extent: Vec<f64> = prices.iter().map(|p| radius * (p + 0.1 * mean)).collect();
        let low: Vec<f64> = prices.iter().zip(&extent).map(|(p, r)| (p - r).max(0.0)).collect();
        let high: Vec<f64> = prices.iter().zip(&extent).map(|(p, r)| p + r).collect();
        let mut two = vec![ResponseGroup::default(); k * k];
        let mut region = Self {
            low,
            high,
            all: vec![ResponseGroup::default(); k],
            part: vec![ResponseGroup::default(); k],
            two: Vec::new(),
            settled: vec![true; problem.n],
            unsettled: Vec::new(),
        };
        for m in 0..problem.n {
            let (speed, gpus) = (problem.row(m), problem.gpus[m]);
            let Some(kind) = region.uniform_response(speed, gpus) else {
                region.settled[m] = false;
                region.unsettled.push(m);
                continue;
            };
            let (group, log, lag) = match kind {
                ResponseKind::All(j) => (&mut region.all[j], speed[j].ln(), 0.0),
                ResponseKind::Part(j) => (&mut region.part[j], (speed[j] / gpus).ln(), 0.0),
                ResponseKind::Two { fast, slow } => {
                    let apart = speed[fast] - speed[slow];
                    (&mut two[fast * k + slow], (apart / gpus).ln(), gpus * speed[slow] / apart)
                }
            };
            group.jobs += 1.0;
            group.logs += log;
            group.gpus += gpus;
            group.lag += lag;
        }
        let named = two.into_iter().enumerate().filter(|(_, group)| group.jobs > 0.0);
        region.two = named.map(|(i, group)| (i / k, i % k, group)).collect();
        region
    }

    /// Prices with one coordinate at its bound: the responses to them confine the search to the region.
    pub(crate) fn corner_prices<'a>(&'a self, prices: &'a [f64]) -> impl Iterator<Item = Vec<f64>> + 'a {
        let moved = |j: usize, price: f64| {
            let mut moved = prices.to_vec();
            moved[j] = price;
            moved
        };
        (0..prices.len()).flat_map(move |j| [moved(j, self.low[j]), moved(j, self.high[j])])
    }

    pub(super) fn contains(&self, prices: &[f64]) -> bool {
        let bounds = self.low.iter().zip(&self.high);
        prices.iter().zip(bounds).all(|(p, (low, high))| low <= p && p <= high)
    }

    /// Sum of all responses except one job's.
    pub(super) fn response(&self, problem: &Problem, prices: &[f64], without: Option<usize>) -> ResponseSum {
        let mut sum = ResponseSum::zero(problem.k);
        for (j, (group, price)) in self.all.iter().zip(prices).enumerate() {
            sum.value += group.logs;
            sum.gain += group.logs - group.gpus * price;
            sum.usage[j] += group.gpus;
        }
        for (j, (group, price)) in self.part.iter().zip(prices).enumerate().filter(|(_, (a, _))| a.jobs > 0.0)
        {
            let value = group.logs - group.jobs * price.ln();
            sum.value += value;
            sum.gain += value - group.jobs;
            sum.usage[j] += group.jobs / price;
        }
        for &(fast, slow, group) in &self.two {
            let dearer = prices[fast] - prices[slow];
            let value = group.logs - group.jobs * dearer.ln();
            let on_fast = group.jobs / dearer - group.lag;
            sum.value += value;
            sum.gain += value - group.jobs - group.gpus * prices[slow] + dearer * group.lag;
            sum.usage[fast] += on_fast;
            sum.usage[slow] += group.gpus - on_fast;
        }
        for &m in self.unsettled.iter().filter(|m| Some(**m) != without) {
            sum.add_response(problem, m, prices, 1.0);
        }
        if let Some(m) = without.filter(|&m| self.settled[m]) {
            sum.add_response(problem, m, prices, -1.0);
        }
        sum
    }

    /// Kind of response of a job throughout the region, if it is the same everywhere.
    fn uniform_response(&self, speed: &[f64], gpus: f64) -> Option<ResponseKind> {
        let (low, high) = (&self.low, &self.high);
        // A kind is the response everywhere if its value at the highest prices exceeds every other's at the lowest.
        let mut best = None::<(f64, ResponseKind, bool)>;
        let mut kinds = Vec::with_capacity(speed.len() * speed.len());
        let mut consider = |kind: ResponseKind, uniform: bool, least: f64, most: f64| {
            kinds.push((kind, most));
            if best.is_none_or(|(most, ..)| least > most) {
                best = Some((least, kind, uniform));
            }
        };
        for (j, &fast) in speed.iter().enumerate().filter(|(_, speed)| **speed > 0.0) {
            let kind = if gpus * low[j] >= 1.0 { ResponseKind::Part(j) } else { ResponseKind::All(j) };
            let uniform = gpus * low[j] >= 1.0 || gpus * high[j] <= 1.0;
            consider(kind, uniform, alone(fast, gpus * high[j]), alone(fast, gpus * low[j]));
            for (i, &slow) in speed.iter().enumerate().filter(|(_, slow)| **slow > 0.0 && **slow < fast) {
                let (nearest, furthest) = (low[j] - high[i], high[j] - low[i]);
                let share = |dearer: f64| {
                    if dearer > 0.0 { 1.0 / (gpus * dearer) - slow / (fast - slow) } else { 2.0 }
                };
                let (most, least) = (share(nearest), share(furthest));
                if most <= 0.0 || least >= 1.0 {
                    continue;
                }
                let mixed = |prices: &[f64]| {
                    let share = share(prices[j] - prices[i]).clamp(0.0, 1.0);
                    let cost = prices[i] + (prices[j] - prices[i]) * share;
                    (slow + (fast - slow) * share).ln() - gpus * cost
                };
                consider(
                    ResponseKind::Two { fast: j, slow: i },
                    least > 0.0 && most < 1.0,
                    mixed(high),
                    mixed(low),
                );
            }
        }
        let (least, chosen, uniform) = best?;
        // All of the time on either of two types is never better than their best mix.
        let within = |kind: &ResponseKind| match (chosen, *kind) {
            (ResponseKind::Two { fast, slow }, ResponseKind::All(j)) => {
                (j == fast || j == slow) && gpus * high[j] <= 1.0
            }
            _ => false,
        };
        let beaten = kinds.iter().all(|(kind, most)| *kind == chosen || within(kind) || *most < least);
        (uniform && beaten).then_some(chosen)
    }
}

/// Gain of one type at `price` for all of the job's GPUs.
fn alone(speed: f64, price: f64) -> f64 {
    if price >= 1.0 { (speed / price).ln() - 1.0 } else { speed.ln() - price }
}
