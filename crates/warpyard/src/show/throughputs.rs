//! `throughputs`: a line for each profile, number of GPUs and type.

use super::{Align, Screen, Table};
use warpyard_api::wire::Throughputs;

/// The table.
pub(crate) fn table(known: &Throughputs, screen: &Screen) -> String {
    let costs = known.cost_per_hour.iter().map(|(kind, cost)| format!("an hour of {kind} costs {cost}\n"));
    let costs: String = costs.collect();
    if known.throughputs.is_empty() && costs.is_empty() {
        return "nothing is known yet; `warpyard throughputs --set FILE` says it, `warpyard progress` measures it\n".to_owned();
    }
    let mut table = Table::new([
        ("PROFILE", Align::Left),
        ("GPUS", Align::Right),
        ("TYPE", Align::Left),
        ("BESIDE", Align::Left),
        ("STEPS/S", Align::Right),
        ("HOW", Align::Left),
    ]);
    if known.throughputs.is_empty() {
        return costs;
    }
    for row in &known.throughputs {
        table.row([
            (&row.profile).into(),
            row.gpus.to_string().into(),
            (&row.gpu_type).into(),
            row.beside.as_deref().unwrap_or("-").to_owned().into(),
            format!("{:.3}", row.steps_per_second).into(),
            (if row.measured { "measured" } else { "said" }).to_owned().into(),
        ]);
    }
    table.render(screen) + &costs
}
