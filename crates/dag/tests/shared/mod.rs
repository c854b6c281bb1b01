//! Where the shared data is, beside the repository.

/// The text of a shared file of `dag/`; says so and gives nothing where it is absent.
pub(crate) fn text(name: &str) -> Option<String> {
    let path = format!("{}/../../../shared/data/dag/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path)
        .inspect_err(|e| eprintln!("SKIPPED: the shared data is not here: {path}: {e}"))
        .ok()
}
