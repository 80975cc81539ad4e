//! CPU time and memory of the whole node, from `/proc`.

use std::fs;

use crate::resources::cgroups::Counters;

/// Nanoseconds of one tick in `/proc/stat`. The kernel reports 100 ticks for each second on every architecture that
/// Portolan supports (`USER_HZ`).
const TICK_NANOSECONDS: u64 = 10_000_000;

/// Returns the counters of the node; `None` if `/proc` cannot be read.
pub(super) fn read() -> Option<Counters> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    Some(Counters {
        cpu_nanoseconds: busy_ticks(&stat)?.saturating_mul(TICK_NANOSECONDS),
        memory_bytes: working_set(&meminfo)?,
    })
}

/// Returns the ticks in which processors were busy: user, nice, system, irq, softirq and steal.
pub(super) fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map_while(|text| text.parse().ok())
        .collect();
    let (idle, waiting) = (ticks.get(3)?, ticks.get(4)?);
    // The first eight columns; those of guests are part of user and nice.
    let all = ticks
        .iter()
        .take(8)
        .fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
    Some(all.saturating_sub(*idle).saturating_sub(*waiting))
}

/// Returns the bytes that are in use and not pages of inactive files.
pub(super) fn working_set(meminfo: &str) -> Option<u64> {
    let bytes_of = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = rest.split_whitespace().next()?.parse().ok()?;
        Some(kib.saturating_mul(1024))
    };
    let used = bytes_of("MemTotal:")?.saturating_sub(bytes_of("MemFree:")?);
    Some(used.saturating_sub(bytes_of("Inactive(file):").unwrap_or(0)))
}
