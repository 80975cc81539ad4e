//! At the start, the default roles and bindings are made, and what they lack compared with this version of the
//! server is added. What people have added stays, but for what earlier versions gave and this one withdraws; one
//! whose annotation says so stays as it is. What this version no longer has is removed.

use api::kind;
use api::rbac::{GROUP, PolicyRule, uncovered};
use api::tree::{child, items, object_mut, set, text};
use futures_util::future::try_join_all;
use http::StatusCode;
use serde_json::Value;

use super::default_roles::{self, AUTO_UPDATE};
use crate::failure::Failure;
use crate::request::route::Target;
use crate::verbs::resource::{Intent, Interruption, Resources, decided};

/// Rules that earlier versions gave to default roles and that this one withdraws: the role, and the rule as it was stored.
const WITHDRAWN: [(&str, &str); 2] = [
    // Edges report their ports in Leases of their own (`super::edge_report`).
    (
        "system:portolan-edge",
        r#"{"apiGroups": [""], "resources": ["services/status"], "verbs": ["patch"]}"#,
    ),
    // Edges read the Secrets that Services name (`super::edge`).
    (
        "system:portolan-edge",
        r#"{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}"#,
    ),
];
/// Users that earlier versions bound to default roles by bindings of these names, and that all joined machines shared.
const WITHDRAWN_USERS: [&str; 2] = ["system:portolan-announcer", "system:portolan-edge"];

/// Makes what is missing; gives the name of what could not be made, and why.
pub(crate) async fn ensure_default_roles(resources: &Resources) -> Result<(), (String, Failure)> {
    // All at once, so that they share commits.
    let each = default_roles::all()
        .into_iter()
        .map(|(plural, wanted)| async move {
            let name = text(child(&wanted, "metadata"), "name").to_owned();
            ensure(resources, plural, &name, &wanted)
                .await
                .map_err(|failure| (name, failure))
        });
    try_join_all(each).await?;
    for (plural, name) in default_roles::retired() {
        let removed = retire(resources, plural, name).await;
        removed.map_err(|failure| (name.to_owned(), failure))?;
    }
    resources.admission.authorizer.refresh();
    Ok(())
}

async fn ensure(resources: &Resources, plural: &str, name: &str, wanted: &Value) -> Result<(), Failure> {
    let kind = kind::find(GROUP, "v1", plural).ok_or_else(Failure::no_such_path)?;
    let namespace = text(child(wanted, "metadata"), "namespace");
    let target = &Target::object(kind, namespace, name);
    decided(target, || async {
        let Some(stored) = resources.stored(target).await? else {
            let created = resources.create_object(target, wanted.clone(), Vec::new(), Intent::SERVER);
            return match created.await {
                Ok(_) => Ok(()),
                // Another server was quicker; what it has made is looked at.
                Err(Interruption::Failed(failure)) if failure.reason() == "AlreadyExists" => {
                    Err(Interruption::Overtaken)
                }
                Err(other) => Err(other),
            };
        };
        if text(child(stored.metadata(), "annotations"), AUTO_UPDATE) == "false" {
            return Ok(());
        }
        if is_bound_elsewhere(&stored.object, wanted) {
            // A binding never changes its role, so a new one takes its place.
            resources.delete_object(target, &Default::default()).await?;
            return Err(Interruption::Overtaken);
        }
        let Some(completed) = completed(&stored.object, wanted) else {
            return Ok(());
        };
        resources
            .replace(target, stored, completed, Vec::new(), Intent::SERVER)
            .await?;
        Ok(())
    })
    .await
}

/// Removes what an earlier version of the server made.
async fn retire(resources: &Resources, plural: &str, name: &str) -> Result<(), Failure> {
    let kind = kind::find(GROUP, "v1", plural).ok_or_else(Failure::no_such_path)?;
    let target = &Target::object(kind, "", name);
    match resources.stored(target).await? {
        Some(stored) if default_roles::is_default(&stored.object) => {}
        _ => return Ok(()),
    }
    match resources.delete_object(target, &Default::default()).await {
        Err(failure) if failure.code() != StatusCode::NOT_FOUND => Err(failure),
        // Another server was quicker.
        _ => Ok(()),
    }
}

fn is_bound_elsewhere(found: &Value, wanted: &Value) -> bool {
    child(found, "roleRef") != child(wanted, "roleRef")
}

/// An object with what it lacks, and without what is withdrawn; nothing if that is what it is.
pub(super) fn completed(found: &Value, wanted: &Value) -> Option<Value> {
    let mut completed = found.clone();
    let mut lacks = false;
    for field in ["labels", "annotations"] {
        let wanted = child(child(wanted, "metadata"), field);
        for (key, value) in wanted.as_object().into_iter().flatten() {
            if child(child(child(found, "metadata"), field), key).is_null()
                && let Some(metadata) = completed.get_mut("metadata")
            {
                object_mut(metadata, field).insert(key.clone(), value.clone());
                lacks = true;
            }
        }
    }
    let kept = rules_without_withdrawn(found);
    if kept.len() < items(found, "rules").len() {
        set(&mut completed, "rules", kept.clone());
        lacks = true;
    }
    let missing: Vec<Value> = missing_rules(found, wanted);
    let subjects = items(wanted, "subjects").iter();
    let absent: Vec<Value> = subjects
        .filter(|subject| !items(found, "subjects").contains(subject))
        .cloned()
        .collect();
    let subjects = subjects_without_withdrawn(found);
    if subjects.len() < items(found, "subjects").len() {
        set(&mut completed, "subjects", subjects.clone());
        lacks = true;
    }
    for (field, are, more) in [("rules", kept, missing), ("subjects", subjects, absent)] {
        if !more.is_empty() {
            let all: Vec<Value> = are.into_iter().chain(more).collect();
            set(&mut completed, field, all);
            lacks = true;
        }
    }
    lacks.then_some(completed)
}

fn rules_without_withdrawn(found: &Value) -> Vec<Value> {
    let name = text(child(found, "metadata"), "name");
    let withdrawn: Vec<Value> = WITHDRAWN
        .iter()
        .filter(|(role, _)| *role == name)
        .filter_map(|(_, rule)| serde_json::from_str(rule).ok())
        .collect();
    let rules = items(found, "rules").iter();
    rules.filter(|rule| !withdrawn.contains(rule)).cloned().collect()
}

fn subjects_without_withdrawn(found: &Value) -> Vec<Value> {
    let binding = text(child(found, "metadata"), "name");
    let is_withdrawn = |subject: &&Value| {
        let user = text(subject, "name");
        text(subject, "kind") == "User" && user == binding && WITHDRAWN_USERS.contains(&user)
    };
    let subjects = items(found, "subjects").iter();
    subjects
        .filter(|subject| !is_withdrawn(subject))
        .cloned()
        .collect()
}

fn missing_rules(found: &Value, wanted: &Value) -> Vec<Value> {
    let read = |role: &Value| -> Vec<PolicyRule> {
        let rules = items(role, "rules").iter();
        rules
            .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
            .collect()
    };
    let (have, want) = (read(found), read(wanted));
    let have: Vec<&PolicyRule> = have.iter().collect();
    want.iter()
        .filter(|rule| !uncovered(&have, [*rule]).is_empty())
        .filter_map(|rule| serde_json::to_value(rule).ok())
        .collect()
}
