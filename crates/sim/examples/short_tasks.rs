//! The table of *GPU Scheduling for Short Tasks in Private Cloud*, ours beside theirs: `short_tasks SEEDS`.

fn main() {
    let seeds = std::env::args().nth(1).map_or(5000, |n| n.parse().expect("a number of seeds"));
    for row in warpyard_sim::reproduce::short_tasks(seeds, |_, _| ()).expect("the policies exist") {
        let published = row.published.map_or("-".to_owned(), |p| p.to_string());
        println!(
            "{:36} published {published:>8}  ours {:8.3}  band {:7.1} to {:7.1}  {}",
            row.row, row.ours, row.low, row.high, row.verdict
        );
    }
}
