//! Settings of the node at the start: limits and timeouts of connection tracking, and the OOM score of this
//! process (KPR-10, KPF-29 to KPF-32).

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::Config;

/// Upper bound for the limit of connections (KPF-30).
const CONNECTIONS_MAX: u64 = 1_048_576;
/// Connections per bucket of the kernel's hash table.
const CONNECTIONS_PER_BUCKET: u64 = 4;

/// Settings of connection tracking. `None`, zero and false keep the current value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConntrackSettings {
    /// `--conntrack-max-per-core`.
    pub max_per_core: Option<u32>,
    /// `--conntrack-min`: lower bound of the limit, regardless of the number of cores.
    pub min: Option<u32>,
    /// `--conntrack-tcp-timeout-established`.
    pub tcp_timeout_established: Option<Duration>,
    /// `--conntrack-tcp-timeout-close-wait`.
    pub tcp_timeout_close_wait: Option<Duration>,
    /// `--conntrack-tcp-be-liberal`.
    pub tcp_be_liberal: bool,
    /// `--conntrack-udp-timeout`.
    pub udp_timeout: Option<Duration>,
    /// `--conntrack-udp-timeout-stream`.
    pub udp_timeout_stream: Option<Duration>,
}

impl ConntrackSettings {
    /// Returns the limit of connections for this number of cores; `None` keeps the current value.
    fn limit(&self, cores: usize) -> Option<u64> {
        let per_core = self.max_per_core.filter(|per_core| *per_core > 0)?;
        let scaled = u64::from(per_core) * cores as u64;
        Some(scaled.max(u64::from(self.min.unwrap_or(0))).min(CONNECTIONS_MAX))
    }

    /// Returns the values to write, by name below `net/netfilter`.
    fn values(&self) -> Vec<(&'static str, u64)> {
        let seconds = |duration: Option<Duration>| {
            duration
                .map(|duration| duration.as_secs())
                .filter(|seconds| *seconds > 0)
        };
        let timeouts = [
            (
                "nf_conntrack_tcp_timeout_established",
                seconds(self.tcp_timeout_established),
            ),
            (
                "nf_conntrack_tcp_timeout_close_wait",
                seconds(self.tcp_timeout_close_wait),
            ),
            ("nf_conntrack_tcp_be_liberal", self.tcp_be_liberal.then_some(1)),
            ("nf_conntrack_udp_timeout", seconds(self.udp_timeout)),
            (
                "nf_conntrack_udp_timeout_stream",
                seconds(self.udp_timeout_stream),
            ),
        ];
        timeouts
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// Applies the settings to this node. Failures are logged: `/proc` is read-only in most containers, and the owner
/// of the node sets the values then.
pub fn set_up_host(config: &Config) {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let failures = write_all(
        &config.conntrack,
        cores,
        Path::new("/proc/sys"),
        Path::new("/sys"),
    );
    for (path, error) in failures {
        tracing::warn!(path = %path.display(), %error, "setting not written");
    }
    if let Some(score) = config.oom_score_adj {
        let path = Path::new("/proc/self/oom_score_adj");
        if let Err(error) = write_number(path, i64::from(score)) {
            tracing::info!(%error, score, "OOM score not written");
        }
    }
}

/// Writes changed values below the two roots. Returns the failures.
fn write_all(
    settings: &ConntrackSettings,
    cores: usize,
    proc_sys: &Path,
    sys: &Path,
) -> Vec<(PathBuf, io::Error)> {
    let directory = proc_sys.join("net/netfilter");
    let mut desired: Vec<(PathBuf, u64)> = Vec::new();
    if let Some(limit) = settings.limit(cores) {
        let buckets = sys.join("module/nf_conntrack/parameters/hashsize");
        // A larger hash table needs only more memory, so the kernel's choice stays.
        if read_number(&buckets).is_ok_and(|now| now < (limit / CONNECTIONS_PER_BUCKET) as i64) {
            desired.push((buckets, limit / CONNECTIONS_PER_BUCKET));
        }
        desired.push((directory.join("nf_conntrack_max"), limit));
    }
    let values = settings.values().into_iter();
    desired.extend(values.map(|(name, value)| (directory.join(name), value)));
    let mut failures = Vec::new();
    for (path, value) in desired {
        let value = value as i64;
        let written = match read_number(&path) {
            Ok(now) if now == value => continue,
            _ => write_number(&path, value),
        };
        match written {
            Ok(()) => tracing::info!(path = %path.display(), value, "setting written"),
            Err(error) => failures.push((path, error)),
        }
    }
    failures
}

fn read_number(path: &Path) -> io::Result<i64> {
    let text = std::fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("expected a number, found {text:?}"),
        )
    })
}

/// Writes to an existing file.
fn write_number(path: &Path, value: i64) -> io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)?;
    file.write_all(value.to_string().as_bytes())
}

#[cfg(test)]
mod tests;
