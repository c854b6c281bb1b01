//! How long each goal takes, by size. Run with `cargo bench -p warpyard-allocate`; names of goals or a largest number
//! of jobs narrow it down.

use std::time::Instant;

use warpyard_allocate::{Options, goal};

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let largest = arguments.iter().find_map(|a| a.parse::<usize>().ok()).unwrap_or(1_000_000);
    println!("{:>9}  {:<16} {:>10}  objective", "jobs", "goal", "ms");
    for n in [128, 2_048, 100_000, 1_000_000].into_iter().filter(|n| *n <= largest) {
        let instance = support::distinct(n, &[n as u32 / 4, n as u32 / 4, n as u32 / 4], 1);
        for name in ["max-min", "makespan", "throughput"] {
            let goal = goal(name).expect("a goal of this name");
            let start = Instant::now();
            match goal.solve(&instance, Options::default()) {
                Ok(answer) => println!(
                    "{n:>9}  {name:<16} {:>10.2}  {}",
                    start.elapsed().as_secs_f64() * 1e3,
                    answer.objective
                ),
                Err(error) => println!("{n:>9}  {name:<16} {error}"),
            }
        }
    }
}
