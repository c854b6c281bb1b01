//! A worker reduced to what a test wants to kill: it launches what the file named by its argument says, and stays.

use std::{fs, thread};

use warpyard_worker::supervise::{Launch, Spawner};

fn main() {
    let file = std::env::args().nth(1).expect("the path of a launch message");
    let launch: Launch = serde_json::from_slice(&fs::read(file).expect("readable")).expect("a launch");
    let program = std::env::current_exe().expect("our own path").with_file_name("spawner");
    let mut spawner = Spawner::start(program, Vec::<String>::new()).expect("a spawner");
    spawner.launch(&launch).expect("launched");
    loop {
        thread::park();
    }
}
