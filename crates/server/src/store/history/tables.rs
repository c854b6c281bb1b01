//! The tables themselves, and what is done to those an older program left.

use super::{model_runs, samples};
use rusqlite::Connection;

/// What the tables are like once nothing is missing in them; kept in the file, so that older ones are known.
pub(super) const SCHEMA: i64 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS origin (lineage TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, name TEXT, user TEXT, submitted INTEGER, finished INTEGER,
        outcome TEXT, tasks INTEGER, priority INTEGER, project TEXT, started INTEGER, needs TEXT);
    CREATE TABLE IF NOT EXISTS attempt (job INTEGER, node INTEGER, position INTEGER, number INTEGER, job_name TEXT,
        task_name TEXT, array_index INTEGER, user TEXT, worker TEXT, devices TEXT, placed INTEGER, started INTEGER,
        ended INTEGER, outcome TEXT, exit_code INTEGER, signal INTEGER, timeout INTEGER, detail TEXT, ran INTEGER, cpu INTEGER, peak_rss INTEGER,
        peak_gpu_memory INTEGER, reason TEXT, PRIMARY KEY (job, node, position, number)) WITHOUT ROWID;";

/// Made once every column is there.
const INDEXES: &str = "
    CREATE INDEX IF NOT EXISTS job_by_end ON job (finished);
    CREATE INDEX IF NOT EXISTS job_by_user ON job (user);
    CREATE INDEX IF NOT EXISTS job_by_wait ON job (started - submitted);
    CREATE INDEX IF NOT EXISTS job_by_run ON job (finished - started);
    CREATE INDEX IF NOT EXISTS attempt_by_end ON attempt (ended);
    CREATE INDEX IF NOT EXISTS attempt_by_task ON attempt (user, job_name, task_name, ended);";

/// The first tables did not say when a job began, nor what it asked for. The one is known from its attempts.
const FROM_THE_FIRST: &str = "
    ALTER TABLE job ADD COLUMN started INTEGER;
    ALTER TABLE job ADD COLUMN needs TEXT;
    UPDATE job SET started = (SELECT min(attempt.started) FROM attempt WHERE attempt.job = job.id);";

/// Later ones did not say in a word why an attempt failed.
const WITHOUT_REASON: &str = "ALTER TABLE attempt ADD COLUMN reason TEXT;";

/// Makes the tables what they are now; tells whether an older program had made them, so that something is missing still.
pub(super) fn prepare(db: &mut Connection, found: i64) -> rusqlite::Result<bool> {
    let made = db.transaction()?;
    let has = |sql: &str| made.query_row(sql, [], |r| r.get::<_, bool>(0));
    let any = has("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'job'")?;
    if any && !has("SELECT count(*) > 0 FROM pragma_table_info('job') WHERE name = 'needs'")? {
        made.execute_batch(FROM_THE_FIRST)?;
    }
    if any && !has("SELECT count(*) > 0 FROM pragma_table_info('attempt') WHERE name = 'reason'")? {
        made.execute_batch(WITHOUT_REASON)?;
    }
    made.execute_batch(TABLES)?;
    made.execute_batch(INDEXES)?;
    made.execute_batch(samples::TABLE)?;
    made.execute_batch(model_runs::TABLE)?;
    if !any {
        are_complete(&made)?;
    }
    made.commit()?;
    Ok(any && found < SCHEMA)
}

/// Notes that nothing is missing any more.
pub(super) fn are_complete(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "user_version", SCHEMA)
}
