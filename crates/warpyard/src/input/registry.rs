//! Lookup by name in registries, with suggestions and the list of names on failure.

use crate::usage_error::UsageError;
use warpyard_api::text::closest_match;

/// Finds the entry of a name. `what` is the kind of entry, such as `algorithm`.
pub(crate) fn find_by_name<'a, T>(
    what: &'static str,
    name: &str,
    all: &'a [T],
    name_of: impl Fn(&'a T) -> &'static str,
) -> Result<&'a T, UsageError> {
    all.iter().find(|one| name_of(one) == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(name_of).collect();
        let near = closest_match(name, names.iter().copied());
        let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        UsageError::NoSuchName { what, name: name.to_owned(), near, known: names.join(", ") }
    })
}

/// A list for the help: a heading, then each name with what it does.
pub(crate) fn help_list(heading: &str, rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(name, does)| format!("\n  {name:<width$}  {does}"));
    std::iter::once(format!("{heading}:")).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_told_with_those_there_are() {
        let said =
            |name| find_by_name("goal", name, &["max-min", "cost"], |name| name).unwrap_err().to_string();
        assert_eq!(
            said("max-mni"),
            "no goal is called 'max-mni'; did you mean 'max-min'? (there are max-min, cost)"
        );
        assert_eq!(said("fairness"), "no goal is called 'fairness' (there are max-min, cost)");
    }

    #[test]
    fn a_list_has_its_names_in_a_column() {
        assert_eq!(
            help_list("Goals", [("cost", "cheap".to_owned()), ("max-min", "fair".to_owned())]),
            "Goals:\n  cost     cheap\n  max-min  fair"
        );
    }
}
