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

/// Maximum number of conflicts that name one field each. Each of them repeats the path of its field.
pub(super) const CONFLICTS_MAX: usize = 1_000;

impl Conflict {
    /// Returns one conflict for each field that a manager would lose. Behind the first `max`, one conflict is about all
    /// further fields.
    pub(super) fn all_of(manager: &Manager, lost: &FieldSet, max: usize) -> Vec<Conflict> {
        let name = manager.describe();
        let mut conflicts: Vec<Conflict> = lost
            .single_fields()
            .take(max)
            .map(|fields| Conflict {
                manager: name.clone(),
                path: fields.paths().concat(),
                fields,
            })
            .collect();
        if lost.len() > conflicts.len() {
            let named = conflicts
                .iter()
                .fold(FieldSet::default(), |all, conflict| all.union(&conflict.fields));
            let fields = lost.difference(&named);
            conflicts.push(Conflict {
                manager: name,
                path: format!("{} further fields", fields.len()),
                fields,
            });
        }
        conflicts
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
