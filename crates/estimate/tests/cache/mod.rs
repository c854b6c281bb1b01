//! Where `scripts/export-models` keeps what it made.

use std::path::PathBuf;

/// A folder of the cache, or nothing and a notice where `witness` is not in it.
pub(crate) fn folder(name: &str, witness: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("WARPYARD_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("XDG_CACHE_HOME")?).join("warpyard")));
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/warpyard")))?;
    let folder = cache.join(name);
    if !folder.join(witness).exists() {
        println!("SKIPPED: no exported models; scripts/export-models makes them");
        return None;
    }
    Some(folder)
}
