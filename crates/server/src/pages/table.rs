//! The query of a table page (filter, search text, order, page number) and the heads of its columns.

use super::format::escape;
use serde::Deserialize;

/// The query string of a table page.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TableQuery {
    #[serde(default)]
    pub(super) user: String,
    #[serde(default)]
    pub(super) q: String,
    #[serde(default)]
    pub(super) state: String,
    /// The column to sort by; a leading `-` reverses the order.
    #[serde(default)]
    pub(super) sort: String,
    #[serde(default)]
    pub(super) page: usize,
}

impl TableQuery {
    pub(super) fn is_filtered(&self) -> bool {
        !self.user.is_empty() || !self.q.is_empty() || !self.state.is_empty()
    }

    /// Whether neither a filter nor an order is set.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_filtered() && self.sort.is_empty()
    }

    /// The same query on another page, with control characters escaped for display.
    pub(super) fn escaped(&self, page: usize) -> TableQuery {
        let TableQuery { user, q, state, sort, .. } = self;
        TableQuery { user: escape(user), q: escape(q), state: escape(state), sort: escape(sort), page }
    }

    /// The column to sort by, and whether in descending order.
    pub(super) fn order(&self) -> (&str, bool) {
        match self.sort.strip_prefix('-') {
            Some(column) => (column, true),
            None => (&self.sort, false),
        }
    }

    /// The address of another page of the same table.
    pub(super) fn at_page(&self, page: &usize) -> String {
        self.address(&self.sort, *page)
    }

    fn address(&self, sort: &str, page: usize) -> String {
        let page = if page > 1 { page.to_string() } else { String::new() };
        let fields =
            [("user", &*self.user), ("state", &self.state), ("q", &self.q), ("sort", sort), ("page", &page)];
        let some = fields.iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = some.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        format!("?{}", pairs.join("&"))
    }

    /// The heads of columns.
    pub(super) fn heads(&self, columns: &[Column]) -> Vec<Head> {
        let (by, down) = self.order();
        let head = |&Column { name, key, number, choice }: &Column| {
            let here = !key.is_empty() && by == key;
            let next = match (here, down) {
                (true, false) => format!("-{key}"),
                (true, true) => String::new(),
                (false, _) => key.to_owned(),
            };
            Head {
                name,
                number,
                choice,
                sorted: here.then_some(if down { "descending" } else { "ascending" }),
                link: (!key.is_empty()).then(|| self.address(&next, 1)),
            }
        };
        columns.iter().map(head).collect()
    }
}

/// A column of a table.
#[derive(Clone, Copy)]
pub(super) struct Column {
    name: &'static str,
    /// The key in the address that sorts by it; empty where it cannot be sorted by.
    key: &'static str,
    number: bool,
    choice: Option<bool>,
}

impl Column {
    pub(super) const fn text(name: &'static str, key: &'static str) -> Column {
        Column { name, key, number: false, choice: None }
    }

    pub(super) const fn number(name: &'static str, key: &'static str) -> Column {
        Column { name, key, number: true, choice: None }
    }

    /// Makes it a column that readers may show or hide; `shown` by default.
    pub(super) const fn choosable(self, shown: bool) -> Column {
        Column { choice: Some(shown), ..self }
    }
}

/// The head of a column.
pub(super) struct Head {
    pub(super) name: &'static str,
    pub(super) number: bool,
    /// Whether it is shown by default; `None` where it always is.
    pub(super) choice: Option<bool>,
    pub(super) sorted: Option<&'static str>,
    pub(super) link: Option<String>,
}

impl Head {
    /// The CSS class of its cells.
    pub(super) fn class(&self) -> String {
        let column = self.name.replace([' ', '-'], "");
        format!("c-{column}{}", if self.number { " n" } else { "" })
    }

    pub(super) fn arrow(&self) -> &'static str {
        match self.sorted {
            Some("ascending") => " ↑",
            Some(_) => " ↓",
            None => "",
        }
    }
}

/// Percent-encodes a text for an address.
pub(super) fn encoded(text: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => (b as char).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_sorts_up_then_down_then_not() {
        let at = |sort: &str| {
            let query = TableQuery { sort: sort.into(), user: "a&b".into(), ..TableQuery::default() };
            query.heads(&[Column::text("user", "user")])[0].link.clone().expect("a link")
        };
        assert_eq!(at(""), "?user=a%26b&sort=user");
        assert_eq!(at("user"), "?user=a%26b&sort=-user");
        assert_eq!(at("-user"), "?user=a%26b");
    }
}
