//! A spawner and nothing else, for the tests: what `warpyard spawner` does.

use std::{io::stdin, os::fd::AsFd};

fn main() {
    let socket = stdin().as_fd().try_clone_to_owned().expect("standard input is the socket");
    warpyard_worker::supervise::spawner_main(socket)
}
