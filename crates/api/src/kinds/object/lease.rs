//! Lease (coordination.k8s.io/v1): who holds something, and since when it was not given up.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, null_as_default, resource};

/// A Lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Who holds it.
    #[serde(deserialize_with = "null_as_default")]
    pub spec: LeaseSpec,
}

resource!(Lease, "coordination.k8s.io", "v1", "Lease", "leases");

/// `spec` of a Lease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaseSpec {
    /// Who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder_identity: Option<String>,
    /// Seconds after `renew_time` at which others may take it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration_seconds: Option<i64>,
    /// RFC 3339 time, with microseconds, at which the holder took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acquire_time: Option<String>,
    /// RFC 3339 time, with microseconds, at which the holder said last that it lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<String>,
    /// How often it changed hands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_transitions: Option<i64>,
}
