//! The next write of an import, from its desired and its observed state.

mod service;

use std::collections::{BTreeMap, BTreeSet};

use api::multicluster::SOURCE_CLUSTER_LABEL;
use api::object::{EndpointSlice, Labels, ObjectMeta, ServiceImport, ServiceImportSpec};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::cluster_id::ClusterId;
use super::conditions::{self, State};
use super::desired::{DesiredImport, Import, PresentImport};
use super::names::{MANAGED_BY, MANAGED_BY_LABEL};
use super::observed::ObservedImport;
use super::slices::is_current;

/// A write of one object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    CreateService(Value),
    PatchService(Value),
    DeleteService(ObjectMeta),
    CreateImport(Box<ServiceImport>),
    PatchImport(Value),
    DeleteImport(ObjectMeta),
    CreateSlice(EndpointSlice),
    ReplaceSlice(EndpointSlice),
    DeleteSlice(ObjectMeta),
    PatchImportStatus(Value),
    PatchExportStatus(Value),
}

/// Returns the next write; `None` if the observed state is the desired one. Endpoints are written after the ServiceImport
/// that announces them, and removed before it.
pub(super) fn next(desired: &DesiredImport, observed: &ObservedImport, now: Timestamp) -> Option<Write> {
    let import = match &desired.import {
        Import::Absent => next_removal(desired, observed),
        Import::Held {
            kept,
            slices,
            clusters,
            reachability,
        } => slice(slices, kept, observed).or_else(|| {
            let states = [
                reachability.clone(),
                conditions::mirrored_slices_condition(&observed.rejected_slices),
            ];
            import_status(observed, clusters, &states, now)
        }),
        Import::Present(present) => self::next_of_present_import(desired, present, observed, now),
    };
    import.or_else(|| export_status(desired, observed, now))
}

fn next_removal(desired: &DesiredImport, observed: &ObservedImport) -> Option<Write> {
    if let Some(slice) = observed.slices.first() {
        return Some(Write::DeleteSlice(slice.metadata.clone()));
    }
    if let Some(service) = observed.derived(&desired.key) {
        return Some(Write::DeleteService(service.metadata.clone()));
    }
    let import = observed.import.as_ref()?;
    let is_managed = import.metadata.labels.get(MANAGED_BY_LABEL).map(String::as_str) == Some(MANAGED_BY);
    is_managed.then(|| Write::DeleteImport(import.metadata.clone()))
}

fn next_of_present_import(
    desired: &DesiredImport,
    present: &PresentImport,
    observed: &ObservedImport,
    now: Timestamp,
) -> Option<Write> {
    service::next(desired, present, observed)
        .or_else(|| import(desired, present, observed))
        .or_else(|| slice(&present.slices, &BTreeSet::new(), observed))
        .or_else(|| {
            let states = [
                service::readiness(desired, present, observed),
                present.reachability.clone(),
                conditions::mirrored_slices_condition(&observed.rejected_slices),
            ];
            import_status(observed, &present.clusters, &states, now)
        })
}

fn import(desired: &DesiredImport, present: &PresentImport, observed: &ObservedImport) -> Option<Write> {
    let (labels, annotations) = (&present.resolution.labels, &present.resolution.annotations);
    let spec = import_spec(desired, present, observed);
    let Some(known) = &observed.import else {
        return Some(Write::CreateImport(Box::new(ServiceImport {
            metadata: ObjectMeta {
                name: desired.key.name.to_string(),
                namespace: desired.key.namespace.to_string(),
                labels: labels.clone(),
                annotations: annotations.clone(),
                ..ObjectMeta::default()
            },
            spec,
            ..ServiceImport::default()
        })));
    };
    let meta = &known.metadata;
    if known.spec == spec && meta.labels == *labels && meta.annotations == *annotations {
        return None;
    }
    Some(Write::PatchImport(json!({
        "metadata": {
            "labels": exact_map(labels, &meta.labels),
            "annotations": exact_map(annotations, &meta.annotations),
        },
        "spec": exact_object(json!(spec), &json!(known.spec)),
    })))
}

/// Returns the spec with the clusterset IPs. They stay while the derived Service exists.
fn import_spec(
    desired: &DesiredImport,
    present: &PresentImport,
    observed: &ObservedImport,
) -> ServiceImportSpec {
    let mut spec = present.resolution.spec.clone();
    if present.derived.is_some()
        && let Some(service) = observed.derived(&desired.key)
        && !service.spec.is_headless()
    {
        spec.ips.clone_from(&service.spec.cluster_ips);
        spec.ip_families.clone_from(&service.spec.ip_families);
    }
    spec
}

/// Returns the next write of a mirrored slice. Slices of the clusters in `kept` stay.
fn slice(
    desired: &BTreeMap<String, EndpointSlice>,
    kept: &BTreeSet<ClusterId>,
    observed: &ObservedImport,
) -> Option<Write> {
    let known: BTreeMap<&str, &EndpointSlice> = observed
        .slices
        .iter()
        .map(|slice| (slice.metadata.name.as_str(), slice))
        .collect();
    let is_rejected = |name: &str| observed.rejected_slices.contains_key(name);
    for (name, slice) in desired.iter().filter(|(name, _)| !is_rejected(name)) {
        match known.get(name.as_str()) {
            None => return Some(Write::CreateSlice(slice.clone())),
            Some(known) if !is_current(slice, known) => {
                let mut slice = slice.clone();
                slice
                    .metadata
                    .resource_version
                    .clone_from(&known.metadata.resource_version);
                slice.metadata.uid.clone_from(&known.metadata.uid);
                return Some(Write::ReplaceSlice(slice));
            }
            Some(_) => {}
        }
    }
    let is_desired = |name: &str| desired.contains_key(name) && !is_rejected(name);
    let is_kept = |slice: &EndpointSlice| {
        let source = slice.metadata.labels.get(SOURCE_CLUSTER_LABEL);
        source.is_some_and(|source| kept.iter().any(|cluster| cluster.as_str() == source))
    };
    let surplus = known
        .into_iter()
        .find(|(name, slice)| !is_desired(name) && !is_kept(slice));
    surplus.map(|(_, slice)| Write::DeleteSlice(slice.metadata.clone()))
}

fn import_status(
    observed: &ObservedImport,
    clusters: &BTreeSet<ClusterId>,
    states: &[State],
    now: Timestamp,
) -> Option<Write> {
    let status = &observed.import.as_ref()?.status;
    let updated = conditions::update(&status.conditions, states, now);
    let clusters: Vec<&str> = clusters.iter().map(ClusterId::as_str).collect();
    let known: Vec<&str> = status
        .clusters
        .iter()
        .map(|cluster| cluster.cluster.as_str())
        .collect();
    if updated.is_none() && clusters == known && status.endpoint_slice_objects == "Present" {
        return None;
    }
    let clusters: Vec<Value> = clusters
        .iter()
        .map(|cluster| json!({"cluster": cluster}))
        .collect();
    Some(Write::PatchImportStatus(json!({"status": {
        "clusters": clusters,
        "endpointSliceObjects": "Present",
        "conditions": updated.as_ref().unwrap_or(&status.conditions),
    }})))
}

fn export_status(desired: &DesiredImport, observed: &ObservedImport, now: Timestamp) -> Option<Write> {
    let (states, export) = (desired.export.as_ref()?, observed.export.as_ref()?);
    // An invalid export conflicts with nothing. While the import is held, the known conflict stays.
    let is_held = matches!(desired.import, Import::Held { .. });
    let keeps = |kind: &str| kind != "Conflict" || is_held || states.iter().any(|state| state.kind == kind);
    let known = &export.status.conditions;
    let kept: Vec<_> = known.iter().filter(|known| keeps(&known.kind)).cloned().collect();
    let updated = conditions::update(&kept, states, now);
    if updated.is_none() && kept.len() == known.len() {
        return None;
    }
    let conditions = updated.unwrap_or(kept);
    Some(Write::PatchExportStatus(
        json!({"status": {"conditions": conditions}}),
    ))
}

/// Returns a merge patch that makes a map equal to `desired`.
fn exact_map(desired: &Labels, known: &Labels) -> Value {
    exact_object(json!(desired), &json!(known))
}

/// Returns a merge patch that makes the fields of an object equal to those of `desired`.
fn exact_object(desired: Value, known: &Value) -> Value {
    let mut patch = match desired {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    for field in known.as_object().into_iter().flat_map(Map::keys) {
        if !patch.contains_key(field) {
            patch.insert(field.clone(), Value::Null);
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests;
