//! What is asked of a table: whom, which state, what text, in what order, which page; and the heads of its columns.

use serde::Deserialize;
use warpyard_api::text::escape_controls;

/// What is asked of a table.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    pub(super) user: String,
    #[serde(default)]
    pub(super) q: String,
    #[serde(default)]
    pub(super) state: String,
    /// The column it is sorted by; with `-` before it, the other way round.
    #[serde(default)]
    pub(super) sort: String,
    #[serde(default)]
    pub(super) page: usize,
}

impl Asked {
    pub(super) fn is_filtered(&self) -> bool {
        !self.user.is_empty() || !self.q.is_empty() || !self.state.is_empty()
    }

    /// Whether nothing in particular is asked for but a page.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_filtered() && self.sort.is_empty()
    }

    /// What is asked, in a form that can be shown.
    pub(super) fn harmless(&self, page: usize) -> Asked {
        let text = |of: &str| escape_controls(of).into_owned();
        let Asked { user, q, state, sort, .. } = self;
        Asked { user: text(user), q: text(q), state: text(state), sort: text(sort), page }
    }

    /// The column it is sorted by, and whether from the largest.
    pub(super) fn order(&self) -> (&str, bool) {
        match self.sort.strip_prefix('-') {
            Some(column) => (column, true),
            None => (&self.sort, false),
        }
    }

    /// The address of the same table at another page.
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
    /// What the address sorts by; empty where it cannot be sorted by.
    key: &'static str,
    number: bool,
    choice: Option<bool>,
}

impl Column {
    pub(super) const fn words(name: &'static str, key: &'static str) -> Column {
        Column { name, key, number: false, choice: None }
    }

    pub(super) const fn number(name: &'static str, key: &'static str) -> Column {
        Column { name, key, number: true, choice: None }
    }

    /// Lets people show or hide it; `escape_controls` until they do.
    pub(super) const fn choosable(self, shown: bool) -> Column {
        Column { choice: Some(shown), ..self }
    }
}

/// The head of a column.
pub(super) struct Head {
    pub(super) name: &'static str,
    pub(super) number: bool,
    /// Whether it is shown until someone chooses; nothing where there is no choice.
    pub(super) choice: Option<bool>,
    pub(super) sorted: Option<&'static str>,
    pub(super) link: Option<String>,
}

impl Head {
    /// The class of its cells.
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

/// A text as part of an address.
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
            let asked = Asked { sort: sort.into(), user: "a&b".into(), ..Asked::default() };
            asked.heads(&[Column::words("user", "user")])[0].link.clone().expect("a link")
        };
        assert_eq!(at(""), "?user=a%26b&sort=user");
        assert_eq!(at("user"), "?user=a%26b&sort=-user");
        assert_eq!(at("-user"), "?user=a%26b");
    }
}
