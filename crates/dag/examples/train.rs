//! Trains the network that ships with the program:
//! `cargo run --release -p warpyard-dag --features train --example train -- OUT [minutes] [start]`.

use std::error::Error;
use std::time::{Duration, Instant};

use warpyard_dag::learned::Network;
use warpyard_dag::learned::train::{Training, train};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let out = args.next().ok_or("where should the weights go?")?;
    let minutes: f64 = args.next().map_or(Ok(15.0), |m| m.parse())?;
    let start = args.next().map(std::fs::read).transpose()?;
    let start = start.map(|bytes| Network::from_safetensors(&bytes)).transpose()?;
    let until = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let training = Training { seed: 1, instances: 240, search: 40, imitate: 30, improve: 100_000 };
    let mut smooth = None;
    let network = train(
        &training,
        start,
        || Instant::now() >= until,
        |lesson, network| {
            let value = smooth.map_or(lesson.value, |s: f64| s + 0.05 * (lesson.value - s));
            smooth = (lesson.stage == "improve").then_some(value);
            if lesson.step % 10 == 0 {
                println!("{} {}: {value:.4}", lesson.stage, lesson.step);
                if lesson.stage != "search"
                    && let Err(e) = std::fs::write(&out, network.to_safetensors())
                {
                    eprintln!("{out}: {e}");
                }
            }
        },
    )?;
    std::fs::write(&out, network.to_safetensors())?;
    Ok(())
}
