//! CPU time and memory of the groups.

use std::fs;
use std::path::Path;

use super::Cgroups;

/// Containers of a Pod that are read. Few Pods have more than ten.
const CONTAINERS_MAX: usize = 64;

/// CPU time and memory of a group of processes at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// CPU time since the group exists, in nanoseconds.
    pub cpu_nanoseconds: u64,
    /// Working set: memory without pages of files that were not used for a while.
    pub memory_bytes: u64,
}

impl Cgroups {
    /// Returns the containers of a Pod that have groups, with their counters. Containers without counters are omitted.
    pub fn usage(&self, uid: &str) -> Vec<(String, Counters)> {
        let pods = match self {
            Self::V2 { pods } => pods,
            Self::V1 { memory, .. } => memory,
        };
        let entries = fs::read_dir(pods.join(uid)).into_iter().flatten().flatten();
        let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let names = groups.filter_map(|group| group.file_name().into_string().ok());
        names
            .take(CONTAINERS_MAX)
            .filter_map(|name| {
                let counters = self.counters(uid, &name)?;
                Some((name, counters))
            })
            .collect()
    }

    /// Returns the counters of one container; `None` if it has no group, or if the host does not count CPU time.
    fn counters(&self, uid: &str, container: &str) -> Option<Counters> {
        match self {
            Self::V2 { pods } => {
                let group = pods.join(uid).join(container);
                let microseconds = value_of(&group.join("cpu.stat"), "usage_usec")?;
                Some(Counters {
                    cpu_nanoseconds: microseconds.saturating_mul(1000),
                    memory_bytes: working_set(&group, "memory.current", "inactive_file")?,
                })
            }
            Self::V1 { memory, cpuacct, .. } => {
                let cpuacct = cpuacct.as_ref()?.join(uid).join(container);
                let memory = memory.join(uid).join(container);
                Some(Counters {
                    cpu_nanoseconds: number(&cpuacct.join("cpuacct.usage"))?,
                    memory_bytes: working_set(&memory, "memory.usage_in_bytes", "total_inactive_file")?,
                })
            }
        }
    }
}

fn working_set(group: &Path, usage: &str, inactive: &str) -> Option<u64> {
    let usage = number(&group.join(usage))?;
    let inactive = value_of(&group.join("memory.stat"), inactive).unwrap_or(0);
    Some(usage.saturating_sub(inactive))
}

/// Reads a file with one number.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Reads the number behind a name in a file with a name and a number in each line.
fn value_of(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then(|| value.trim().parse().ok()).flatten()
    })
}
