//! Who belongs to whom: projects are organisations, those called `a/b` part of those called `a`, to any depth; what each
//! weighs among its siblings and how it shares inside is said by a parameter of the policy.

use std::collections::BTreeMap;
use warpyard_allocate::{Entities, Sharing};

/// The jobs of an organisation that are in no part of it: a part of their own.
const ITSELF: &str = ".";

/// The largest weight, and the smallest as a part of 1: beyond it shares of time mean nothing.
const MOST: f64 = 1e6;

/// What organisations weigh, and how they share inside.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Charter {
    /// How those share of which nothing else is said.
    fifo: bool,
    said: BTreeMap<String, (f64, Option<Sharing>)>,
}

/// An organisation: who is in it, by place, and its parts.
#[derive(Default)]
struct Organisation {
    jobs: Vec<u64>,
    parts: BTreeMap<String, Organisation>,
}

/// What is wrong with what is said of organisations, if anything is.
pub(super) fn fault(text: &str) -> Option<String> {
    parse(text).err()
}

fn parse(text: &str) -> Result<BTreeMap<String, (f64, Option<Sharing>)>, String> {
    let mut said = BTreeMap::new();
    for part in text.split('+').map(str::trim).filter(|part| !part.is_empty()) {
        let mut words = part.split('=').map(str::trim);
        let name = words.next().unwrap_or_default();
        let (weight, rule) = (words.next(), words.next());
        let (Some(weight), None) = (weight.filter(|_| !name.is_empty()), words.next()) else {
            return Err(format!("'{part}' is not of the form NAME=WEIGHT or NAME=WEIGHT=fair|fifo"));
        };
        let number = weight.parse().ok().filter(|w: &f64| (1.0 / MOST..=MOST).contains(w));
        let number =
            number.ok_or_else(|| format!("{name}: '{weight}' is not a weight between 1e-6 and 1e6"))?;
        let rule = match rule {
            None => None,
            Some("fair") => Some(Sharing::Fair),
            Some("fifo") => Some(Sharing::Fifo),
            Some(other) => return Err(format!("{name}: '{other}' is not one of fair, fifo")),
        };
        if said.insert(path(name).join("/"), (number, rule)).is_some() {
            return Err(format!("{name} is said twice"));
        }
    }
    Ok(said)
}

/// The way to an organisation: what is between strokes.
fn path(name: &str) -> Vec<&str> {
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ITSELF).collect();
    if parts.is_empty() { vec![name] } else { parts }
}

impl Charter {
    /// What the parameters say; what they must not was refused before.
    pub(super) fn new(inside: &str, organisations: &str) -> Charter {
        Charter { fifo: inside == "fifo", said: parse(organisations).unwrap_or_default() }
    }

    /// Everyone in the organisation of this name, in order.
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
            let (weight, rule) = self.said.get(&whole).copied().unwrap_or((1.0, None));
            let usual = if self.fifo { Sharing::Fifo } else { Sharing::Fair };
            all.weights.insert(name.clone(), weight);
            all.policies.insert(name.clone(), rule.unwrap_or(usual));
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
    fn what_cannot_be_meant_is_named() {
        let wrong = |text: &str| fault(text).unwrap_or_default();
        assert_eq!(fault("vision=2+nlp=1=fifo+nlp/speech=0.5"), None);
        assert_eq!(fault(""), None);
        assert_eq!(wrong("vision"), "'vision' is not of the form NAME=WEIGHT or NAME=WEIGHT=fair|fifo");
        assert_eq!(wrong("=2"), "'=2' is not of the form NAME=WEIGHT or NAME=WEIGHT=fair|fifo");
        assert_eq!(wrong("vision=0"), "vision: '0' is not a weight between 1e-6 and 1e6");
        assert_eq!(wrong("vision=NaN"), "vision: 'NaN' is not a weight between 1e-6 and 1e6");
        assert_eq!(wrong("a=1=lifo"), "a: 'lifo' is not one of fair, fifo");
        assert_eq!(wrong("a/b=1+a//b=2"), "a//b is said twice");
    }

    #[test]
    fn projects_with_strokes_are_parts_of_others() {
        let charter = Charter::new("fair", "nlp=2=fifo+nlp/speech=3");
        let whose = ["ann", "nlp/speech", "nlp", "/nlp/speech", "nlp/text/old/.", "bob"].map(str::to_owned);
        let all = charter.entities(whose.into_iter());
        assert_eq!(
            all.weights,
            [("ann", 1.0), ("bob", 1.0), ("nlp", 2.0)].map(|(n, w)| (n.to_owned(), w)).into()
        );
        assert_eq!(all.jobs, [("ann", vec![0]), ("bob", vec![5])].map(|(n, j)| (n.to_owned(), j)).into());
        assert_eq!((all.policies["nlp"], all.policies["ann"]), (Sharing::Fifo, Sharing::Fair));
        let nlp = &all.entities["nlp"];
        let weights = [(".", 1.0), ("speech", 3.0), ("text", 1.0)].map(|(n, w)| (n.to_owned(), w));
        assert_eq!(nlp.weights, weights.into());
        assert_eq!(nlp.jobs, [(".", vec![2]), ("speech", vec![1, 3])].map(|(n, j)| (n.to_owned(), j)).into());
        assert_eq!(nlp.entities["text"].jobs, [("old".to_owned(), vec![4])].into());
    }
}
