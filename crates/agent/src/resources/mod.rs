//! Resources that Pods use: limits by control groups, disk usage, and the usage of CPU and memory.

pub mod cgroups;
pub(crate) mod ephemeral_storage;
pub(crate) mod stats;
