//! Generator of `docs/identities.md`: all users, groups and ServiceAccounts with default rights, taken from the code
//! that grants them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::certificates::NodePart;
use api::tree::{child, items, text, texts};
use serde_json::Value;

use super::default_roles;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/identities.md");

const INTRODUCTION: &str = "\
# Identities and their rights

This page lists the default rights of every cluster. Roles and bindings of the cluster add to them. A test of the crate
`apiserver` compares the page with the code; `PORTOLAN_WRITE_PAGES=1 cargo test -p apiserver --lib identities` regenerates
it.

## Nodes

Each component of a node has its own user. `NODE` is the name of the Node.

| Component | User | Group | Signer of the certificate |
|---|---|---|---|
";

const NODE_MODE: &str = "
A certificate of a node is valid while its Node exists, and only for one incarnation of the Node. The incarnation is in the
certificate (`portolan:incarnation:DIGEST` among its organizational units) and in the annotation `portolan.dev/incarnation`
of the Node.

| Certificate | Node | Valid |
|---|---|---|
| with an incarnation | with the same incarnation | yes |
| without | without both annotations | yes |
| without | with `portolan.dev/certificates-since` | if it was signed since then |
| without | with `portolan.dev/incarnation` | only if an administrator issued it, and not before `portolan.dev/certificates-since` |
| issued by an administrator | no Node exists | for an hour, so that the agent can register the Node |

In addition to the roles below, the authorization mode `Node` grants:

- to the agent of a node: the rules of the role `system:node`. They are restricted to its own Node, its own Pods, its
  own Lease in `kube-node-lease`, and the Secrets, ConfigMaps and ServiceAccount tokens that its Pods need.
- to the edge of a node: `get` of each Secret that a Service references for TLS. The Service must be of type
  LoadBalancer, with addresses that Portolan assigned and the edge serves (`ipMode: Proxy`). The Secret must be in the
  namespace of the Service, or allow that namespace (`portolan.dev/allowed-namespaces`).
- to the edge of a node: `get` of each Secret that an Ingress of a class of Portolan references in its own namespace.
- to the edge of a node: `get` of the Secret `kube-system/portolan-edge-cookies`.
- to the announcer of a node: `get` of each Secret in the namespace `kube-system` that a BGPPeer references and that has the
  type `kubernetes.io/basic-auth`. The announcers of all nodes may read these Secrets. The user
  `system:portolan-load-balancer` and the ServiceAccounts `kube-system/portolan-announcer` and
  `kube-system/portolan-load-balancer` have this right, too.

The API server has no record of the node that serves a Service, so the edges of all nodes may read the Secrets of edges.
The user `system:portolan-load-balancer` and the ServiceAccounts `kube-system/portolan-edge` and
`kube-system/portolan-load-balancer` have the rights of an edge.

The group `system:masters` has all rights. The API server authenticates to the agents of nodes as
`kube-apiserver-kubelet-client` in the group `system:portolan:apiservers`. This user and this group have no rights in
the API.

## Roles of users, groups and ServiceAccounts
";

/// Returns the page that matches the code.
fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    row(
        &mut page,
        &[
            "agent",
            "`system:node:NODE`",
            "`system:nodes`",
            "`kubernetes.io/kube-apiserver-client-kubelet`",
        ],
    );
    for part in NodePart::ALL {
        let (user, group) = (format!("`{}`", part.user("NODE")), format!("`{}`", part.group()));
        let name = format!("{part:?}").to_lowercase();
        row(&mut page, &[&name, &user, &group, "`portolan.dev/node-part`"]);
    }
    page.push_str(NODE_MODE);
    page.push_str("\n| Subject | Roles |\n|---|---|\n");
    let objects = default_roles::all();
    for (subject, roles) in subjects(&objects) {
        row(&mut page, &[&subject, &roles.join(", ")]);
    }
    page.push_str("\n## Rules of the roles\n\n| Role | Verbs | Resources or paths |\n|---|---|---|\n");
    for (_, role) in objects.iter().filter(|(plural, _)| plural.ends_with("roles")) {
        let metadata = child(role, "metadata");
        let name = role_name(text(metadata, "name"), text(metadata, "namespace"));
        for rule in items(role, "rules") {
            row(
                &mut page,
                &[&name, &texts(rule, "verbs").join(", "), &objects_of(rule)],
            );
        }
    }
    page
}

fn row(page: &mut String, cells: &[&str]) {
    // Writing to a String does not fail.
    writeln!(page, "| {} |", cells.join(" | ")).unwrap();
}

fn role_name(name: &str, namespace: &str) -> String {
    match namespace {
        "" => format!("`{name}`"),
        namespace => format!("`{name}` in `{namespace}`"),
    }
}

/// Returns the roles of each subject, sorted.
fn subjects(objects: &[(&'static str, Value)]) -> BTreeMap<String, Vec<String>> {
    let mut subjects: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, binding) in objects
        .iter()
        .filter(|(plural, _)| plural.ends_with("rolebindings"))
    {
        let namespace = text(child(binding, "metadata"), "namespace");
        let role = role_name(text(child(binding, "roleRef"), "name"), namespace);
        for subject in items(binding, "subjects") {
            let name = match text(subject, "kind") {
                "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
                _ => text(subject, "name").to_owned(),
            };
            let key = format!("{} `{name}`", text(subject, "kind"));
            subjects.entry(key).or_default().push(role.clone());
        }
    }
    subjects
}

/// Returns the objects or paths of a rule: `services, pods/status (apps)`, with the names that the rule is limited
/// to.
fn objects_of(rule: &Value) -> String {
    let quoted = |field: &str| {
        let values = texts(rule, field).into_iter().map(|value| format!("`{value}`"));
        values.collect::<Vec<_>>().join(", ")
    };
    let paths = quoted("nonResourceURLs");
    if !paths.is_empty() {
        return paths;
    }
    let groups: Vec<&str> = texts(rule, "apiGroups")
        .into_iter()
        .filter(|group| !group.is_empty())
        .collect();
    let mut cell = quoted("resources");
    if !groups.is_empty() {
        cell.push_str(&format!(" of `{}`", groups.join("`, `")));
    }
    let names = quoted("resourceNames");
    if !names.is_empty() {
        cell.push_str(&format!(", only {names}"));
    }
    cell
}

#[test]
fn page_matches_the_granted_rights() {
    let page = page();
    if std::env::var_os("PORTOLAN_WRITE_PAGES").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap();
    assert!(
        written == page,
        "docs/identities.md differs from the code: regenerate it with PORTOLAN_WRITE_PAGES=1"
    );
}
