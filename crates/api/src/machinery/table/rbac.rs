//! Tables of roles and bindings.

use serde_json::Value;

use super::{AGE, Column, Layout, NAME, age, column, name, wide};
use crate::machinery::tree::{child, items, text};

pub(super) static ROLE: Layout = Layout {
    columns: &[
        NAME,
        Column {
            kind: "date",
            ..column("Created At", "Creation timestamp of the role.")
        },
    ],
    cells: |role, _| {
        let created = text(child(role, "metadata"), "creationTimestamp");
        vec![name(role), created.into()]
    },
};

pub(super) static BINDING: Layout = Layout {
    columns: &[
        NAME,
        column("Role", "Granted role."),
        AGE,
        wide("Users", "Users with the role."),
        wide("Groups", "Groups with the role."),
        wide("ServiceAccounts", "ServiceAccounts with the role."),
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

/// Returns the names of the subjects of a kind; ServiceAccounts with their namespace.
fn subjects(binding: &Value, kind: &str) -> String {
    let subjects = items(binding, "subjects")
        .iter()
        .filter(|subject| text(subject, "kind") == kind);
    let names = subjects.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
        _ => text(subject, "name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}
