//! `policies` and `policy`: what can be chosen, and one of them in full.

use super::{Align, Cell, Paint, Screen, Table};
use std::fmt::Write;
use warpyard_api::text::shown;
use warpyard_api::wire::PolicyView;

/// The table of policies; the one in use has a star.
pub(crate) fn table(policies: &[PolicyView], screen: &Screen) -> String {
    let mut table = Table::new([("", Align::Left), ("POLICY", Align::Left), ("WHAT IT DOES", Align::Left)]);
    for policy in policies {
        let (mark, paint) = if policy.active { ("*", Paint::Green) } else { ("", Paint::Plain) };
        table.row([Cell::new(mark, paint), Cell::new(&policy.name, paint), (&policy.summary).into()]);
    }
    table.render(screen)
}

/// One policy with its parameters.
pub(crate) fn detail(policy: &PolicyView, screen: &Screen) -> String {
    let in_use = if policy.active { "  (in use)" } else { "" };
    let mut out = format!("{}{in_use}\n", screen.paint(&shown(&policy.name), Paint::Bold));
    for line in [&policy.summary, &policy.when, &policy.source].into_iter().filter(|line| !line.is_empty()) {
        writeln!(out, "  {}", shown(line)).expect("a string takes all");
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
            {"name": "fifo", "summary": "strict arrival order", "source": "", "params": [], "active": false},
            {"name": "short-first", "summary": "shortest promised time first", "source": "a paper", "active": true,
             "params": [{"name": "beta", "summary": "weight of the timeout", "default": 1.0, "value": 2.0}]},
        ]))
        .unwrap();
        let screen = Screen::for_tests(None);
        insta::assert_snapshot!(table(&policies, &screen) + "\n" + &detail(&policies[1], &screen), @"
           POLICY       WHAT IT DOES
           fifo         strict arrival order
        *  short-first  shortest promised time first

        short-first  (in use)
          shortest promised time first
          a paper

        PARAMETER  VALUE  DEFAULT  WHAT IT DOES
        beta           2        1  weight of the timeout
        ");
    }
}
