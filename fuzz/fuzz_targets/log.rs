//! The log: a line is the body of an event, or, behind an `@`, of a state snapshot at the event before it. What is
//! wrong with it is an error that names the entry, never a panic; the state it amounts to survives being kept and restored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rusqlite::{Connection, params};
use std::cell::OnceCell;
use warpyard_core::{Cluster, PolicyChoice, Time};
use warpyard_server::store::Log;

fn policy() -> PolicyChoice {
    "backfill".parse().expect("a policy's name")
}

thread_local! { static DATABASE: OnceCell<Connection> = const { OnceCell::new() } }

fuzz_target!(|data: &[u8]| {
    warpyard_fuzz::with_scratch(|scratch| {
        let path = scratch.path("log.db");
        DATABASE.with(|database| {
            let database = database.get_or_init(|| {
                drop(Log::open(&path).expect("a log can be made"));
                let database = Connection::open(&path).expect("it was just made");
                database.pragma_update(None, "synchronous", "OFF").expect("a setting");
                database
            });
            let clear = "BEGIN; DELETE FROM event; DELETE FROM snapshot; DELETE FROM generation";
            database.execute_batch(clear).expect("a log");
            let mut seq = 0i64;
            for line in data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let (table, body) = match line {
                    [b'@', body @ ..] => ("snapshot", body),
                    body => ("event", body),
                };
                seq += i64::from(table == "event");
                let insert = format!("INSERT OR REPLACE INTO {table} (seq, at, body) VALUES (?1, 0, ?2)");
                database.execute(&insert, params![seq, body]).expect("a row");
            }
            database.execute_batch("COMMIT").expect("a log");
        });
        let mut log = Log::open_existing(&path).expect("the file itself is whole");
        if let Ok(loaded) = log.load(&policy()) {
            let kept = serde_json::to_vec(&loaded.cluster).expect("a state is JSON");
            let restored: Cluster = serde_json::from_slice(&kept).expect("what was written is read");
            assert_eq!(restored.restored(), loaded.cluster);
        }
        // As `replay` and `sim --trace` read it.
        let _refused = warpyard_server::recording(&log, Time(0), policy());
    });
});
