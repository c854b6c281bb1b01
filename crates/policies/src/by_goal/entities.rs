//! Entities from projects: a project is an organisation, and `a/b` is part of `a`, to any depth. Weights and policies
//! among siblings come from a policy parameter.

use std::collections::BTreeMap;
use warpyard_allocate::{Entities, EntityPolicy};

/// Name of the sub-entity for an organisation's own jobs.
const ITSELF: &str = ".";

/// Largest weight; its inverse is the smallest. Shares beyond would be meaningless.
const MAX_WEIGHT: f64 = 1e6;

/// Weights and policies of organisations.
#[derive(Debug, Default, PartialEq)]
pub(super) struct EntityConfig {
    /// Policy of organisations without one of their own.
    fifo: bool,
    configured: BTreeMap<String, (f64, Option<EntityPolicy>)>,
}

/// Organisation: its jobs, by index, and its parts.
#[derive(Default)]
struct Organisation {
    jobs: Vec<u64>,
    parts: BTreeMap<String, Organisation>,
}

/// Error in the parameter text, if any.
pub(super) fn fault(text: &str) -> Option<String> {
    parse(text).err()
}

fn parse(text: &str) -> Result<BTreeMap<String, (f64, Option<EntityPolicy>)>, String> {
    let mut configured = BTreeMap::new();
    for part in text.split('+').map(str::trim).filter(|part| !part.is_empty()) {
        let mut words = part.split('=').map(str::trim);
        let name = words.next().unwrap_or_default();
        let (weight, rule) = (words.next(), words.next());
        let (Some(weight), None) = (weight.filter(|_| !name.is_empty()), words.next()) else {
            return Err(format!("'{part}' is not of the form NAME=WEIGHT or NAME=WEIGHT=fair|fifo"));
        };
        let number = weight.parse().ok().filter(|w: &f64| (1.0 / MAX_WEIGHT..=MAX_WEIGHT).contains(w));
        let number =
            number.ok_or_else(|| format!("{name}: '{weight}' is not a weight between 1e-6 and 1e6"))?;
        let rule = match rule {
            None => None,
            Some("fair") => Some(EntityPolicy::Fair),
            Some("fifo") => Some(EntityPolicy::Fifo),
            Some(other) => return Err(format!("{name}: '{other}' is not one of fair, fifo")),
        };
        if configured.insert(path(name).join("/"), (number, rule)).is_some() {
            return Err(format!("{name} is configured twice"));
        }
    }
    Ok(configured)
}

/// Components of an organisation's name.
fn path(name: &str) -> Vec<&str> {
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ITSELF).collect();
    if parts.is_empty() { vec![name] } else { parts }
}

impl EntityConfig {
    /// Configuration from validated parameters.
    pub(super) fn new(inside: &str, organisations: &str) -> EntityConfig {
        EntityConfig { fifo: inside == "fifo", configured: parse(organisations).unwrap_or_default() }
    }

    /// Entities of jobs by the names of their organisations, in order.
    pub(super) fn entities(&self, whose: impl Iterator<Item = String>) -> Entities {
        let mut top = Organisation::default();
        for (place, name) in (0..).zip(whose) {
            let into = path(&name)
                .into_iter()
                .fold(&mut top, |within, part| within.parts.entry(part.to_owned()).or_default());
            into.jobs.push(place);
        }
        self.parts_of(top, "")
    }

    fn parts_of(&self, organisation: Organisation, within: &str) -> Entities {
        let mut all = Entities::default();
        for (name, mut part) in organisation.parts {
            let whole = format!("{within}{name}");
            let (weight, rule) = self.configured.get(&whole).copied().unwrap_or((1.0, None));
            let default_policy = if self.fifo { EntityPolicy::Fifo } else { EntityPolicy::Fair };
            all.weights.insert(name.clone(), weight);
            all.policies.insert(name.clone(), rule.unwrap_or(default_policy));
            if part.parts.is_empty() {
                all.jobs.insert(name, part.jobs);
                continue;
            }
            if !part.jobs.is_empty() {
                let jobs = std::mem::take(&mut part.jobs);
                part.parts.insert(ITSELF.to_owned(), Organisation { jobs, ..Organisation::default() });
            }
            all.entities.insert(name, self.parts_of(part, &format!("{whole}/")));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_parameters_are_named() {
        let wrong = |text: &str| fault(text).unwrap_or_default();
        assert_eq!(fault("vision=2+nlp=1=fifo+nlp/speech=0.5"), None);
        assert_eq!(fault(""), None);
        assert_eq!(wrong("vision"), "'vision' is not of the form NAME=WEIGHT or NAME=WEIGHT=fair|fifo");
        assert_eq!(wrong("=2"), "'=2' is not of the form NAME=WEIGHT or NAME=WEIGHT=fair|fifo");
        assert_eq!(wrong("vision=0"), "vision: '0' is not a weight between 1e-6 and 1e6");
        assert_eq!(wrong("vision=NaN"), "vision: 'NaN' is not a weight between 1e-6 and 1e6");
        assert_eq!(wrong("a=1=lifo"), "a: 'lifo' is not one of fair, fifo");
        assert_eq!(wrong("a/b=1+a//b=2"), "a//b is configured twice");
    }

    #[test]
    fn projects_with_slashes_are_parts_of_others() {
        let entity_config = EntityConfig::new("fair", "nlp=2=fifo+nlp/speech=3");
        let whose = ["ann", "nlp/speech", "nlp", "/nlp/speech", "nlp/text/old/.", "bob"].map(str::to_owned);
        let all = entity_config.entities(whose.into_iter());
        assert_eq!(
            all.weights,
            [("ann", 1.0), ("bob", 1.0), ("nlp", 2.0)].map(|(n, w)| (n.to_owned(), w)).into()
        );
        assert_eq!(all.jobs, [("ann", vec![0]), ("bob", vec![5])].map(|(n, j)| (n.to_owned(), j)).into());
        assert_eq!((all.policies["nlp"], all.policies["ann"]), (EntityPolicy::Fifo, EntityPolicy::Fair));
        let nlp = &all.entities["nlp"];
        let weights = [(".", 1.0), ("speech", 3.0), ("text", 1.0)].map(|(n, w)| (n.to_owned(), w));
        assert_eq!(nlp.weights, weights.into());
        assert_eq!(nlp.jobs, [(".", vec![2]), ("speech", vec![1, 3])].map(|(n, j)| (n.to_owned(), j)).into());
        assert_eq!(nlp.entities["text"].jobs, [("old".to_owned(), vec![4])].into());
    }
}
