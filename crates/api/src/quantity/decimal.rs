//! Decimal numbers scaled to integers without floating point, so that "0.1" is exact.

use super::QuantityError;

/// Splits a text after its leading number: "1.5 GiB" is ("1.5", "GiB").
pub(super) fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number, rest.trim_start())
}

/// A number times `scale`, and whether the product was truncated.
pub(super) fn scaled(number: &str, scale: u64, whole_text: &str) -> Result<(u64, bool), QuantityError> {
    let not_a_number = || QuantityError::NotANumber(whole_text.to_owned());
    let too_large = || QuantityError::TooLarge(whole_text.to_owned());
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits_only = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !digits_only(whole) || !digits_only(fraction) || whole.is_empty() || number.ends_with('.') {
        return Err(not_a_number());
    }
    let fraction = fraction.trim_end_matches('0');
    let whole: u64 =
        if whole.len() > 40 { Err(too_large()) } else { whole.parse().map_err(|_| too_large()) }?;
    // Nineteen digits times a 64-bit scale still fit in 128 bits; no unit here is fine enough to need a twentieth.
    let (kept, dropped) = fraction.split_at(fraction.len().min(19));
    let divisor = 10u128.pow(kept.len() as u32);
    let numerator = if kept.is_empty() { 0 } else { kept.parse::<u128>().map_err(|_| not_a_number())? };
    let part = numerator * u128::from(scale);
    let total = u128::from(whole) * u128::from(scale) + part / divisor;
    let inexact = part % divisor != 0 || !dropped.is_empty();
    Ok((u64::try_from(total).map_err(|_| too_large())?, inexact))
}

/// Rejects negative numbers with an error of their own.
pub(super) fn refuse_negative(text: &str) -> Result<(), QuantityError> {
    if text.starts_with('-') || text.starts_with('−') {
        return Err(QuantityError::Negative(text.to_owned()));
    }
    Ok(())
}
