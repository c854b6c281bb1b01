//! Tables the way squeue prints them: a line of headings, columns two spaces apart, and the last column giving way where
//! the terminal is narrow. Widths are those a terminal gives the characters.

use super::{Paint, Screen};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use warpyard_api::text::{escape_controls, truncate};

/// The least a column is squeezed to before the line is let run over.
const NARROWEST: usize = 8;

/// No field has more characters than this, however wide the screen: a table is to be looked at.
const LONGEST: usize = 500;

/// Which side of its column a text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// One field of a row, harmless to print.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>, paint: Paint) -> Self {
        Self { text: truncate(&escape_controls(text.as_ref()), LONGEST).into_owned(), paint }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Paint::Plain)
    }
}

/// A table being filled.
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    /// The column that people's own names are in; the first to give way after the last.
    names: Option<usize>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: impl Into<Vec<(&'static str, Align)>>) -> Self {
        let columns = columns.into();
        let names = columns.iter().position(|(heading, _)| *heading == "NAME");
        Self { columns, names, rows: Vec::new() }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.row_of(cells.into());
    }

    /// A row of as many cells as there are columns.
    pub(crate) fn row_of(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// The whole table with its headings.
    pub(crate) fn render(&self, screen: &Screen) -> String {
        self.render_page(screen, &mut None)
    }

    /// A page of a table that goes on from page to page: headings on the first, whose widths the next are given, and columns
    /// that only ever grow.
    pub(crate) fn render_page(&self, screen: &Screen, before: &mut Option<Vec<usize>>) -> String {
        let mut widths = self.widths(screen.width);
        let headings = self.columns.iter().map(|(heading, _)| Cell::new(heading, Paint::Dim)).collect();
        let headings = Some(&headings).filter(|_| before.is_none());
        for (width, before) in widths.iter_mut().zip(before.take().into_iter().flatten()) {
            *width = before.max(*width);
        }
        let mut out = String::new();
        for row in headings.into_iter().chain(&self.rows) {
            let start = out.len();
            for (i, cell) in row.iter().enumerate() {
                if i > 0 {
                    out.push_str("  ");
                }
                let text = fitted(&cell.text, widths[i]);
                let space = " ".repeat(widths[i].saturating_sub(text.width()));
                let painted = screen.paint(&text, cell.paint);
                match self.columns[i].1 {
                    Align::Left => out.extend([painted.as_ref(), &space]),
                    Align::Right => out.extend([&space, painted.as_ref()]),
                }
            }
            out.truncate(start + out[start..].trim_end().len());
            out.push('\n');
        }
        *before = Some(widths);
        out
    }

    fn widths(&self, screen: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<_> = self.columns.iter().map(|(heading, _)| heading.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let Some(screen) = screen else { return widths };
        for i in [widths.len().checked_sub(1), self.names].into_iter().flatten() {
            let total: usize = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
            let over = total.saturating_sub(screen);
            widths[i] = widths[i].saturating_sub(over).max(NARROWEST.min(widths[i]));
        }
        widths
    }
}

/// The text cut to a width, with a mark where it was cut.
pub(super) fn fitted(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([("ID", Align::Right), ("NAME", Align::Left), ("WHY", Align::Left)]);
        table.row(["7".into(), "列車".into(), "needs 2 GPUs on one worker".into()]);
        table.row(["412".into(), "bell\u{7}".into(), "".into()]);
        table
    }

    #[test]
    fn columns_line_up_whatever_is_in_them() {
        insta::assert_snapshot!(table().render(&Screen::for_tests(None)), @r"
         ID  NAME       WHY
          7  列車       needs 2 GPUs on one worker
        412  bell\u{7}
        ");
    }

    #[test]
    fn a_narrow_terminal_cuts_the_last_column_first_and_names_after_it() {
        insta::assert_snapshot!(table().render(&Screen::for_tests(Some(26))), @r"
         ID  NAME       WHY
          7  列車       needs 2 G…
        412  bell\u{7}
        ");
        insta::assert_snapshot!(table().render(&Screen::for_tests(Some(10))), @r"
         ID  NAME      WHY
          7  列車      needs 2…
        412  bell\u{…
        ");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in 23..50 {
            let text = table().render(&Screen::for_tests(Some(width)));
            assert!(text.lines().all(|line| line.width() <= width), "{width}:\n{text}");
        }
    }

    #[test]
    fn colours_take_no_room() {
        let mut table = Table::new([("ST", Align::Right), ("WHY", Align::Left)]);
        table.row([Cell::new("done", Paint::Green), "x".into()]);
        let screen = Screen { colours: true, ..Screen::for_tests(None) };
        assert_eq!(
            table.render(&screen),
            "  \u{1b}[2mST\u{1b}[0m  \u{1b}[2mWHY\u{1b}[0m\n\u{1b}[32mdone\u{1b}[0m  x\n"
        );
    }
}
