//! `why`: the server's answer in its own words.

use super::{Paint, Screen};
use warpyard_api::text::shown;
use warpyard_api::wire::WhyView;

/// The answer's lines, the first of them standing out.
pub(crate) fn text(why: &WhyView, screen: &Screen) -> String {
    let mut out = String::new();
    for (i, line) in why.text.iter().enumerate() {
        let line = shown(line);
        let paint = if i == 0 { Paint::Bold } else { Paint::Plain };
        out.push_str(&screen.paint(&line, paint));
        out.push('\n');
    }
    out
}
