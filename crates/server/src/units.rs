//! Quantities as people read them.

/// A size to three figures: "4.5 GiB".
pub(crate) fn size(bytes: u64) -> String {
    let units = [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, one)) = units.into_iter().find(|(_, one)| bytes >= *one) else {
        return format!("{bytes} B");
    };
    let amount = bytes as f64 / one as f64;
    if amount >= 100.0 || bytes.is_multiple_of(one) {
        format!("{amount:.0} {unit}")
    } else {
        format!("{amount:.1} {unit}")
    }
}
