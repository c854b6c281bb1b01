//! Prices of an hour of one GPU, by type, in any currency.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Costs by type in small letters, written `v100=2.48,k80=0.45`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Costs(pub(crate) BTreeMap<String, f64>);

/// A text that says no costs.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is not TYPE=COST with a cost above 0; write v100=2.48,k80=0.45")]
pub(crate) struct BadCost(String);

impl FromStr for Costs {
    type Err = BadCost;

    fn from_str(text: &str) -> Result<Costs, BadCost> {
        let one = |part: &str| {
            let (kind, cost) = part.split_once('=')?;
            let cost: f64 = cost.trim().parse().ok()?;
            let kind = kind.trim().to_ascii_lowercase();
            (!kind.is_empty() && cost.is_finite() && cost > 0.0).then_some((kind, cost))
        };
        let each = text.split(',').map(|part| one(part).ok_or_else(|| BadCost(part.to_owned())));
        each.collect::<Result<_, _>>().map(Costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_and_what_is_none_is_named() {
        let costs: Costs = "V100=2.5, k80=0.5".parse().expect("costs");
        assert_eq!(costs.0, BTreeMap::from([("v100".to_owned(), 2.5), ("k80".to_owned(), 0.5)]));
        for wrong in ["v100", "v100=", "v100=0", "v100=-1", "v100=nan", "=2", "v100=1,"] {
            assert!(wrong.parse::<Costs>().is_err(), "{wrong}");
        }
    }
}
