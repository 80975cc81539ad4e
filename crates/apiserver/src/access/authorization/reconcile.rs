//! Creation and update of the default roles and bindings at server start. Missing rules and subjects are added;
//! additions of administrators stay. Rules and objects that this version no longer has are removed. An object with
//! the annotation `autoupdate: "false"` stays as it is.

use api::kind;
use api::rbac::{GROUP, PolicyRule, uncovered_rights};
use api::tree::{child, items, object_mut, set, text};
use futures_util::future::try_join_all;
use http::StatusCode;
use serde_json::Value;

use super::default_roles::{self, AUTO_UPDATE};
use crate::failure::Failure;
use crate::request::route::Target;
use crate::verbs::resource::{Resources, WriteContext, WriteError, retry_on_conflict};

/// Rules of earlier versions that this version withdraws: the role, and the rule as stored.
const WITHDRAWN: [(&str, &str); 2] = [
    // Edges report their ports in Leases (`super::edge_report`).
    (
        "system:portolan-edge",
        r#"{"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]}"#,
    ),
    // Edges read the Secrets that Services reference (`super::edge_secrets`).
    (
        "system:portolan-edge",
        r#"{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}"#,
    ),
];
/// Users that earlier versions bound to default roles by bindings of the same name. All joined nodes shared them.
const WITHDRAWN_USERS: [&str; 2] = ["system:portolan-announcer", "system:portolan-edge"];

/// Creates and completes the default roles. On failure, returns the name of the object and the response.
pub(crate) async fn ensure_default_roles(resources: &Resources) -> Result<(), (String, Failure)> {
    // Concurrently, so that the writes share commits.
    let each = default_roles::all()
        .into_iter()
        .map(|(plural, desired)| async move {
            let name = text(child(&desired, "metadata"), "name").to_owned();
            ensure(resources, plural, &name, &desired)
                .await
                .map_err(|failure| (name, failure))
        });
    try_join_all(each).await?;
    for (plural, name) in default_roles::retired_objects() {
        let deleted = delete_retired(resources, plural, name).await;
        deleted.map_err(|failure| (name.to_owned(), failure))?;
    }
    resources.admission.authorizer.refresh();
    Ok(())
}

async fn ensure(resources: &Resources, plural: &str, name: &str, desired: &Value) -> Result<(), Failure> {
    let kind = kind::find(GROUP, "v1", plural).ok_or_else(Failure::no_such_path)?;
    let namespace = text(child(desired, "metadata"), "namespace");
    let target = &Target::object(kind, namespace, name);
    retry_on_conflict(target, || async {
        let Some(stored) = resources.stored(target).await? else {
            let created = resources.create_object(target, desired.clone(), Vec::new(), WriteContext::SERVER);
            return match created.await {
                Ok(_) => Ok(()),
                // Another server created the object first; compare again.
                Err(WriteError::Failed(failure)) if failure.reason() == "AlreadyExists" => {
                    Err(WriteError::Conflict)
                }
                Err(other) => Err(other),
            };
        };
        if text(child(stored.metadata(), "annotations"), AUTO_UPDATE) == "false" {
            return Ok(());
        }
        if is_bound_elsewhere(&stored.object, desired) {
            // `roleRef` is immutable, so the binding is replaced.
            resources.delete_object(target, &Default::default()).await?;
            return Err(WriteError::Conflict);
        }
        let Some(completed) = completed(&stored.object, desired) else {
            return Ok(());
        };
        resources
            .replace(target, stored, completed, Vec::new(), WriteContext::SERVER)
            .await?;
        Ok(())
    })
    .await
}

/// Deletes an object that an earlier version created.
async fn delete_retired(resources: &Resources, plural: &str, name: &str) -> Result<(), Failure> {
    let kind = kind::find(GROUP, "v1", plural).ok_or_else(Failure::no_such_path)?;
    let target = &Target::object(kind, "", name);
    match resources.stored(target).await? {
        Some(stored) if default_roles::is_default(&stored.object) => {}
        _ => return Ok(()),
    }
    match resources.delete_object(target, &Default::default()).await {
        Err(failure) if failure.code() != StatusCode::NOT_FOUND => Err(failure),
        // Another server deleted the object first.
        _ => Ok(()),
    }
}

fn is_bound_elsewhere(stored: &Value, desired: &Value) -> bool {
    child(stored, "roleRef") != child(desired, "roleRef")
}

/// Returns the object with missing entries added and withdrawn entries removed; `None` if it is complete.
pub(super) fn completed(stored: &Value, desired: &Value) -> Option<Value> {
    let mut completed = stored.clone();
    let mut is_changed = false;
    for field in ["labels", "annotations"] {
        let desired = child(child(desired, "metadata"), field);
        for (key, value) in desired.as_object().into_iter().flatten() {
            if child(child(child(stored, "metadata"), field), key).is_null()
                && let Some(metadata) = completed.get_mut("metadata")
            {
                object_mut(metadata, field).insert(key.clone(), value.clone());
                is_changed = true;
            }
        }
    }
    let kept = rules_without_withdrawn(stored);
    if kept.len() < items(stored, "rules").len() {
        set(&mut completed, "rules", kept.clone());
        is_changed = true;
    }
    let missing: Vec<Value> = missing_rules(stored, desired);
    let subjects = items(desired, "subjects").iter();
    let absent: Vec<Value> = subjects
        .filter(|subject| !items(stored, "subjects").contains(subject))
        .cloned()
        .collect();
    let subjects = subjects_without_withdrawn(stored);
    if subjects.len() < items(stored, "subjects").len() {
        set(&mut completed, "subjects", subjects.clone());
        is_changed = true;
    }
    for (field, current, added) in [("rules", kept, missing), ("subjects", subjects, absent)] {
        if !added.is_empty() {
            let all: Vec<Value> = current.into_iter().chain(added).collect();
            set(&mut completed, field, all);
            is_changed = true;
        }
    }
    is_changed.then_some(completed)
}

fn rules_without_withdrawn(stored: &Value) -> Vec<Value> {
    let name = text(child(stored, "metadata"), "name");
    let withdrawn: Vec<Value> = WITHDRAWN
        .iter()
        .filter(|(role, _)| *role == name)
        .filter_map(|(_, rule)| serde_json::from_str(rule).ok())
        .collect();
    let rules = items(stored, "rules").iter();
    rules.filter(|rule| !withdrawn.contains(rule)).cloned().collect()
}

fn subjects_without_withdrawn(stored: &Value) -> Vec<Value> {
    let binding = text(child(stored, "metadata"), "name");
    let is_withdrawn = |subject: &&Value| {
        let user = text(subject, "name");
        text(subject, "kind") == "User" && user == binding && WITHDRAWN_USERS.contains(&user)
    };
    let subjects = items(stored, "subjects").iter();
    subjects
        .filter(|subject| !is_withdrawn(subject))
        .cloned()
        .collect()
}

fn missing_rules(stored: &Value, desired: &Value) -> Vec<Value> {
    let read = |role: &Value| -> Vec<PolicyRule> {
        let rules = items(role, "rules").iter();
        rules
            .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
            .collect()
    };
    let (have, want) = (read(stored), read(desired));
    let have: Vec<&PolicyRule> = have.iter().collect();
    want.iter()
        .filter(|rule| !uncovered_rights(&have, [*rule]).is_empty())
        .filter_map(|rule| serde_json::to_value(rule).ok())
        .collect()
}
