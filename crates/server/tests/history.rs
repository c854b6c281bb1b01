//! What derived tables promise, checked on real files.

use warpyard_server::store::{HistoryStore, SqliteHistory};

#[path = "contract/history_store.rs"]
mod contract;

#[test]
fn sqlite_keeps_the_contract_of_a_history_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let count = std::cell::Cell::new(0);
    let open = |path: &std::path::Path| -> Box<dyn HistoryStore> {
        Box::new(SqliteHistory::open(path).expect("tables"))
    };
    let empty = || {
        count.set(count.get() + 1);
        open(&dir.path().join(format!("{}.db", count.get())))
    };
    let reopen = |tables: Box<dyn HistoryStore>| {
        let path = tables.path().to_owned();
        drop(tables);
        open(&path)
    };
    contract::holds(empty, reopen);
}
