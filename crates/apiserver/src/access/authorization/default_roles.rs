//! The default roles and bindings of `default_roles.yaml`.

use std::sync::OnceLock;

use api::decode::{Format, decode_untyped};
use api::rbac::{GROUP, PolicyRule};
use api::tree::{child, text, texts};
use serde_json::{Value, json};

const TEXT: &str = include_str!("default_roles.yaml");

/// Label of default roles and bindings (upstream).
const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
/// Annotation that permits a new server version to complete the object; `false` disables this.
pub(super) const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Namespace of roles and bindings, with their plurals and kinds.
struct Scope<'a> {
    namespace: &'a str,
    roles: (&'static str, &'static str),
    bindings: (&'static str, &'static str),
}

impl<'a> Scope<'a> {
    const CLUSTER: Scope<'static> = Scope {
        namespace: "",
        roles: ("clusterroles", "ClusterRole"),
        bindings: ("clusterrolebindings", "ClusterRoleBinding"),
    };

    fn of_namespace(namespace: &'a str) -> Scope<'a> {
        Scope {
            namespace,
            roles: ("roles", "Role"),
            bindings: ("rolebindings", "RoleBinding"),
        }
    }

    /// Returns the objects of a table with `roles` and `bindings`, with their plurals.
    fn objects(&self, table: &Value) -> Vec<(&'static str, Value)> {
        let roles = entries(table, "roles").map(|(name, rules)| {
            let mut object = self.header(self.roles.1, name);
            object["rules"] = rules.clone();
            (self.roles.0, object)
        });
        let bindings = entries(table, "bindings").map(|(name, binding)| {
            let role = json!({"apiGroup": GROUP, "kind": self.roles.1, "name": text(binding, "role")});
            let mut object = self.header(self.bindings.1, name);
            object["roleRef"] = role;
            object["subjects"] = subjects(binding);
            (self.bindings.0, object)
        });
        roles.chain(bindings).collect()
    }

    fn header(&self, kind: &str, name: &str) -> Value {
        let mut metadata =
            json!({"name": name, "labels": {LABEL.0: LABEL.1}, "annotations": {AUTO_UPDATE: "true"}});
        if !self.namespace.is_empty() {
            metadata["namespace"] = self.namespace.into();
        }
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": metadata})
    }
}

/// Returns all default roles and bindings, with their plurals.
pub(super) fn all() -> Vec<(&'static str, Value)> {
    let table = table();
    let namespaced = entries(table, "namespaces")
        .flat_map(|(namespace, table)| Scope::of_namespace(namespace).objects(table));
    Scope::CLUSTER
        .objects(table)
        .into_iter()
        .chain(namespaced)
        .collect()
}

/// Returns plurals and names of the objects that earlier versions created and this version removes, bindings first.
pub(super) fn retired_objects() -> Vec<(&'static str, &'static str)> {
    let retired = child(table(), "retired");
    let names = |plural| texts(retired, plural).into_iter().map(move |name| (plural, name));
    names("clusterrolebindings")
        .chain(names("clusterroles"))
        .collect()
}

/// Returns true if a server created the object and automatic updates are enabled.
pub(super) fn is_default(object: &Value) -> bool {
    let metadata = child(object, "metadata");
    text(child(metadata, "labels"), LABEL.0) == LABEL.1
        && text(child(metadata, "annotations"), AUTO_UPDATE) != "false"
}

/// Returns the rules of a default ClusterRole; none if there is no such role.
pub(super) fn rules_of_role(name: &str) -> Vec<PolicyRule> {
    let rules = child(child(table(), "roles"), name).clone();
    serde_json::from_value(rules).unwrap_or_default()
}

/// Parses the embedded file, unless it is parsed already.
pub(super) fn load() {
    table();
}

/// Parses the embedded file once. A test checks that it parses.
fn table() -> &'static Value {
    static TABLE: OnceLock<Value> = OnceLock::new();
    TABLE.get_or_init(|| {
        decode_untyped(TEXT.as_bytes(), Format::Yaml).map_or(Value::Null, |decoded| decoded.object)
    })
}

fn entries<'t>(table: &'t Value, field: &str) -> impl Iterator<Item = (&'t String, &'t Value)> {
    child(table, field).as_object().into_iter().flatten()
}

fn subjects(binding: &Value) -> Value {
    let subjects_of_kind = |kind: &'static str, field| {
        texts(binding, field)
            .into_iter()
            .map(move |name| json!({"apiGroup": GROUP, "kind": kind, "name": name}))
    };
    let accounts = texts(binding, "serviceAccounts")
        .into_iter()
        .filter_map(|name| name.split_once('/'))
        .map(|(namespace, name)| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
    subjects_of_kind("User", "users")
        .chain(subjects_of_kind("Group", "groups"))
        .chain(accounts)
        .collect()
}
