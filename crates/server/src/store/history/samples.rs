//! Samples of utilisation and queue length over time: kept finely for an hour, coarsely for a month, and never more than a
//! few thousand. None of them is an event; all of them may be lost.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use warpyard_core::Time;

/// How far apart samples are, in seconds, and how many of that distance are kept.
pub(crate) const STEPS: [(u64, u64); 3] = [(5, 720), (60, 1_440), (900, 2_880)];

/// The table of samples.
pub(super) const TABLE: &str = "CREATE TABLE IF NOT EXISTS sample (step INTEGER, at INTEGER, body TEXT, PRIMARY KEY (step, at)) WITHOUT ROWID;";

/// Utilisation of devices and workers and the length of the queue at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Tasks that waited for room.
    pub ready: u64,
    /// Attempts on workers.
    pub running: u64,
    /// How long the one that waited longest of the first in line had, in seconds.
    pub waited: f64,
    /// Of every device.
    pub devices: Vec<DeviceSample>,
    /// Of every worker.
    pub workers: Vec<WorkerSample>,
}

/// Utilisation of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSample {
    /// Its name.
    pub id: String,
    /// The share of its memory that was given or used, in percent.
    pub memory: f64,
    /// How busy it was, in percent, where it tells.
    pub busy: Option<f64>,
    /// Tasks on it.
    pub tasks: u64,
}

/// Utilisation of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerSample {
    /// Its name.
    pub id: String,
    /// The share of its CPUs that tasks had, in percent.
    pub cpus: f64,
    /// The share of its memory that tasks were promised, in percent.
    pub memory: f64,
    /// The share of its CPUs that was busy, in percent, where it is measured.
    #[serde(default)]
    pub cpus_used: Option<f64>,
    /// The share of its memory that was in use, in percent, where it is measured.
    #[serde(default)]
    pub memory_used: Option<f64>,
}

/// Keeps a sample at every distance that is due.
pub(super) fn keep(db: &Connection, at: Time, sample: &Sample) -> rusqlite::Result<()> {
    let seconds = at.0 / 1_000_000;
    let body = serde_json::to_string(sample).expect("a sample is always JSON");
    for (step, kept) in STEPS {
        let due = seconds / step * step;
        let newest = "SELECT max(at) FROM sample WHERE step = ?1";
        let newest: Option<Option<i64>> =
            db.prepare_cached(newest)?.query_row([step as i64], |r| r.get(0)).optional()?;
        if newest.flatten() == Some(due as i64) {
            continue;
        }
        db.prepare_cached("INSERT OR REPLACE INTO sample (step, at, body) VALUES (?1, ?2, ?3)")?
            .execute(params![step as i64, due as i64, body])?;
        db.prepare_cached("DELETE FROM sample WHERE step = ?1 AND at <= ?2")?
            .execute(params![step as i64, due as i64 - (step * kept) as i64])?;
    }
    Ok(())
}

/// The distance in seconds between the samples that [`last`] gives: its step, and every how many of them.
pub(crate) fn distance(seconds: u64, most: usize) -> (u64, u64) {
    let (step, _) = STEPS.into_iter().find(|(step, kept)| step * kept >= seconds).unwrap_or(STEPS[2]);
    (step, (seconds / step).div_ceil(most as u64).max(1))
}

/// The samples of the last so many seconds, at the finest distance kept that long; at most about `most` of them.
pub(super) fn last(
    db: &Connection,
    now: Time,
    seconds: u64,
    most: usize,
) -> rusqlite::Result<Vec<(Time, Sample)>> {
    let (step, every) = distance(seconds, most);
    let from = (now.0 / 1_000_000).saturating_sub(seconds);
    let sql = "SELECT at, body FROM sample WHERE step = ?1 AND at >= ?2 AND (at / ?1) % ?3 = 0 ORDER BY at";
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map(params![step as i64, from as i64, every as i64], |r| {
        Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?))
    })?;
    let mut samples = Vec::new();
    for row in rows {
        let (at, body) = row?;
        // One that an older form of this program wrote is left out.
        if let Ok(sample) = serde_json::from_str(&body) {
            samples.push((Time(at as u64 * 1_000_000), sample));
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_of_samples_stays_bounded_and_each_span_finds_some() {
        let db = Connection::open_in_memory().expect("a database");
        db.execute_batch(TABLE).expect("a table");
        let begin = 1_700_000_000u64;
        // A month is too long to walk in fives: an hour finely, the rest by the quarter.
        let moments =
            (0..40 * 96).map(|q| begin + q * 900).chain((0..1_440).map(|i| begin + 40 * 86_400 + i * 5));
        let mut end = begin;
        for at in moments {
            keep(&db, Time(at * 1_000_000), &Sample { ready: at, ..Sample::default() }).expect("kept");
            end = at;
        }
        let rows: i64 = db.query_row("SELECT count(*) FROM sample", [], |r| r.get(0)).expect("a count");
        assert!(rows <= 720 + 1_440 + 2_880, "{rows}");
        for seconds in [3_600, 86_400, 30 * 86_400] {
            let found = last(&db, Time(end * 1_000_000), seconds, 200).expect("samples");
            assert!(found.len() > 20 && found.len() <= 260, "{seconds}: {}", found.len());
            assert!(found.windows(2).all(|w| w[0].0 < w[1].0));
        }
    }
}
