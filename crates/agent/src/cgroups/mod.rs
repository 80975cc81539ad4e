//! Control groups, version 2 or 1: a directory for each container, which holds it to its limits. Below the agent's own
//! group, so that its limits hold for its Pods, too.

mod find;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::object::Container;
use crate::quantity::Quantity;

#[cfg(test)]
mod tests;

/// Processes and threads of a container that says nothing: more than any server needs, far fewer than there are.
pub const PIDS_MAX_DEFAULT: u64 = 4096;
/// The span over which a share of the processors is counted, in microseconds (upstream's).
const CPU_PERIOD_US: u64 = 100_000;
/// The least share that the kernel takes, in microseconds.
const CPU_QUOTA_US_MIN: u64 = 1_000;
/// How often, and how long after each other, a group is tried to be removed: killed processes take a moment.
const REMOVAL_TRIES_MAX: usize = 20;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);
/// The groups of Pods, below the agent's own.
const PODS: &str = "portolan-pods";

/// Why there are no control groups: what an administrator has to mend.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No hierarchy has the controllers.
    #[error("no control group hierarchy with the controllers memory, cpu and pids is mounted")]
    None,
    /// They are there for others.
    #[error("{path}: {source}; run as root, or have the control group delegated (systemd: Delegate=yes)", path = path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
}

/// What a container is held to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory; what needs more is killed.
    pub memory_bytes: Option<u64>,
    /// Processors, in thousandths; what wants more waits.
    pub cpu_thousandths: Option<u64>,
    /// What it gets of the processors if others want them too, in thousandths.
    pub cpu_request_thousandths: Option<u64>,
    /// Processes and threads.
    pub pids_max: u64,
}

/// The hierarchies in use.
#[derive(Clone, Debug)]
pub enum Cgroups {
    /// Version 2: one hierarchy.
    V2 {
        /// The groups of Pods.
        pods: PathBuf,
    },
    /// Version 1: a hierarchy for each controller.
    V1 {
        /// The groups of Pods for memory.
        memory: PathBuf,
        /// For processors.
        cpu: PathBuf,
        /// For processes.
        pids: PathBuf,
    },
}

impl Limits {
    /// Those of a container, of which at most `pids_max` processes are.
    pub fn of(container: &Container, pids_max: u64) -> Self {
        let resources = &container.resources;
        let limit = |name: &str| Quantity::parse(resources.limits.get(name)?);
        let request = Quantity::parse(resources.requests.get("cpu").map_or("", String::as_str));
        Self {
            memory_bytes: limit("memory").map(Quantity::units),
            cpu_thousandths: limit("cpu").map(Quantity::thousandths),
            cpu_request_thousandths: request.or(limit("cpu")).map(Quantity::thousandths),
            pids_max,
        }
    }

    /// Whether the container asks for any.
    pub fn are_asked_for(&self) -> bool {
        self.memory_bytes.is_some() || self.cpu_thousandths.is_some()
    }

    /// The weight of version 1.
    fn shares(&self) -> Option<u64> {
        let thousandths = self.cpu_request_thousandths?;
        Some((thousandths.saturating_mul(1024) / 1000).clamp(2, 262_144))
    }

    fn quota_us(&self) -> Option<u64> {
        let thousandths = self.cpu_thousandths?;
        Some((thousandths.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_US_MIN))
    }
}

impl Cgroups {
    /// Those of this process, made ready for Pods.
    pub fn open() -> Result<Self, CgroupError> {
        find::open()
    }

    /// Makes the groups of a container; their directories, for its program to join.
    pub fn prepare(&self, uid: &str, container: &str, limits: &Limits) -> Result<Vec<PathBuf>, CgroupError> {
        match self {
            Self::V2 { pods } => {
                let pod = pods.join(uid);
                make(&pod)?;
                write(&pod, "cgroup.subtree_control", "+memory +cpu +pids")?;
                let group = pod.join(container);
                make(&group)?;
                let max = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
                write(&group, "memory.max", &max(limits.memory_bytes))?;
                write(
                    &group,
                    "cpu.max",
                    &format!("{} {CPU_PERIOD_US}", max(limits.quota_us())),
                )?;
                // The range of shares, 2 to 262144, as one of 1 to 10000 (upstream's rule).
                let weight = limits
                    .shares()
                    .map_or(100, |shares| 1 + (shares - 2) * 9999 / 262_142);
                write(&group, "cpu.weight", &weight.to_string())?;
                write(&group, "pids.max", &limits.pids_max.to_string())?;
                Ok(vec![group])
            }
            Self::V1 { memory, cpu, pids } => {
                let [memory, cpu, pids] = [memory, cpu, pids].map(|pods| pods.join(uid).join(container));
                for group in [&memory, &cpu, &pids] {
                    make(group)?;
                }
                let limit = |limit: Option<u64>| limit.map_or("-1".to_owned(), |limit| limit.to_string());
                write(&memory, "memory.limit_in_bytes", &limit(limits.memory_bytes))?;
                write(&cpu, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
                write(&cpu, "cpu.cfs_quota_us", &limit(limits.quota_us()))?;
                write(&cpu, "cpu.shares", &limits.shares().unwrap_or(1024).to_string())?;
                write(&pids, "pids.max", &limits.pids_max.to_string())?;
                Ok(vec![memory, cpu, pids])
            }
        }
    }

    /// Ends what is left of a container whose first process has ended, and takes its groups away; whether the kernel
    /// has killed any of it for want of memory.
    pub fn finish(&self, uid: &str, container: &str) -> bool {
        let was_out_of_memory = match self {
            Self::V2 { pods } => oom_kills(&pods.join(uid).join(container).join("memory.events")),
            Self::V1 { memory, .. } => {
                oom_kills(&memory.join(uid).join(container).join("memory.oom_control"))
            }
        } > 0;
        for pods in self.all() {
            remove(&pods.join(uid).join(container));
        }
        was_out_of_memory
    }

    /// Takes the groups of a Pod away, of which nothing runs any more.
    pub fn remove_pod(&self, uid: &str) {
        for pods in self.all() {
            let pod = pods.join(uid);
            for entry in fs::read_dir(&pod).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    remove(&entry.path());
                }
            }
            remove(&pod);
        }
    }

    fn all(&self) -> Vec<&PathBuf> {
        match self {
            Self::V2 { pods } => vec![pods],
            Self::V1 { memory, cpu, pids } => vec![memory, cpu, pids],
        }
    }
}

fn make(group: &Path) -> Result<(), CgroupError> {
    fs::create_dir_all(group).map_err(|source| CgroupError::File {
        path: group.to_owned(),
        source,
    })
}

fn write(group: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    let path = group.join(file);
    fs::write(&path, value).map_err(|source| CgroupError::File { path, source })
}

/// The count in a line `oom_kill N`.
fn oom_kills(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Kills what is in a group, and removes it.
fn remove(group: &Path) {
    for _ in 0..REMOVAL_TRIES_MAX {
        match fs::remove_dir(group) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => {}
        }
        kill_all(group);
        thread::sleep(REMOVAL_PAUSE);
    }
    tracing::warn!(group = %group.display(), "a control group cannot be removed");
}

fn kill_all(group: &Path) {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        if let Err(error) = kill_process(pid, Signal::KILL) {
            tracing::debug!(%error, "a process ended before it was killed");
        }
    }
}
