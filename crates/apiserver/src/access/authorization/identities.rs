//! The page `docs/identities.md`: every user, group and ServiceAccount that the server gives rights by default, made from
//! the code that gives them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::certificates::NodePart;
use api::tree::{child, items, text, texts};
use serde_json::Value;

use super::default_roles;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/identities.md");

const BEGINNING: &str = "\
# Identities and their rights

This page is made from the code and checked by a test of the crate `apiserver`
(`PORTOLAN_WRITE_PAGES=1 cargo test -p apiserver --lib identities` writes it anew). It shows the rights that every cluster
has from the start; Roles and bindings of the cluster's own come on top.

## Machines

Every machine's part has a user of its own. `NODE` is the name of the machine's Node.

| part | user | group | certificate |
|---|---|---|---|
";

const NODE_MODE: &str = "
A certificate of a machine counts only while its Node exists, and only for the incarnation of the Node that it carries
(`portolan:incarnation:DIGEST` among its organizational units; the annotation `portolan.dev/incarnation` of the Node).
One that carries none counts only if it was signed since the machine joined (annotation
`portolan.dev/certificates-since`), and for a Node with the first annotation only if it was given out by hand.

Beyond the roles below, the authorization mode `Node` allows:

- to the agent of a node, what the role `system:node` says; of Nodes and Pods only its own; of Secrets, ConfigMaps and
  tokens of ServiceAccounts only those that Pods of its node need; of Leases only its own in `kube-node-lease`.
- to the edge of a node, `get` of a Secret that a Service names for TLS by an annotation, if the Service is of type
  LoadBalancer, Portolan has assigned its addresses and the edge serves them (`ipMode: Proxy`), and the Secret is of the
  Service's namespace or allows it (`portolan.dev/allowed-namespaces`); and `get` of the Secret
  `kube-system/portolan-edge-cookies`. Which of the nodes serves a Service the API does not know: the edges of all nodes
  may read these Secrets. The user `system:portolan-load-balancer` and the ServiceAccounts
  `kube-system/portolan-edge` and `kube-system/portolan-load-balancer` may, too.

The group `system:masters` may do everything. The API server itself is `kube-apiserver-kubelet-client` of the group
`system:portolan:apiservers` to the agents of nodes, and has no rights at the API by that name.

## Who has which role
";

/// The page, as the code is.
fn page() -> String {
    let mut page = BEGINNING.to_owned();
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
    page.push_str("\n| user, group or ServiceAccount | roles |\n|---|---|\n");
    let objects = default_roles::all();
    for (subject, roles) in subjects(&objects) {
        row(&mut page, &[&subject, &roles.join(", ")]);
    }
    page.push_str("\n## What the roles allow\n\n| role | verbs | what |\n|---|---|---|\n");
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
    // Writing into a String does not fail.
    writeln!(page, "| {} |", cells.join(" | ")).unwrap();
}

fn role_name(name: &str, namespace: &str) -> String {
    match namespace {
        "" => format!("`{name}`"),
        namespace => format!("`{name}` in `{namespace}`"),
    }
}

/// The roles of each subject, in the order of their names.
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

/// The objects or paths of a rule: `services, pods/status (apps)`, with the names that the rule is limited to.
fn objects_of(rule: &Value) -> String {
    let quoted = |field: &str| {
        let words = texts(rule, field).into_iter().map(|word| format!("`{word}`"));
        words.collect::<Vec<_>>().join(", ")
    };
    let paths = quoted("nonResourceURLs");
    if !paths.is_empty() {
        return paths;
    }
    let groups: Vec<&str> = texts(rule, "apiGroups")
        .into_iter()
        .filter(|group| !group.is_empty())
        .collect();
    let mut what = quoted("resources");
    if !groups.is_empty() {
        what.push_str(&format!(" of `{}`", groups.join("`, `")));
    }
    let names = quoted("resourceNames");
    if !names.is_empty() {
        what.push_str(&format!(", named {names} alone"));
    }
    what
}

#[test]
fn the_page_says_what_the_code_allows() {
    let page = page();
    if std::env::var_os("PORTOLAN_WRITE_PAGES").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap();
    assert!(
        written == page,
        "docs/identities.md differs from the code: write it anew with PORTOLAN_WRITE_PAGES=1"
    );
}
