//! How data travels between machines, checked, and with what ranks need of it.

use super::{InstanceError, is_amount, name};

/// How data travels between machines. Within one machine it costs nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Links {
    /// Every pair of machines is alike: an edge's `data` already is its transfer time.
    Uniform,
    /// A transfer from machine `a` to machine `b` takes `latency[a * p + b] + data / bandwidth[a * p + b]`.
    Pairs {
        /// Row-major, one row per sending machine; the diagonal is ignored.
        latency: Vec<f64>,
        /// Row-major, one row per sending machine; the diagonal is ignored.
        bandwidth: Vec<f64>,
    },
}

/// Link tables as planners use them: the diagonal costs nothing by construction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PairTable {
    pub(crate) latency: Vec<f64>,
    pub(crate) bandwidth: Vec<f64>,
    pub(super) mean_latency: f64,
    pub(super) mean_bandwidth: f64,
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
        Ok(Some(Self { latency, bandwidth, mean_latency: sum_latency / pairs, mean_bandwidth }))
    }
}
