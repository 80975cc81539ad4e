//! Control groups of containers, version 2 or 1 (kubelet's `pkg/kubelet/cm`).
//!
//! The groups of Pods are below the group of the agent, so that limits of the agent apply to its Pods, too.

mod discovery;
mod usage;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::object::Container;
use crate::object::quantity::Quantity;

pub use usage::Counters;

#[cfg(test)]
mod tests;

/// Default of processes and threads in one container: more than servers need, far fewer than a kernel has.
pub const PIDS_MAX_DEFAULT: u64 = 4096;
/// Period of CPU quotas in microseconds (upstream's `quotaPeriod`).
const CPU_PERIOD_US: u64 = 100_000;
/// Smallest CPU quota that the kernel accepts, in microseconds.
const CPU_QUOTA_US_MIN: u64 = 1_000;
/// Maximum number of attempts to remove a group, and the delay between them: killed processes leave their group after a
/// moment.
const REMOVAL_ATTEMPTS_MAX: usize = 20;
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);
/// Name of the group of all Pods, below the group of the agent.
const PODS: &str = "portolan-pods";

/// Reason why control groups cannot be used. An administrator must change the host.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// No mounted hierarchy has the controllers.
    #[error(
        "expected a mounted control group hierarchy with the controllers memory, cpu and pids, found none"
    )]
    None,
    /// A group or a file of it cannot be created or written.
    #[error("{path}: {source}; run as root, or have the control group delegated (systemd: Delegate=yes)", path = path.display())]
    File {
        /// Path of the group or file.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
}

/// Limits of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory. The kernel kills processes of a container that exceeds them.
    pub memory_bytes: Option<u64>,
    /// CPU limit in thousandths of a core.
    pub cpu_thousandths: Option<u64>,
    /// CPU request in thousandths of a core: the share while others need the processors.
    pub cpu_request_thousandths: Option<u64>,
    /// Number of processes and threads.
    pub pids_max: u64,
}

/// Hierarchies in use.
#[derive(Clone, Debug)]
pub enum Cgroups {
    /// Version 2: one hierarchy for all controllers.
    V2 {
        /// Group of all Pods.
        pods: PathBuf,
    },
    /// Version 1: one hierarchy for each controller.
    V1 {
        /// Group of all Pods for memory.
        memory: PathBuf,
        /// Group of all Pods for processors.
        cpu: PathBuf,
        /// Group of all Pods for CPU time; `None` if the host does not count it. It can be the same as `cpu`.
        cpuacct: Option<PathBuf>,
        /// Group of all Pods for processes.
        pids: PathBuf,
    },
}

impl Limits {
    /// Returns the limits of a container. Its API object has none for processes.
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

    /// Returns true if the container has a memory or CPU limit.
    pub fn has_limits(&self) -> bool {
        self.memory_bytes.is_some() || self.cpu_thousandths.is_some()
    }

    /// Returns the CPU weight of version 1 (`cpu.shares`).
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
    /// Finds the hierarchies and creates the group of all Pods.
    ///
    /// # Errors
    /// [`CgroupError`] if no hierarchy can be used.
    pub fn open() -> Result<Self, CgroupError> {
        discovery::open()
    }

    /// Creates the groups of a container with its limits. Returns their directories, which the container's first
    /// process joins.
    ///
    /// # Errors
    /// [`CgroupError::File`] if a group cannot be created or a limit cannot be written.
    pub fn prepare(&self, uid: &str, container: &str, limits: &Limits) -> Result<Vec<PathBuf>, CgroupError> {
        match self {
            Self::V2 { pods } => {
                let pod = pods.join(uid);
                create(&pod)?;
                write(&pod, "cgroup.subtree_control", "+memory +cpu +pids")?;
                let group = pod.join(container);
                create(&group)?;
                let max = |limit: Option<u64>| limit.map_or("max".to_owned(), |limit| limit.to_string());
                write(&group, "memory.max", &max(limits.memory_bytes))?;
                write(
                    &group,
                    "cpu.max",
                    &format!("{} {CPU_PERIOD_US}", max(limits.quota_us())),
                )?;
                // Conversion of shares 2 to 262144 into weights 1 to 10000, as in runc.
                let weight = limits
                    .shares()
                    .map_or(100, |shares| 1 + (shares - 2) * 9999 / 262_142);
                write(&group, "cpu.weight", &weight.to_string())?;
                write(&group, "pids.max", &limits.pids_max.to_string())?;
                Ok(vec![group])
            }
            Self::V1 {
                memory,
                cpu,
                cpuacct,
                pids,
            } => {
                let accounting = cpuacct.as_ref().filter(|cpuacct| *cpuacct != cpu);
                let accounting = accounting.map(|pods| pods.join(uid).join(container));
                let [memory, cpu, pids] = [memory, cpu, pids].map(|pods| pods.join(uid).join(container));
                for group in [&memory, &cpu, &pids].into_iter().chain(&accounting) {
                    create(group)?;
                }
                let limit = |limit: Option<u64>| limit.map_or("-1".to_owned(), |limit| limit.to_string());
                write(&memory, "memory.limit_in_bytes", &limit(limits.memory_bytes))?;
                write(&cpu, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
                write(&cpu, "cpu.cfs_quota_us", &limit(limits.quota_us()))?;
                write(&cpu, "cpu.shares", &limits.shares().unwrap_or(1024).to_string())?;
                write(&pids, "pids.max", &limits.pids_max.to_string())?;
                Ok([memory, cpu, pids].into_iter().chain(accounting).collect())
            }
        }
    }

    /// Kills the remaining processes of a container whose first process has exited, and removes its groups. Returns
    /// true if the kernel killed a process because of the memory limit.
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

    /// Returns the groups of a Pod, one in each hierarchy. The groups of its containers are below.
    pub fn of_pod(&self, uid: &str) -> Vec<PathBuf> {
        self.all().into_iter().map(|pods| pods.join(uid)).collect()
    }

    /// Removes the groups of a Pod, and kills the processes in them.
    pub fn remove_pod(&self, uid: &str) {
        remove_groups(&self.of_pod(uid));
    }

    fn all(&self) -> Vec<&PathBuf> {
        match self {
            Self::V2 { pods } => vec![pods],
            Self::V1 {
                memory,
                cpu,
                cpuacct,
                pids,
            } => {
                let accounting = cpuacct.iter().filter(|cpuacct| *cpuacct != cpu);
                [memory, cpu, pids].into_iter().chain(accounting).collect()
            }
        }
    }
}

/// Removes groups of a Pod with those of its containers, and kills the processes in them. After the end of its sandbox,
/// only a Pod with `hostPID` has any.
pub fn remove_groups(groups: &[PathBuf]) {
    // Without `cgroup.kill`, processes that fork could escape. In version 1, one of the hierarchies has this limit
    // for all.
    for pod in groups {
        limit_processes(pod, "0");
    }
    for pod in groups {
        for entry in fs::read_dir(pod).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path());
            }
        }
        remove(pod);
        // A group stays if one of its processes waits for a device. The next containers of the Pod then use the group.
        limit_processes(pod, "max");
    }
}

/// Limits the processes of a group, if it exists and supports the limit.
fn limit_processes(group: &Path, processes_max: &str) {
    let limit = fs::OpenOptions::new().write(true).open(group.join("pids.max"));
    if let Err(error) = limit.and_then(|mut file| file.write_all(processes_max.as_bytes())) {
        tracing::debug!(group = %group.display(), %error, "limit of processes not changed");
    }
}

fn create(group: &Path) -> Result<(), CgroupError> {
    fs::create_dir_all(group).map_err(|source| CgroupError::File {
        path: group.to_owned(),
        source,
    })
}

fn write(group: &Path, file: &str, value: &str) -> Result<(), CgroupError> {
    let path = group.join(file);
    fs::write(&path, value).map_err(|source| CgroupError::File { path, source })
}

/// Returns the count in the line `oom_kill N` of an events file.
fn oom_kills(path: &Path) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Removes a group after killing its processes.
fn remove(group: &Path) {
    for _ in 0..REMOVAL_ATTEMPTS_MAX {
        match fs::remove_dir(group) {
            Ok(()) => return,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => {}
        }
        kill_all(group);
        thread::sleep(REMOVAL_PAUSE);
    }
    tracing::warn!(group = %group.display(), "control group not removed");
}

fn kill_all(group: &Path) {
    // Version 2 since Linux 5.14: no process escapes by a fork.
    let kill = fs::OpenOptions::new().write(true).open(group.join("cgroup.kill"));
    if kill.and_then(|mut file| file.write_all(b"1")).is_ok() {
        return;
    }
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
        if let Err(error) = kill_process(pid, Signal::KILL) {
            tracing::debug!(%error, "process exited before it was killed");
        }
    }
}
