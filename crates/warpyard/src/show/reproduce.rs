//! `reproduce`: published figures beside ours.

use super::{Align, Cell, Paint, Screen, Table};
use warpyard_api::text::escape_controls;
use warpyard_sim::reproduce::{Row, Verdict};

/// The table with its verdicts, and what is to be said about it; under its name where others follow.
pub(crate) fn table(heading: Option<&str>, rows: &[Row], notes: &[String], screen: &Screen) -> String {
    let right = |heading| (heading, Align::Right);
    let mut table = Table::new([
        ("ROW", Align::Left),
        right("PUBLISHED"),
        right("OURS"),
        right("LOW"),
        right("HIGH"),
        ("VERDICT", Align::Left),
    ]);
    let number = |value: f64| format!("{value:.3}");
    for row in rows {
        let paint = match row.verdict {
            Verdict::NoPublishedFigure => Paint::Dim,
            Verdict::Agrees => Paint::Green,
            Verdict::Differs(_) => Paint::Red,
        };
        // A figure that we took from the authors' program ourselves is shown, but is not a published one.
        let verdict = match row.reference {
            Some(reference) => format!("{}; the authors' program gave {reference:.3}", row.verdict),
            None => row.verdict.to_string(),
        };
        table.row([
            (&row.row).into(),
            row.published.map(number).unwrap_or_default().into(),
            number(row.ours).into(),
            number(row.low).into(),
            number(row.high).into(),
            Cell::new(&verdict, paint),
        ]);
    }
    let notes = notes.iter().map(|note| format!("- {}\n", escape_controls(note))).collect::<String>();
    let apart = if notes.is_empty() { "" } else { "\n" };
    match heading {
        Some(heading) => {
            format!(
                "{}\n{}{apart}{notes}\n",
                screen.paint(&escape_controls(heading), Paint::Bold),
                table.render(screen)
            )
        }
        None => table.render(screen) + apart + &notes,
    }
}
