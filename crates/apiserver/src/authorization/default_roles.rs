//! The roles and bindings that every cluster has, from `default_roles.yaml`.

use std::sync::OnceLock;

use api::decode::{Format, decode_free};
use api::rbac::{GROUP, PolicyRule};
use api::tree::{child, text, texts};
use serde_json::{Value, json};

const TEXT: &str = include_str!("default_roles.yaml");

/// The label of all of them, by upstream's name.
const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
/// The annotation that lets a new version of the server add what is missing; `false` keeps one as it is.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The objects: plural and object.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    let table = table();
    let roles = entries(table, "roles").map(|(name, rules)| {
        let mut object = header("ClusterRole", name);
        object["rules"] = rules.clone();
        ("clusterroles", object)
    });
    let bindings = entries(table, "bindings").map(|(name, binding)| {
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": text(binding, "role")});
        let mut object = header("ClusterRoleBinding", name);
        object["roleRef"] = role;
        object["subjects"] = subjects(binding);
        ("clusterrolebindings", object)
    });
    roles.chain(bindings).collect()
}

/// The rules of one of the roles.
pub(super) fn rules_of_role(name: &str) -> Vec<PolicyRule> {
    let rules = child(child(table(), "roles"), name).clone();
    serde_json::from_value(rules).unwrap_or_default()
}

/// The text of the program, read; a test reads it too.
fn table() -> &'static Value {
    static TABLE: OnceLock<Value> = OnceLock::new();
    TABLE.get_or_init(|| decode_free(TEXT.as_bytes(), Format::Yaml).unwrap_or_default())
}

fn entries<'t>(table: &'t Value, field: &str) -> impl Iterator<Item = (&'t String, &'t Value)> {
    child(table, field).as_object().into_iter().flatten()
}

fn header(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {"name": name, "labels": {LABEL.0: LABEL.1}, "annotations": {AUTO_UPDATE: "true"}},
    })
}

fn subjects(binding: &Value) -> Value {
    let of_kind = |kind: &'static str, field| {
        texts(binding, field)
            .into_iter()
            .map(move |name| json!({"apiGroup": GROUP, "kind": kind, "name": name}))
    };
    let accounts = texts(binding, "serviceAccounts")
        .into_iter()
        .filter_map(|name| name.split_once('/'))
        .map(|(namespace, name)| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
    of_kind("User", "users")
        .chain(of_kind("Group", "groups"))
        .chain(accounts)
        .collect()
}
