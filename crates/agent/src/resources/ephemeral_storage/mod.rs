//! Limits of the disk that a Pod uses (kubelet's `localStorageEviction`). Writable layers, logs, `emptyDir` volumes,
//! and the files of the Pod in `/etc` of its containers count.

mod usage;

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::object::quantity::Quantity;
use crate::object::{Container, Pod, PodSpec};
use crate::pods::state_directory::PodDirectory;

use usage::{Budget, ENTRIES_MAX, ENTRIES_PER_ROUND, UnmeasuredReason, Walk, bytes_of_file};

#[cfg(test)]
mod tests;

/// Name of the resource.
const RESOURCE: &str = "ephemeral-storage";

/// Limits of a Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StorageLimits {
    /// Limits of `emptyDir` volumes on disk.
    volumes: Vec<Limit>,
    /// Limits of main containers and sidecars.
    containers: Vec<Limit>,
    /// Limit of all containers and volumes together.
    pod: Option<Limit>,
    /// All containers.
    all_containers: Vec<String>,
    /// All `emptyDir` volumes on disk.
    all_volumes: Vec<String>,
}

/// Limit of a container or volume, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    /// Name of the container or volume.
    name: String,
    bytes: u64,
    /// Limit in messages.
    text: String,
}

/// Bytes on disk by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StorageUsage {
    containers: BTreeMap<String, u64>,
    volumes: BTreeMap<String, u64>,
    /// Files that all containers share, such as `/etc/hosts`.
    shared_files: u64,
}

impl StorageLimits {
    /// Returns the limits of a Pod; `None` for a Pod without any.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let spec = &pod.spec;
        let on_disk = spec.volumes.iter().filter_map(|volume| {
            let empty_dir = volume.empty_dir.as_ref().filter(|empty| !empty.is_in_memory())?;
            Some((volume.name.clone(), empty_dir.size_limit.clone()))
        });
        let on_disk: Vec<(String, Option<String>)> = on_disk.collect();
        let volumes = on_disk.iter().filter_map(|(name, text)| {
            let text = text.clone()?;
            let bytes = Quantity::parse(&text)?.units();
            let name = name.clone();
            Some(Limit { name, bytes, text }).filter(|limit| limit.bytes > 0)
        });
        let limits = Self {
            volumes: volumes.collect(),
            containers: main_and_sidecars(spec).filter_map(limit).collect(),
            pod: limit_of_pod(spec),
            all_containers: spec
                .all_containers()
                .map(|container| container.name.clone())
                .collect(),
            all_volumes: on_disk.into_iter().map(|(name, _)| name).collect(),
        };
        let has_any = !limits.volumes.is_empty() || limits.pod.is_some();
        has_any.then_some(limits)
    }

    /// Returns the message for the first exceeded limit, in the order of the kubelet.
    fn exceeded(&self, usage: &StorageUsage) -> Option<String> {
        let is_exceeded = |limit: &&Limit, used: &BTreeMap<String, u64>| {
            used.get(&limit.name).is_some_and(|used| *used > limit.bytes)
        };
        let mut volumes = self.volumes.iter();
        if let Some(Limit { name, text, .. }) = volumes.find(|limit| is_exceeded(limit, &usage.volumes)) {
            return Some(format!(
                "Usage of EmptyDir volume {name:?} exceeds the limit {text:?}. "
            ));
        }
        let named_bytes = usage.containers.values().chain(usage.volumes.values());
        let total = named_bytes.fold(usage.shared_files, |total, bytes| total.saturating_add(*bytes));
        if let Some(Limit { text, .. }) = self.pod.as_ref().filter(|limit| total > limit.bytes) {
            return Some(format!(
                "Pod ephemeral local storage usage exceeds the total limit of containers {text}. "
            ));
        }
        let mut containers = self.containers.iter();
        let Limit { name, text, .. } = containers.find(|limit| is_exceeded(limit, &usage.containers))?;
        Some(format!(
            "Container {name} exceeded its local ephemeral storage limit {text:?}. "
        ))
    }
}

/// Checks of one Pod. A Pod with many files is measured over several rounds.
pub(crate) struct StorageCheck {
    limits: StorageLimits,
    directory: PodDirectory,
    /// Measurement that the next round continues.
    measurement: Option<Measurement>,
}

impl StorageCheck {
    /// Creates the checks of a Pod.
    pub(crate) fn new(limits: StorageLimits, directory: PodDirectory) -> Self {
        Self {
            limits,
            directory,
            measurement: None,
        }
    }

    /// Measures the usage of the Pod in one round, and returns the message of its eviction if it exceeds a limit or
    /// cannot be measured. Blocks on the disk.
    pub(crate) fn next_round(&mut self) -> Option<String> {
        self.round_of(ENTRIES_PER_ROUND)
    }

    fn round_of(&mut self, entries: usize) -> Option<String> {
        let measurement = self.measurement.take();
        let mut measurement = measurement.unwrap_or_else(|| Measurement::of(&self.limits, &self.directory));
        match measurement.advance(entries) {
            // The usage so far exceeds a limit only if the whole usage does.
            Ok(is_complete) => {
                let exceeded = self.limits.exceeded(&measurement.usage);
                self.measurement = (!is_complete).then_some(measurement);
                exceeded
            }
            Err(reason) => Some(format!(
                "Pod ephemeral local storage usage cannot be measured: {reason}. "
            )),
        }
    }
}

/// Container or volume that has files.
enum Owner {
    Container(String),
    Volume(String),
}

/// Measurement of a Pod.
struct Measurement {
    usage: StorageUsage,
    /// Directories to measure.
    remaining: Vec<(Owner, PathBuf)>,
    current: Option<(Owner, Walk)>,
    /// Entries that may still be counted.
    entries_left: usize,
}

impl Measurement {
    fn of(limits: &StorageLimits, directory: &PodDirectory) -> Self {
        let volumes = limits.all_volumes.iter().map(|name| {
            let path = directory.volumes().join(name);
            (Owner::Volume(name.clone()), path)
        });
        let containers = limits.all_containers.iter().flat_map(|name| {
            let paths = directory.container_storage(name);
            paths.map(|path| (Owner::Container(name.clone()), path))
        });
        Self {
            usage: StorageUsage {
                shared_files: directory
                    .shared_files()
                    .iter()
                    .map(|file| bytes_of_file(file))
                    .sum(),
                ..StorageUsage::default()
            },
            remaining: volumes.chain(containers).collect(),
            current: None,
            entries_left: ENTRIES_MAX,
        }
    }

    /// Counts at most `entries` files and directories. Returns true at the end.
    fn advance(&mut self, entries: usize) -> Result<bool, UnmeasuredReason> {
        let mut budget = Budget {
            round: entries,
            total: self.entries_left,
        };
        loop {
            let next = match self.current.take() {
                None => self.next_walk(),
                current => current,
            };
            let Some((owner, mut walk)) = next else {
                return Ok(true);
            };
            let before = walk.bytes();
            let is_complete = walk.advance(&mut budget)?;
            let used = match &owner {
                Owner::Container(name) => self.usage.containers.entry(name.clone()).or_default(),
                Owner::Volume(name) => self.usage.volumes.entry(name.clone()).or_default(),
            };
            *used = used.saturating_add(walk.bytes().saturating_sub(before));
            self.entries_left = budget.total;
            if !is_complete {
                self.current = Some((owner, walk));
                return Ok(false);
            }
        }
    }

    fn next_walk(&mut self) -> Option<(Owner, Walk)> {
        while let Some((owner, path)) = self.remaining.pop() {
            if let Some(walk) = Walk::start(&path) {
                return Some((owner, walk));
            }
        }
        None
    }
}

/// Returns the limit of a container.
fn limit(container: &Container) -> Option<Limit> {
    let text = container.resources.limits.get(RESOURCE)?;
    let bytes = Quantity::parse(text)?.units();
    Some(Limit {
        name: container.name.clone(),
        bytes,
        text: text.clone(),
    })
    .filter(|limit| limit.bytes > 0)
}

fn main_and_sidecars(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    let sidecars = spec.init_containers.iter().filter(|init| init.is_restartable());
    spec.containers.iter().chain(sidecars)
}

/// Returns the limit of a Pod (upstream's `PodLimits`): the higher of two sums. The first sum is over main containers
/// and sidecars, the second over an init container and the sidecars before it.
fn limit_of_pod(spec: &PodSpec) -> Option<Limit> {
    let mut sidecars = Vec::new();
    let mut all = Vec::new();
    for init in &spec.init_containers {
        if init.is_restartable() {
            sidecars.extend(limit(init));
        } else {
            all.extend(sum(sidecars.iter().cloned().chain(limit(init)).collect()));
        }
    }
    all.extend(sum(main_and_sidecars(spec).filter_map(limit).collect()));
    all.into_iter().max_by_key(|limit| limit.bytes)
}

/// Returns the sum of limits; `None` without any.
fn sum(mut limits: Vec<Limit>) -> Option<Limit> {
    if limits.len() < 2 {
        return limits.pop();
    }
    let bytes = limits
        .iter()
        .fold(0_u64, |sum, limit| sum.saturating_add(limit.bytes));
    Some(Limit {
        name: String::new(),
        bytes,
        text: binary_quantity(bytes),
    })
}

/// Returns the bytes as a quantity with the largest binary suffix that is exact.
fn binary_quantity(bytes: u64) -> String {
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let mut number = bytes;
    let mut suffixes = SUFFIXES.iter();
    let mut suffix = suffixes.next();
    while number > 0 && number.is_multiple_of(1024) {
        number /= 1024;
        suffix = suffixes.next();
    }
    format!("{number}{}", suffix.copied().unwrap_or_default())
}
