//! Lease (coordination.k8s.io/v1): holder of a role and time of the last renewal.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};

/// A Lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Standard object metadata.
    pub metadata: ObjectMeta,
    /// Holder and times.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: LeaseSpec,
}

resource!(Lease, "coordination.k8s.io", "v1", "Lease", "leases");

/// `spec` of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// Identity of the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    /// Seconds after `renew_time` after which others may acquire the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i64>,
    /// RFC 3339 time of the acquisition, with microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<String>,
    /// RFC 3339 time of the last renewal, with microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<String>,
    /// Number of changes of the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i64>,
}
