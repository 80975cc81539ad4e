//! Discovery of groups, versions, kinds and verbs: one document for each group and version, and the aggregated form
//! (`apidiscovery.k8s.io/v2`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kinds::kind::{self, Kind, Subresource};

/// Content type of aggregated discovery.
pub const AGGREGATED_CONTENT_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the groups except the core group, with their versions, in table order.
pub fn groups() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
    for kind in kind::served().filter(|kind| !kind.group.is_empty()) {
        match groups.iter_mut().find(|(group, _)| *group == kind.group) {
            Some((_, versions)) if versions.contains(&kind.version) => {}
            Some((_, versions)) => versions.push(kind.version),
            None => groups.push((kind.group, vec![kind.version])),
        }
    }
    groups
}

/// Returns `/api`: the versions of the core group. `server_address` (host and port) is announced to clients of all
/// networks.
pub fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// Returns `/apis`: all groups except the core group.
pub fn group_list() -> Value {
    let groups: Vec<Value> = groups()
        .into_iter()
        .map(|(name, versions)| group_fields(name, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns `/apis/{group}`.
pub fn api_group(name: &str) -> Option<Value> {
    let (name, versions) = groups().into_iter().find(|(group, _)| *group == name)?;
    let mut group = Map::new();
    group.insert("kind".into(), "APIGroup".into());
    group.insert("apiVersion".into(), "v1".into());
    if let Value::Object(fields) = group_fields(name, &versions) {
        group.extend(fields);
    }
    Some(Value::Object(group))
}

/// Returns `/api/v1` or `/apis/{group}/{version}`: the kinds with their verbs.
pub fn resource_list(group: &str, version: &str) -> Option<Value> {
    let kinds = kinds_of(group, version);
    let first = kinds.first()?;
    let mut resources: Vec<Value> = Vec::new();
    for kind in &kinds {
        resources.push(resource(kind));
        resources.extend(kind.subresources.iter().map(|row| subresource(kind, row)));
    }
    let mut list = Map::new();
    list.insert("kind".into(), "APIResourceList".into());
    if !group.is_empty() {
        list.insert("apiVersion".into(), "v1".into());
    }
    list.insert("groupVersion".into(), first.api_version().into());
    list.insert("resources".into(), resources.into());
    Some(Value::Object(list))
}

/// Returns the aggregated form of `/api`.
pub fn aggregated_core() -> Value {
    aggregated_list(vec![aggregated_group("", &["v1"])])
}

/// Returns the aggregated form of `/apis`.
pub fn aggregated_groups() -> Value {
    let groups = groups();
    aggregated_list(
        groups
            .iter()
            .map(|(name, versions)| aggregated_group(name, versions))
            .collect(),
    )
}

fn kinds_of(group: &str, version: &str) -> Vec<&'static Kind> {
    kind::served()
        .filter(|kind| kind.group == group && kind.version == version)
        .collect()
}

fn group_fields(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn resource(kind: &'static Kind) -> Value {
    let mut resource = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": kind.verbs,
    });
    // Reviews and measurements are not stored.
    if kind.is_stored() && !kind.is_measured() {
        resource["storageVersionHash"] = storage_version_hash(kind).into();
    }
    add_aliases(&mut resource, kind);
    resource
}

fn subresource(kind: &Kind, subresource: &Subresource) -> Value {
    let sent = subresource.body_kind.unwrap_or(kind);
    let mut resource = json!({
        "name": format!("{}/{}", kind.plural, subresource.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": subresource.kind.unwrap_or(sent.kind),
        "verbs": subresource.verbs,
    });
    if subresource.body_kind.is_some() {
        resource["group"] = sent.group.into();
        resource["version"] = sent.version.into();
    }
    resource
}

/// Returns the hash of the stored version, by which clients recognize it. It is the same on all servers that store this
/// version.
fn storage_version_hash(kind: &'static Kind) -> String {
    const HASH_BYTES: usize = 8;
    let stored = kind.stored();
    let digest = Sha256::digest(format!("{}/{}/{}", stored.group, stored.version, stored.kind));
    STANDARD.encode(&digest[..HASH_BYTES])
}

fn add_aliases(resource: &mut Value, kind: &Kind) {
    for (field, names) in [("shortNames", kind.short_names), ("categories", kind.categories)] {
        if !names.is_empty() {
            resource[field] = json!(names);
        }
    }
}

fn aggregated_list(groups: Vec<Value>) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups,
    })
}

fn aggregated_group(name: &str, versions: &[&str]) -> Value {
    let metadata = if name.is_empty() {
        json!({})
    } else {
        json!({"name": name})
    };
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = kinds_of(name, version)
                .iter()
                .map(|kind| aggregated_resource(kind))
                .collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response = |kind: &Kind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response(kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    add_aliases(&mut resource, kind);
    if !kind.subresources.is_empty() {
        let subresources = kind.subresources.iter().map(|row| {
            let mut response = response(row.body_kind.unwrap_or(kind));
            if let Some(response_kind) = row.kind {
                response["kind"] = response_kind.into();
            }
            json!({"subresource": row.name, "responseKind": response, "verbs": row.verbs})
        });
        resource["subresources"] = subresources.collect();
    }
    resource
}

#[cfg(test)]
mod tests;
