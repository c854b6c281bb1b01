//! What stands in the columns: moments, times, sizes and lists of resources, as Slurm writes them.

/// Resources as Slurm lists them: `cpu=8,gres/gpu:a100=2,mem=64G,node=1`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tres<'a> {
    pub(super) cpus: u32,
    pub(super) gpus: u16,
    pub(super) gpu_type: Option<&'a str>,
    pub(super) memory: u64,
    pub(super) nodes: u32,
}

impl<'a> Tres<'a> {
    pub(super) fn read(text: &'a str) -> Option<Tres<'a>> {
        let mut tres = Tres::default();
        let (mut all, mut typed) = (None, 0u16);
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=')?;
            match name {
                "cpu" => tres.cpus = value.parse().ok()?,
                "node" => tres.nodes = value.parse().ok()?,
                "mem" => tres.memory = bytes(value)?,
                "gres/gpu" => all = Some(value.parse().ok()?),
                _ => {
                    if let Some(kind) = name.strip_prefix("gres/gpu:") {
                        typed = typed.checked_add(value.parse().ok()?)?;
                        tres.gpu_type = Some(kind);
                    }
                }
            }
        }
        tres.gpus = all.unwrap_or(typed);
        Some(tres)
    }

    /// The older form: `gpu:2`, `gpu:tesla:2`.
    pub(super) fn read_gres(text: &'a str) -> Option<Tres<'a>> {
        let mut tres = Tres::default();
        for part in text.split(',') {
            let mut words = part.split(':');
            if words.next().map(|word| word.trim_start_matches("gres/")) != Some("gpu") {
                continue;
            }
            let words: Vec<&str> = words.collect();
            let (kind, count) = match words[..] {
                [] => (None, "1"),
                [count] if count.parse::<u16>().is_ok() => (None, count),
                [kind] => (Some(kind), "1"),
                [kind, count, ..] => (Some(kind), count),
            };
            // The sockets it is bound to may follow: 2(S:0-1).
            let count = count.split('(').next().unwrap_or(count);
            tres.gpus = tres.gpus.checked_add(count.parse().ok()?)?;
            tres.gpu_type = tres.gpu_type.or(kind);
        }
        Some(tres)
    }
}

/// `[days-]hours:minutes:seconds`, `minutes:seconds`, each with or without a fraction, in seconds.
pub(super) fn span(text: &str) -> Option<f64> {
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (days.parse::<u32>().ok()?, rest),
        None => (0, text),
    };
    let parts: Vec<&str> = rest.split(':').collect();
    let whole = |text: &str| text.parse::<u32>().ok().map(f64::from);
    let fine = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    let seconds = match parts[..] {
        [hours, minutes, seconds] => whole(hours)? * 3600.0 + whole(minutes)? * 60.0 + fine(seconds)?,
        [minutes, seconds] if days == 0 => whole(minutes)? * 60.0 + fine(seconds)?,
        [hours, minutes] => whole(hours)? * 3600.0 + whole(minutes)? * 60.0,
        [hours] if days > 0 => whole(hours)? * 3600.0,
        _ => return None,
    };
    Some(f64::from(days) * 86400.0 + seconds)
}

/// `64G`, `1500M`, `1.5T`; a bare number is in mebibytes, as Slurm has it.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        b'T' => (&text[..text.len() - 1], 40),
        _ => (text, 20),
    };
    let number: f64 = number.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    Some((number * (1u64 << unit) as f64) as u64)
}

/// `2026-11-15T20:00:00` or seconds since 1970, in seconds since then; where no zone is written none is applied.
pub(super) fn moment(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds as f64);
    }
    let (date, time) = text.split_once(['T', ' '])?;
    let (time, offset) = match time.find(['+', 'Z']).or_else(|| time.rfind('-')) {
        Some(at) => (&time[..at], zone(&time[at..])?),
        None => (time, 0.0),
    };
    let mut date = date.split('-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1970..10_000).contains(&year) {
        return None;
    }
    let mut clock = time.split(':').map(str::parse::<f64>);
    let (hours, minutes) = (clock.next()?.ok()?, clock.next()?.ok()?);
    let seconds = clock.next().unwrap_or(Ok(0.0)).ok()?;
    if !((0.0..24.0).contains(&hours) && (0.0..60.0).contains(&minutes) && (0.0..61.0).contains(&seconds)) {
        return None;
    }
    Some(days(year, month, day) as f64 * 86400.0 + hours * 3600.0 + minutes * 60.0 + seconds - offset)
}

fn zone(text: &str) -> Option<f64> {
    if text == "Z" {
        return Some(0.0);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let digits: String = text[1..].chars().filter(char::is_ascii_digit).collect();
    let (hours, minutes) = (digits.get(..2)?.parse::<f64>().ok()?, digits.get(2..4).unwrap_or("00"));
    Some(sign * (hours * 3600.0 + minutes.parse::<f64>().ok()? * 60.0))
}

/// Days since 1970 of a date: H. Hinnant, *chrono-compatible low-level date algorithms*.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_days_hours_minutes_and_fractions() {
        for (text, seconds) in [
            ("05:00", 300.0),
            ("01:05:00", 3900.0),
            ("2-01:00:00", 176_400.0),
            ("00:00.250", 0.25),
            ("1-12", 129_600.0),
        ] {
            assert_eq!(span(text), Some(seconds), "{text}");
        }
        for wrong in ["", "ten", "1:2:3:4", "-5:00", "1--2"] {
            assert_eq!(span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn moments_are_days_since_1970() {
        assert_eq!(moment("1970-01-02T00:00:10"), Some(86_410.0));
        assert_eq!(moment("2024-02-29T00:00:00"), Some(1_709_164_800.0));
        assert_eq!(moment("2024-02-29T01:00:00+0100"), moment("2024-02-29T00:00:00Z"));
        for wrong in ["2024-13-01T00:00:00", "2024-01-01", "2024-01-01T25:00:00", "x"] {
            assert_eq!(moment(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn resources_count_gpus_once() {
        let tres = Tres::read("billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=1.5T,node=2").unwrap();
        assert_eq!((tres.gpus, tres.gpu_type, tres.nodes), (2, Some("a100"), 2));
        assert_eq!(tres.memory, 3 << 39);
        assert_eq!(Tres::read("gres/gpu:a100=2,gres/gpu:v100=1").unwrap().gpus, 3);
        assert_eq!(Tres::read("cpu=many"), None);
        assert_eq!(Tres::read_gres("gpu:tesla:2(S:0)").unwrap().gpus, 2);
        assert_eq!(Tres::read_gres("gpu:2").unwrap().gpus, 2);
    }
}
