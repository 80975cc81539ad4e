//! Names of derived Services and mirrored EndpointSlices, and labels of the objects of this controller.

use api::hash::fnv1a_64;
use api::object::AddressType;

use super::cluster_id::ClusterId;

/// Value of the managed-by labels on the objects of this controller.
pub(super) const MANAGED_BY: &str = "multicluster-service-controller.portolan.dev";
/// Label of ServiceImports and derived Services with their controller.
pub(super) const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";

/// Prefix of derived Services. It begins with a letter, as names of Services must.
const PREFIX: &str = "derived-";
/// Longest name of a Service.
const SERVICE_NAME_BYTES_MAX: usize = 63;
/// Length of a hash in hexadecimal digits.
const HASH_BYTES: usize = 16;

/// Returns the name of the derived Service of an import. A hash replaces the end of a long name.
pub(super) fn derived_service(import: &str) -> String {
    let name = format!("{PREFIX}{import}");
    if name.len() <= SERVICE_NAME_BYTES_MAX {
        return name;
    }
    let kept: String = name
        .chars()
        .take(SERVICE_NAME_BYTES_MAX - HASH_BYTES - 1)
        .collect();
    format!("{kept}-{}", hash(&[import]))
}

/// Returns the name of the slice that mirrors a slice of a cluster. The address type is immutable, so it is part of the
/// name. The hash includes import and cluster, because both may contain hyphens.
pub(super) fn mirrored_slice(import: &str, cluster: &ClusterId, source: &str, kind: AddressType) -> String {
    let kind = match kind {
        AddressType::IPv4 => "4",
        AddressType::IPv6 => "6",
        AddressType::Fqdn => "name",
    };
    format!(
        "{import}-{cluster}-{}",
        hash(&[import, cluster.as_str(), source, kind])
    )
}

/// Returns an FNV-1a hash of 64 bits. It is stable across versions, because names contain it.
fn hash(parts: &[&str]) -> String {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    format!("{:016x}", fnv1a_64(bytes))
}

#[cfg(test)]
mod tests;
