//! `reproduce`: published figures beside ours.

use super::{Align, Cell, Paint, Screen, Table};
use warpyard_sim::reproduce::Row;

/// The table with its verdicts.
pub(crate) fn table(rows: &[Row], screen: &Screen) -> String {
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
        let paint = if row.verdict == "holds" { Paint::Green } else { Paint::Red };
        table.row([
            (&row.row).into(),
            row.published.map(number).unwrap_or_default().into(),
            number(row.ours).into(),
            number(row.low).into(),
            number(row.high).into(),
            Cell::new(&row.verdict, paint),
        ]);
    }
    table.render(screen)
}
