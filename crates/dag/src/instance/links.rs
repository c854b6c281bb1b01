//! Links between machines, validated, with the means and extremes that ranks and insertion need.

use super::{InstanceError, is_amount, name};

/// Links between machines. A transfer within one machine costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Links {
    /// All pairs of machines alike: an edge's `data` is its transfer time.
    Uniform,
    /// A transfer from machine `a` to machine `b` takes `latency[a * p + b] + data / bandwidth[a * p + b]`.
    Pairs {
        /// Row-major, one row per sending machine; the diagonal is ignored.
        latency: Vec<f64>,
        /// Row-major, one row per sending machine; the diagonal is ignored.
        bandwidth: Vec<f64>,
    },
}

/// Link tables as planners use them: latency 0 and infinite bandwidth on the diagonal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PairTable {
    pub(crate) latency: Vec<f64>,
    pub(crate) bandwidth: Vec<f64>,
    /// Extremes of each sending machine's links.
    pub(crate) ranges: Vec<LinkRange>,
    pub(super) mean_latency: f64,
    pub(super) mean_bandwidth: f64,
}

/// Least and greatest latency and bandwidth of one machine's links to the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LinkRange {
    latency: (f64, f64),
    bandwidth: (f64, f64),
}

impl LinkRange {
    pub(super) fn of_each(machines: usize, latency: &[f64], bandwidth: &[f64]) -> Vec<Self> {
        let rows = latency.chunks_exact(machines).zip(bandwidth.chunks_exact(machines));
        rows.enumerate().map(|(from, (latency, bandwidth))| Self::of(from, latency, bandwidth)).collect()
    }

    fn of(from: usize, latency: &[f64], bandwidth: &[f64]) -> Self {
        let range = |row: &[f64]| {
            let others = row.iter().enumerate().filter(|(to, _)| *to != from).map(|(_, value)| *value);
            others.fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)))
        };
        Self { latency: range(latency), bandwidth: range(bandwidth) }
    }

    /// Earliest arrival on any other machine of data sent at `sent`. Monotone rounding keeps it at most every exact
    /// arrival.
    #[inline]
    pub(crate) fn soonest(&self, sent: f64, data: f64) -> f64 {
        sent + (self.latency.0 + data / self.bandwidth.1)
    }

    /// Latest arrival on any other machine of data sent at `sent`. Monotone rounding keeps it at least every exact
    /// arrival.
    #[inline]
    pub(crate) fn latest(&self, sent: f64, data: f64) -> f64 {
        sent + (self.latency.1 + data / self.bandwidth.0)
    }
}

impl PairTable {
    pub(super) fn new(
        links: Links,
        machines: usize,
        names: &[String],
    ) -> Result<Option<Self>, InstanceError> {
        let Links::Pairs { mut latency, mut bandwidth } = links else { return Ok(None) };
        for (table, entries) in [("latency", &latency), ("bandwidth", &bandwidth)] {
            if entries.len() != machines * machines {
                return Err(InstanceError::LinkShape { table, found: entries.len(), machines });
            }
        }
        let (mut sum_latency, mut sum_bandwidth) = (0.0, 0.0);
        for at in 0..machines * machines {
            let (from, to) = (at / machines, at % machines);
            if from == to {
                (latency[at], bandwidth[at]) = (0.0, f64::INFINITY);
                continue;
            }
            let bad = |table, value| InstanceError::BadLink {
                table,
                from: name(names, from).into_owned(),
                to: name(names, to).into_owned(),
                value,
            };
            if !is_amount(latency[at]) {
                return Err(bad("latency", latency[at]));
            }
            if bandwidth[at].is_nan() || bandwidth[at] <= 0.0 {
                return Err(bad("bandwidth", bandwidth[at]));
            }
            sum_latency += latency[at];
            sum_bandwidth += bandwidth[at];
        }
        let pairs = (machines * (machines - 1)).max(1) as f64;
        let mean_bandwidth = if machines == 1 { f64::INFINITY } else { sum_bandwidth / pairs };
        let ranges = LinkRange::of_each(machines, &latency, &bandwidth);
        Ok(Some(Self { latency, bandwidth, ranges, mean_latency: sum_latency / pairs, mean_bandwidth }))
    }
}
