//! Conflicts between field managers.

use super::field_set::FieldSet;
use super::managers::Manager;

/// A field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Display name of the owner.
    pub manager: String,
    /// Path of the field, for example `.spec.ports[port=80,protocol="TCP"].targetPort`.
    pub path: String,
    pub(super) fields: FieldSet,
}

impl Conflict {
    /// Returns one conflict for each field that a manager would lose.
    pub(super) fn all_of(manager: &Manager, lost: &FieldSet) -> Vec<Conflict> {
        let name = manager.describe();
        lost.single_fields()
            .into_iter()
            .map(|fields| Conflict {
                manager: name.clone(),
                path: fields.paths().concat(),
                fields,
            })
            .collect()
    }
}

/// Returns upstream's message for conflicts.
pub(super) fn message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            conflict.manager, conflict.path
        );
    }
    let mut managers: Vec<&str> = conflicts
        .iter()
        .map(|conflict| conflict.manager.as_str())
        .collect();
    managers.sort_unstable();
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        let own = conflicts.iter().filter(|conflict| conflict.manager == manager);
        lines.extend(own.map(|conflict| format!("- {}", conflict.path)));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}
