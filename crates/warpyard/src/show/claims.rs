//! `claims`: one line for each.

use super::{Align, Cell, Paint, Screen, Table};
use warpyard_api::wire::{ClaimState, ClaimView};

/// The table of claims.
pub(crate) fn table(claims: &[ClaimView], screen: &Screen) -> String {
    if claims.is_empty() {
        return "no claims; `warpyard claim --gpus 1 -- COMMAND` makes one\n".to_owned();
    }
    let mut table = Table::new([
        ("CLAIM", Align::Right),
        ("NAME", Align::Left),
        ("USER", Align::Left),
        ("ST", Align::Left),
        ("GPUS", Align::Left),
        ("PID", Align::Right),
        ("REGISTERED", Align::Right),
        ("HEARD", Align::Right),
        ("UNTIL", Align::Left),
        ("WHY", Align::Left),
    ]);
    for claim in claims {
        let ago = |at| format!("{} ago", screen.since(at));
        table.row([
            (&claim.claim).into(),
            (&claim.name).into(),
            (&claim.user).into(),
            state(claim.state),
            if claim.devices.is_empty() { claim.gpus.to_string() } else { claim.devices.join(",") }.into(),
            claim.pid.map_or("-".to_owned(), |pid| pid.to_string()).into(),
            ago(claim.registered_at).into(),
            claim.last_heard_at.map_or("-".to_owned(), ago).into(),
            claim.until.map_or("-".to_owned(), |at| screen.clock(at)).into(),
            claim.why.clone().unwrap_or_default().into(),
        ]);
    }
    table.render(screen)
}

fn state(state: ClaimState) -> Cell {
    let paint = match state {
        ClaimState::Held => Paint::Green,
        ClaimState::Waiting => Paint::Yellow,
        ClaimState::Ending | ClaimState::Ended => Paint::Plain,
    };
    Cell::new(state.word(), paint)
}
