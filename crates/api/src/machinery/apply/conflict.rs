//! Conflicts between managers, as clients are told of them.

use super::field_set::FieldSet;
use super::managers::Manager;

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Who owns it, as it is shown.
    pub manager: String,
    /// The field: `.spec.ports[port=80,protocol="TCP"].targetPort`.
    pub path: String,
    pub(super) fields: FieldSet,
}

impl Conflict {
    /// One conflict for each of the fields that a manager would lose.
    pub(super) fn of(manager: &Manager, lost: &FieldSet) -> Vec<Conflict> {
        let name = manager.describe();
        lost.each()
            .into_iter()
            .map(|fields| Conflict {
                manager: name.clone(),
                path: fields.paths().concat(),
                fields,
            })
            .collect()
    }
}

/// The message of all of them together.
pub(super) fn message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            conflict.manager, conflict.path
        );
    }
    let mut managers: Vec<&str> = conflicts.iter().map(|c| c.manager.as_str()).collect();
    managers.sort_unstable();
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        let own = conflicts.iter().filter(|c| c.manager == manager);
        lines.extend(own.map(|c| format!("- {}", c.path)));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}
