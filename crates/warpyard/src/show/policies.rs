//! `policies` and `policy`: what can be chosen, and one of them in full.

use super::{Align, Cell, Paint, Screen, Table};
use std::fmt::Write;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::PolicyView;

/// The policies by group, each with when to choose it; the one in force has a star.
pub(crate) fn table(policies: &[PolicyView], screen: &Screen) -> String {
    let mut groups: Vec<(&str, Vec<&PolicyView>)> = Vec::new();
    for policy in policies {
        match groups.iter_mut().find(|(title, _)| *title == policy.group) {
            Some((_, members)) => members.push(policy),
            None => groups.push((&policy.group, vec![policy])),
        }
    }
    // One table for all, so that the columns of the groups line up.
    let mut table = Table::new([("", Align::Left), ("POLICY", Align::Left), ("WHEN TO USE IT", Align::Left)]);
    for policy in groups.iter().flat_map(|(_, members)| members) {
        let (mark, paint) = if policy.active { ("*", Paint::Green) } else { ("", Paint::Plain) };
        let when = if policy.when.is_empty() { &policy.summary } else { &policy.when };
        table.row([Cell::new(mark, paint), Cell::new(&policy.name, paint), when.into()]);
    }
    let rendered = table.render(screen);
    let mut lines = rendered.lines();
    let mut out = format!("{}\n", lines.next().unwrap_or_default());
    for (title, members) in &groups {
        if !title.is_empty() {
            writeln!(out, "{}", screen.paint(&escape_controls(title), Paint::Bold))
                .expect("a string takes all");
        }
        for line in lines.by_ref().take(members.len()) {
            writeln!(out, "{line}").expect("a string takes all");
        }
    }
    out.push_str("`warpyard policy show NAME` has its parameters and source.\n");
    out
}

/// One policy with its parameters.
pub(crate) fn detail(policy: &PolicyView, screen: &Screen) -> String {
    let in_use = if policy.active { "  (in force)" } else { "" };
    let mut out = format!("{}{in_use}\n", screen.paint(&escape_controls(&policy.name), Paint::Bold));
    for line in [&policy.summary, &policy.when, &policy.source].into_iter().filter(|line| !line.is_empty()) {
        writeln!(out, "  {}", escape_controls(line)).expect("a string takes all");
    }
    if policy.params.is_empty() {
        return out;
    }
    out.push('\n');
    let mut table = Table::new([
        ("PARAMETER", Align::Left),
        ("VALUE", Align::Right),
        ("DEFAULT", Align::Right),
        ("WHAT IT DOES", Align::Left),
    ]);
    for param in &policy.params {
        let value = param.value.as_ref().map(ToString::to_string).unwrap_or_default();
        table.row([
            (&param.name).into(),
            value.into(),
            param.default.to_string().into(),
            (&param.summary).into(),
        ]);
    }
    out.push_str(&table.render(screen));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_policy_is_shown_with_what_can_be_set() {
        let policies: Vec<PolicyView> = serde_json::from_value(json!([
            {"name": "fifo", "summary": "strict arrival order", "source": "", "params": [], "active": false, "group": "Arrival"},
            {"name": "short-first", "summary": "shortest timeout first", "source": "a paper", "active": true,
             "group": "Short tasks", "when": "where timeouts are honest",
             "params": [{"name": "beta", "summary": "weight of the timeout", "default": 1.0, "value": 2.0}]},
        ]))
        .unwrap();
        let screen = Screen::for_tests(None);
        insta::assert_snapshot!(table(&policies, &screen) + "\n" + &detail(&policies[1], &screen), @"
           POLICY       WHEN TO USE IT
        Arrival
           fifo         strict arrival order
        Short tasks
        *  short-first  where timeouts are honest
        `warpyard policy show NAME` has its parameters and source.

        short-first  (in force)
          shortest timeout first
          where timeouts are honest
          a paper

        PARAMETER  VALUE  DEFAULT  WHAT IT DOES
        beta           2        1  weight of the timeout
        ");
    }
}
