//! Everyone's answer to prices near given ones, in a few numbers. Where prices move little, nearly every job goes on with
//! the same types, and what such jobs answer adds up in closed form; the few that might choose otherwise are asked one by
//! one. The answers are exact: prices further away are simply not answered here.

use super::best;
use crate::problem::Problem;

/// What a sum over jobs says: Σ of gains, Σ of log speeds, and what they use of each type.
pub(super) struct Sum {
    pub(super) gain: f64,
    pub(super) value: f64,
    pub(super) usage: Vec<f64>,
}

impl Sum {
    pub(super) fn nothing(types: usize) -> Self {
        Self { gain: 0.0, value: 0.0, usage: vec![0.0; types] }
    }

    /// Counts a job's own answer, `times` 1, or takes it out again, `times` −1.
    pub(super) fn ask(&mut self, problem: &Problem, m: usize, prices: &[f64], times: f64) {
        let (answer, gpus) = (best(problem.row(m), prices, problem.gpus[m]), times * problem.gpus[m]);
        self.gain += times * answer.gain;
        self.value += times * answer.speed.ln();
        self.usage[answer.first.0] += gpus * answer.first.1;
        self.usage[answer.second.0] += gpus * answer.second.1;
    }
}

/// How a job answers, wherever the prices are within the bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// One type, all of its time.
    All(usize),
    /// One type, as much of its time as is worth the price.
    Part(usize),
    /// Two types, the fast one for part of its time.
    Two { fast: usize, slow: usize },
}

/// Sums over jobs that answer the same way.
#[derive(Debug, Clone, Copy, Default)]
struct Alike {
    jobs: f64,
    /// Σ of what the logarithm of the speed is apart from the prices.
    logs: f64,
    gpus: f64,
    /// Σ s·slow/(fast − slow), for two types.
    lag: f64,
}

/// Prices around some centre, and who answers how there.
pub(crate) struct Nearby {
    low: Vec<f64>,
    high: Vec<f64>,
    all: Vec<Alike>,
    part: Vec<Alike>,
    two: Vec<(usize, usize, Alike)>,
    settled: Vec<bool>,
    unsettled: Vec<usize>,
}

impl Nearby {
    /// Around these prices, as far as `radius` times each.
    pub(super) fn new(problem: &Problem, prices: &[f64], radius: f64) -> Self {
        let k = problem.k;
        let mean = prices.iter().sum::<f64>() / k as f64;
        let reach: Vec<f64> = prices.iter().map(|p| radius * (p + 0.1 * mean)).collect();
        let low: Vec<f64> = prices.iter().zip(&reach).map(|(p, r)| (p - r).max(0.0)).collect();
        let high: Vec<f64> = prices.iter().zip(&reach).map(|(p, r)| p + r).collect();
        let mut two = vec![Alike::default(); k * k];
        let mut nearby = Self {
            low,
            high,
            all: vec![Alike::default(); k],
            part: vec![Alike::default(); k],
            two: Vec::new(),
            settled: vec![true; problem.n],
            unsettled: Vec::new(),
        };
        for m in 0..problem.n {
            let (speed, gpus) = (problem.row(m), problem.gpus[m]);
            let Some(way) = nearby.way(speed, gpus) else {
                nearby.settled[m] = false;
                nearby.unsettled.push(m);
                continue;
            };
            let (alike, log, lag) = match way {
                Way::All(j) => (&mut nearby.all[j], speed[j].ln(), 0.0),
                Way::Part(j) => (&mut nearby.part[j], (speed[j] / gpus).ln(), 0.0),
                Way::Two { fast, slow } => {
                    let apart = speed[fast] - speed[slow];
                    (&mut two[fast * k + slow], (apart / gpus).ln(), gpus * speed[slow] / apart)
                }
            };
            alike.jobs += 1.0;
            alike.logs += log;
            alike.gpus += gpus;
            alike.lag += lag;
        }
        let named = two.into_iter().enumerate().filter(|(_, alike)| alike.jobs > 0.0);
        nearby.two = named.map(|(i, alike)| (i / k, i % k, alike)).collect();
        nearby
    }

    /// Prices of which one is as low or as high as within the bounds: between what everyone answers to them, a search stays.
    pub(crate) fn ends<'a>(&'a self, prices: &'a [f64]) -> impl Iterator<Item = Vec<f64>> + 'a {
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

    /// Everyone's answer, but for one job's.
    pub(super) fn answer(&self, problem: &Problem, prices: &[f64], without: Option<usize>) -> Sum {
        let mut sum = Sum::nothing(problem.k);
        for (j, (alike, price)) in self.all.iter().zip(prices).enumerate() {
            sum.value += alike.logs;
            sum.gain += alike.logs - alike.gpus * price;
            sum.usage[j] += alike.gpus;
        }
        for (j, (alike, price)) in self.part.iter().zip(prices).enumerate().filter(|(_, (a, _))| a.jobs > 0.0)
        {
            let value = alike.logs - alike.jobs * price.ln();
            sum.value += value;
            sum.gain += value - alike.jobs;
            sum.usage[j] += alike.jobs / price;
        }
        for &(fast, slow, alike) in &self.two {
            let dearer = prices[fast] - prices[slow];
            let value = alike.logs - alike.jobs * dearer.ln();
            let on_fast = alike.jobs / dearer - alike.lag;
            sum.value += value;
            sum.gain += value - alike.jobs - alike.gpus * prices[slow] + dearer * alike.lag;
            sum.usage[fast] += on_fast;
            sum.usage[slow] += alike.gpus - on_fast;
        }
        for &m in self.unsettled.iter().filter(|m| Some(**m) != without) {
            sum.ask(problem, m, prices, 1.0);
        }
        if let Some(m) = without.filter(|&m| self.settled[m]) {
            sum.ask(problem, m, prices, -1.0);
        }
        sum
    }

    /// How a job answers everywhere within the bounds, if that is one way.
    fn way(&self, speed: &[f64], gpus: f64) -> Option<Way> {
        let (low, high) = (&self.low, &self.high);
        // The way that is best at the worst prices must be better there than any other at the best prices.
        let mut best = None::<(f64, Way, bool)>;
        let mut ways = Vec::with_capacity(speed.len() * speed.len());
        let mut offer = |way: Way, steady: bool, least: f64, most: f64| {
            ways.push((way, most));
            if best.is_none_or(|(best, ..)| least > best) {
                best = Some((least, way, steady));
            }
        };
        for (j, &fast) in speed.iter().enumerate().filter(|(_, speed)| **speed > 0.0) {
            let way = if gpus * low[j] >= 1.0 { Way::Part(j) } else { Way::All(j) };
            let steady = gpus * low[j] >= 1.0 || gpus * high[j] <= 1.0;
            offer(way, steady, alone(fast, gpus * high[j]), alone(fast, gpus * low[j]));
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
                offer(Way::Two { fast: j, slow: i }, least > 0.0 && most < 1.0, mixed(high), mixed(low));
            }
        }
        let (least, chosen, steady) = best?;
        // All of its time on either of two types is no better than the best mix of them.
        let within = |way: &Way| match (chosen, *way) {
            (Way::Two { fast, slow }, Way::All(j)) => (j == fast || j == slow) && gpus * high[j] <= 1.0,
            _ => false,
        };
        let beaten = ways.iter().all(|(way, most)| *way == chosen || within(way) || *most < least);
        (steady && beaten).then_some(chosen)
    }
}

/// What one type is worth to a job of this speed when all its GPUs cost `price` there.
fn alone(speed: f64, price: f64) -> f64 {
    if price >= 1.0 { (speed / price).ln() - 1.0 } else { speed.ln() - price }
}
