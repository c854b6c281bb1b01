//! Axes: where values are, and which of them are written.

use super::Unit;

/// An axis of values on a line.
pub(super) struct Axis {
    from: f64,
    to: f64,
    log: bool,
    unit: Unit,
    /// Where it begins and ends on the drawing.
    begin: f64,
    end: f64,
}

/// Steps people count time in, in seconds.
const TIMES: [f64; 24] = [
    0.01,
    0.1,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1800.0,
    3600.0,
    7200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    31_536_000.0,
    315_360_000.0,
];

impl Axis {
    /// From 0 to what is there.
    pub(super) fn linear(to: f64, unit: Unit, (begin, end): (f64, f64)) -> Axis {
        Axis { from: 0.0, to: to.max(1e-9), log: false, unit, begin, end }
    }

    /// In powers; what is below the least stands at the beginning.
    pub(super) fn log(from: f64, to: f64, unit: Unit, (begin, end): (f64, f64)) -> Axis {
        Axis { from, to: to.max(from * 10.0), log: true, unit, begin, end }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.log {
            true => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        self.begin + share.clamp(0.0, 1.0) * (self.end - self.begin)
    }

    /// Values worth writing, no more than about seven.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match (self.log, self.unit) {
            (true, Unit::Seconds) => {
                let nice = [0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36_000.0, 86_400.0, 864_000.0, 8_640_000.0];
                let all: Vec<f64> = nice.into_iter().filter(|t| (self.from..=self.to).contains(t)).collect();
                self.apart(all)
            }
            (true, Unit::Times | Unit::Percent) => {
                let powers = (0..12).flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(power)));
                self.apart(powers.filter(|t| (self.from..=self.to).contains(t)).collect())
            }
            (false, Unit::Seconds) => {
                let step = TIMES.into_iter().find(|step| self.to / step <= 7.0).unwrap_or(self.to / 5.0);
                (0..=(self.to / step) as u32).map(|n| f64::from(n) * step).collect()
            }
            (false, Unit::Times | Unit::Percent) => {
                let power = 10f64.powf((self.to / 5.0).log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|s| self.to / s <= 7.0);
                let step = step.unwrap_or(power * 10.0);
                (0..=(self.to / step) as u32).map(|n| f64::from(n) * step).collect()
            }
        }
    }

    /// Those of them whose labels do not touch.
    fn apart(&self, ticks: Vec<f64>) -> Vec<f64> {
        let mut kept: Vec<f64> = Vec::new();
        for tick in ticks {
            if kept.last().is_none_or(|last| self.at(tick) - self.at(*last) >= 44.0) {
                kept.push(tick);
            }
        }
        kept
    }

    pub(super) fn label(&self, value: f64) -> String {
        written(value, self.unit)
    }
}

/// A value as people write it.
pub(super) fn written(value: f64, unit: Unit) -> String {
    let short = |number: f64| {
        let digits = if number.fract().abs() < 1e-9 || number >= 100.0 { 0 } else { 1 };
        format!("{number:.digits$}")
    };
    match unit {
        Unit::Times => format!("{}×", short(value)),
        Unit::Percent => format!("{} %", short(value)),
        Unit::Seconds if value == 0.0 => "0".to_owned(),
        Unit::Seconds => {
            let units = [(86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s")];
            let (size, word) = units.into_iter().find(|(size, _)| value >= *size).unwrap_or((0.001, "ms"));
            format!("{} {word}", short(value / size))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_apart() {
        for to in [0.7, 3.0, 59.0, 1000.0, 86_400.0, 3e6] {
            let axis = Axis::linear(to, Unit::Seconds, (0.0, 600.0));
            let ticks = axis.ticks();
            assert!((2..=8).contains(&ticks.len()), "{to}: {ticks:?}");
            assert!(ticks.iter().all(|t| *t <= to));
        }
        let axis = Axis::log(1.0, 1e5, Unit::Seconds, (0.0, 600.0));
        let labels: Vec<_> = axis.ticks().into_iter().map(|t| axis.label(t)).collect();
        assert_eq!(labels, ["1 s", "10 s", "1 min", "10 min", "1 h", "10 h", "1 d"]);
    }

    #[test]
    fn what_is_below_a_log_axis_stands_at_its_beginning() {
        let axis = Axis::log(1.0, 100.0, Unit::Seconds, (50.0, 250.0));
        assert_eq!((axis.at(0.0), axis.at(10.0), axis.at(1e9)), (50.0, 150.0, 250.0));
    }

    #[test]
    fn values_are_in_the_unit_that_fits() {
        for (value, text) in
            [(0.0, "0"), (0.25, "250 ms"), (90.0, "1.5 min"), (7200.0, "2 h"), (1e6, "11.6 d")]
        {
            assert_eq!(written(value, Unit::Seconds), text);
        }
        assert_eq!(written(2.5, Unit::Times), "2.5×");
    }
}
