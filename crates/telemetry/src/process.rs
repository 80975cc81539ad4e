//! Metrics of the process, with the names of the Prometheus client libraries.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{MetricType, MetricsText};

/// Clock ticks of `/proc` (`USER_HZ`), which is 100 on all architectures.
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes CPU time, memory, descriptors and start time of this process. Values that `/proc` does not have are omitted.
pub fn write_process(out: &mut MetricsText) {
    if let Some(stat) = Stat::read() {
        let seconds = "process_cpu_seconds_total";
        out.family(
            seconds,
            MetricType::Counter,
            "Total user and system CPU time spent in seconds.",
        );
        out.sample(seconds, "", stat.cpu_seconds);
        let virtual_bytes = "process_virtual_memory_bytes";
        out.family(virtual_bytes, MetricType::Gauge, "Virtual memory size in bytes.");
        out.sample(virtual_bytes, "", stat.virtual_bytes);
        let resident = "process_resident_memory_bytes";
        out.family(resident, MetricType::Gauge, "Resident memory size in bytes.");
        out.sample(resident, "", stat.resident_bytes);
        if let Some(start) = stat.start_time_seconds() {
            let name = "process_start_time_seconds";
            out.family(
                name,
                MetricType::Gauge,
                "Start time of the process since unix epoch in seconds.",
            );
            out.sample(name, "", start);
        }
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        out.family(
            "process_open_fds",
            MetricType::Gauge,
            "Number of open file descriptors.",
        );
        out.sample("process_open_fds", "", files.count());
    }
    if let Some(limit) = file_limit() {
        out.family(
            "process_max_fds",
            MetricType::Gauge,
            "Maximum number of open file descriptors.",
        );
        out.sample("process_max_fds", "", limit);
    }
}

/// Values of `/proc/self/stat` and `/proc/self/status` (proc(5)).
struct Stat {
    cpu_seconds: f64,
    virtual_bytes: u64,
    resident_bytes: u64,
    /// Start of the process, in seconds after the boot.
    start_seconds: f64,
}

impl Stat {
    fn read() -> Option<Stat> {
        Stat::parse(
            &fs::read_to_string("/proc/self/stat").ok()?,
            &fs::read_to_string("/proc/self/status").ok()?,
        )
    }

    fn parse(stat: &str, status: &str) -> Option<Stat> {
        // The program name may contain parentheses; the last one ends it.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // proc(5) numbers fields from 1; the first one here is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim_start_matches(':')
                .split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()
        };
        Some(Stat {
            cpu_seconds: (field(14)? + field(15)?) / TICKS_PER_SECOND,
            virtual_bytes: kib("VmSize")? * 1024,
            resident_bytes: kib("VmRSS")? * 1024,
            start_seconds: field(22)? / TICKS_PER_SECOND,
        })
    }

    fn start_time_seconds(&self) -> Option<f64> {
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        Some((now - uptime + self.start_seconds).round())
    }
}

fn file_limit() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
