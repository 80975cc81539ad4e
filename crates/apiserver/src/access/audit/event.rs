//! Audit events as `Event` of `audit.k8s.io/v1`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::policy::{Level, Stage};
use crate::access::authentication::Identity;

/// An audit event. The field order is upstream's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event<'a> {
    pub(super) kind: &'static str,
    pub(super) api_version: &'static str,
    pub(super) level: Level,
    #[serde(rename = "auditID")]
    pub(super) audit_id: &'a str,
    pub(super) stage: Stage,
    #[serde(rename = "requestURI")]
    pub(super) request_uri: &'a str,
    pub(super) verb: &'a str,
    pub(super) user: &'a User,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) impersonated_user: Option<&'a User>,
    #[serde(rename = "sourceIPs", skip_serializing_if = "<[String]>::is_empty")]
    pub(super) source_ips: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) user_agent: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) object_ref: Option<&'a ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_status: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_object: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_object: Option<&'a Value>,
    pub(super) request_received_timestamp: String,
    pub(super) stage_timestamp: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) annotations: &'a BTreeMap<String, String>,
}

/// User of an event; all fields are empty if authentication failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct User {
    #[serde(skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

/// Object of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) subresource: String,
}

impl From<&Identity> for User {
    fn from(identity: &Identity) -> User {
        User {
            username: identity.user.clone(),
            uid: identity.uid.clone(),
            groups: identity.groups.clone(),
            extra: identity.extra.iter().cloned().collect(),
        }
    }
}

/// Formats a timestamp with microseconds, as upstream's `MicroTime`.
pub(super) fn micro_time(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
