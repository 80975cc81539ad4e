//! What the agent of a node may do: look at what runs where, and write about itself. Secrets and ConfigMaps it may
//! read only if a Pod of its node refers to them.

use api::kind;
use api::rbac::{Action, PolicyRule};
use serde_json::Value;
use std::sync::OnceLock;
use store::Index;

use super::Attributes;
use super::default_roles;

/// Where the nodes' leases are.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// Whether somebody is a node's agent and may do this.
pub(super) fn allows(attributes: &Attributes<'_>, index: &Index) -> bool {
    let Some(node) = attributes.user.node_name() else {
        return false;
    };
    let Action::Resource {
        verb,
        group,
        resource,
        subresource,
        name,
    } = attributes.action
    else {
        return false;
    };
    match (group, resource, subresource) {
        ("", "secrets" | "configmaps", "") => {
            verb == "get" && refers(index, node, attributes.namespace, resource, name)
        }
        ("", "serviceaccounts", "token") => {
            verb == "create" && refers(index, node, attributes.namespace, resource, name)
        }
        ("coordination.k8s.io", "leases", "") => {
            // The name of a new lease is in its body, where admission looks for it.
            attributes.namespace == LEASE_NAMESPACE
                && (verb == "create" || name == node && matches!(verb, "get" | "update" | "patch" | "delete"))
        }
        _ => rules().iter().any(|rule| rule.allows(&attributes.action)),
    }
}

/// The rules that are the same for every node: those of the role `system:node` but for what is decided above.
pub(super) fn rules() -> &'static [PolicyRule] {
    static RULES: OnceLock<Vec<PolicyRule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut rules = default_roles::rules_of_role("system:node");
        rules.retain(|rule| {
            let decided = ["secrets", "configmaps", "serviceaccounts/token", "leases"];
            !rule
                .resources
                .iter()
                .any(|resource| decided.contains(&resource.as_str()))
        });
        rules
    })
}

/// Whether a Pod on the node refers to an object of its namespace.
fn refers(index: &Index, node: &str, namespace: &str, resource: &str, name: &str) -> bool {
    let Some(pods) = kind::find("", "v1", "pods").filter(|_| !namespace.is_empty() && !name.is_empty())
    else {
        return false;
    };
    let Ok(listing) = index.list(&pods.store_prefix(Some(namespace)), None, None, None) else {
        return false;
    };
    listing.entries.iter().any(|entry| {
        serde_json::from_slice::<Value>(&entry.value)
            .is_ok_and(|pod| pod["spec"]["nodeName"] == node && mentions(&pod["spec"], resource, name))
    })
}

/// The fields by which a Pod's spec names Secrets and ConfigMaps, wherever in it they are.
fn mentions(spec: &Value, resource: &str, name: &str) -> bool {
    if resource == "serviceaccounts" {
        return spec["serviceAccountName"] == name;
    }
    match spec {
        Value::Array(items) => items.iter().any(|item| mentions(item, resource, name)),
        Value::Object(fields) => fields.iter().any(|(field, value)| {
            let is_reference = match resource {
                "secrets" => matches!(
                    field.as_str(),
                    "secretKeyRef" | "secretRef" | "secret" | "imagePullSecrets"
                ),
                _ => matches!(field.as_str(), "configMapKeyRef" | "configMapRef" | "configMap"),
            };
            is_reference && names(value, name) || mentions(value, resource, name)
        }),
        _ => false,
    }
}

fn names(reference: &Value, name: &str) -> bool {
    match reference {
        Value::Array(items) => items.iter().any(|item| names(item, name)),
        _ => reference["name"] == name || reference["secretName"] == name,
    }
}
