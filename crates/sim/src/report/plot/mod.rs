//! Plots as SVG: axes with sensible ticks, lines told apart by dashes and labels as well as by colour. What is plotted,
//! and how it was computed, is said by whoever draws.

mod axis;
mod cdf;
mod dots;
mod gantt;
mod strips;
mod svg;

pub use cdf::cdf;
pub use dots::dots;
pub use gantt::gantt;
pub use strips::strips;
pub use svg::Theme;

pub(crate) use svg::escaped;

/// A plot that is drawn.
#[derive(Clone, Debug)]
pub struct Plot {
    /// A name for files.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How what it shows was computed.
    pub how: String,
    /// The drawing.
    pub svg: String,
}

/// What values of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds, shown in the unit that fits.
    Seconds,
    /// A ratio, such as a slowdown.
    Times,
    /// Hundredths.
    Percent,
}

/// A named series.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its values, in order.
    pub values: &'a [f64],
}
