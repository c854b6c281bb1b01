//! Numbers as people read them.

/// A number with as many digits as are worth reading; whole numbers whole.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => value.to_string(),
        _ if value.fract() == 0.0 && size < 1e15 => format!("{value:.0}"),
        1e15.. | ..1e-4 => format!("{value:.3e}"),
        1000.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A part of a whole: "3 %", "0.42 %".
pub(crate) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent.abs() {
        10.0.. => format!("{percent:.0} %"),
        1.0.. => format!("{percent:.1} %"),
        _ => format!("{percent:.2} %"),
    }
}

/// How long a computation took: "45 ms", "1.20 s".
pub(crate) fn took(seconds: f64) -> String {
    match seconds {
        1.0.. => format!("{seconds:.2} s"),
        1e-3.. => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_matter() {
        let said = [0.0, 80.0, -4.0, 0.45, 1.5, 1234.56, 1e-7, f64::INFINITY].map(figure);
        assert_eq!(said, ["0", "80", "-4", "0.4500", "1.500", "1234.6", "1.000e-7", "inf"]);
        assert_eq!([0.031, 0.0042, 0.5].map(percent), ["3.1 %", "0.42 %", "50 %"]);
        assert_eq!([1.2, 0.0455, 0.000_012].map(took), ["1.20 s", "45.5 ms", "12 µs"]);
    }
}
