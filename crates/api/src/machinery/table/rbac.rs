//! Rows of roles and their bindings.

use serde_json::Value;

use super::{AGE, Layout, NAME, age, column, name, wide};
use crate::machinery::tree::{child, items, text};

pub(super) static ROLE: Layout = Layout {
    columns: &[NAME, column("Created At", "When the role was created.")],
    cells: |role, _| {
        let created = text(child(role, "metadata"), "creationTimestamp");
        vec![name(role), created.into()]
    },
};

pub(super) static BINDING: Layout = Layout {
    columns: &[
        NAME,
        column("Role", "The role that is granted."),
        AGE,
        wide("Users", "The users that it is granted to."),
        wide("Groups", "The groups that it is granted to."),
        wide("ServiceAccounts", "The ServiceAccounts that it is granted to."),
    ],
    cells: |binding, now| {
        let role = child(binding, "roleRef");
        vec![
            name(binding),
            format!("{}/{}", text(role, "kind"), text(role, "name")).into(),
            age::of(binding, now),
            subjects(binding, "User").into(),
            subjects(binding, "Group").into(),
            subjects(binding, "ServiceAccount").into(),
        ]
    },
};

/// The names of the subjects of a kind; those in a namespace with it.
fn subjects(binding: &Value, kind: &str) -> String {
    let named = items(binding, "subjects")
        .iter()
        .filter(|subject| text(subject, "kind") == kind);
    let names = named.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
        _ => text(subject, "name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}
