//! Drawing: a text that grows, and the colours it uses.

use std::fmt::{Display, Write};

/// Colours: of a page, which has its own for light and dark, or of a picture that stands alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Variables that the page defines.
    Page,
    /// Dark on white.
    Picture,
}

/// Told apart by people who do not see all colours: M. Okabe and K. Ito, *Color universal design* (2008), darkened.
const COLOURS: [&str; 8] =
    ["#0b62a4", "#c2500a", "#0a7a5a", "#8a3f7d", "#7a6a00", "#2f8fc4", "#444444", "#b03030"];

/// Lines that can be told apart without colour.
const DASHES: [&str; 8] = ["", "7 4", "2 3", "10 3 2 3", "1 4", "12 5", "6 2 2 2 2 2", "4 6"];

impl Theme {
    pub(super) fn ink(self) -> &'static str {
        if self == Theme::Page { "var(--ink)" } else { "#1b1f24" }
    }

    pub(super) fn faint(self) -> &'static str {
        if self == Theme::Page { "var(--faint)" } else { "#5b6570" }
    }

    pub(super) fn grid(self) -> &'static str {
        if self == Theme::Page { "var(--grid)" } else { "#e1e5ea" }
    }

    pub(super) fn paper(self) -> &'static str {
        if self == Theme::Page { "var(--paper)" } else { "#ffffff" }
    }

    pub(super) fn series(self, number: usize) -> String {
        let number = number % COLOURS.len();
        match self {
            Theme::Page => format!("var(--s{number})"),
            Theme::Picture => COLOURS[number].to_owned(),
        }
    }
}

pub(super) fn dash(number: usize) -> &'static str {
    DASHES[number % DASHES.len()]
}

/// A drawing that grows.
pub(super) struct Svg {
    out: String,
    pub(super) theme: Theme,
}

/// Where a text is held.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str, theme: Theme) -> Svg {
        let mut svg = Svg { out: String::new(), theme };
        svg.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" font-family=\"DejaVu Sans, system-ui, sans-serif\" font-size=\"12\">\
             <title>{}</title>",
            escaped(title)
        ));
        if theme == Theme::Picture {
            svg.add(format_args!("<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"));
        }
        svg
    }

    pub(super) fn add(&mut self, what: impl Display) {
        write!(self.out, "{what}").expect("a string takes all");
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
        ));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, colour: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{}</text>",
            escaped(text)
        ));
    }

    pub(super) fn done(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

/// No text has more characters than this.
const LONGEST: usize = 1_000;

/// A text that means nothing to HTML or SVG, on one line and in one direction.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(LONGEST));
    for c in text.chars().take(LONGEST) {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || is_unseen(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

/// Whether a character is seen only by what it does to others: where lines end, and in which direction they are written.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
