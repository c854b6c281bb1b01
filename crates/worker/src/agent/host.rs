//! Host readings: the CPU time and memory in use on the machine, by all its processes, from `/proc`.

use std::time::{Duration, Instant};

/// The least time between two readings of `/proc/stat`: shorter intervals measure the clock tick, not the load.
const BETWEEN: Duration = Duration::from_secs(1);

/// CPU and memory use of the whole machine, processes that are not warpyard's included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostReading {
    /// CPUs busy, as a mean since the reading before; absent until there are two.
    pub cpus: Option<f64>,
    /// Memory that is not available to new processes.
    pub memory_bytes: Option<u64>,
}

/// Ticks of all CPUs since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    all: u64,
    cpus: u32,
}

/// Reads the machine's use; keeps the previous tick counts, since use is their difference.
#[derive(Debug, Default)]
pub(super) struct HostMeter {
    before: Option<(Instant, Ticks)>,
    last: HostReading,
}

impl HostMeter {
    /// The current reading, at most [`BETWEEN`] old. Absent values where `/proc` cannot be read.
    pub(super) fn read(&mut self) -> HostReading {
        if self.before.is_some_and(|(at, _)| at.elapsed() < BETWEEN) {
            return self.last;
        }
        let proc = |file: &str| std::fs::read_to_string(format!("/proc/{file}")).unwrap_or_default();
        let ticks = ticks(&proc("stat"));
        let cpus = self.before.zip(ticks).and_then(|((_, before), now)| busy_cpus(before, now));
        self.before = ticks.map(|ticks| (Instant::now(), ticks));
        self.last = HostReading { cpus, memory_bytes: memory_in_use(&proc("meminfo")) };
        self.last
    }
}

/// The first line of `/proc/stat` (user, nice, system, idle, iowait, irq, softirq, steal) and how many CPUs follow it.
fn ticks(stat: &str) -> Option<Ticks> {
    let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = fields.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
    let all: u64 = fields.iter().sum();
    let idle: u64 = fields.get(3..5)?.iter().sum();
    let is_cpu =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    let cpus = u32::try_from(stat.lines().filter(is_cpu).count()).ok()?;
    Some(Ticks { busy: all - idle, all, cpus })
}

fn busy_cpus(before: Ticks, now: Ticks) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
    // iowait may count backwards by a little.
    let busy = now.busy.saturating_sub(before.busy).min(all);
    Some(busy as f64 / all as f64 * f64::from(now.cpus))
}

fn memory_in_use(meminfo: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib << 10)
    };
    Some(field("MemTotal")?.saturating_sub(field("MemAvailable")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cpus_are_the_share_of_ticks_not_spent_idle() {
        let stat = |busy: u64, idle: u64| {
            format!("cpu  {busy} 0 0 {idle} 0 0 0 0 9 9\ncpu0 1 2\ncpu1 1 2\nintr 7\n")
        };
        let (first, second) = (ticks(&stat(100, 500)), ticks(&stat(250, 550)));
        assert_eq!(
            first,
            Some(Ticks { busy: 100, all: 600, cpus: 2 }),
            "guest time is part of user time already"
        );
        assert_eq!(first.zip(second).and_then(|(a, b)| busy_cpus(a, b)), Some(1.5), "three quarters of two");
        assert_eq!(first.and_then(|a| busy_cpus(a, a)), None, "no time passed");
        assert_eq!(ticks("nonsense"), None);
    }

    #[test]
    fn memory_in_use_is_what_is_not_available() {
        let meminfo = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory_in_use(meminfo), Some(600 << 10));
        assert_eq!(memory_in_use("MemTotal: 5 kB\n"), None);
    }

    #[test]
    fn this_machine_can_be_read() {
        let reading = HostMeter::default().read();
        assert!(reading.memory_bytes.is_some_and(|b| b > 0), "{reading:?}");
        assert_eq!(reading.cpus, None, "one reading is no rate");
    }
}
