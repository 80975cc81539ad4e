//! The merge of an applied configuration with the live object and the managed fields of others.

use serde_json::Value;

use super::compare::Comparison;
use super::conflict::{CONFLICTS_MAX, Conflict};
use super::field_set::FieldSet;
use super::layout::{Layout, fields_of, with_parents};
use super::managers::{Manager, Operation};
use super::{WriteAuthor, merge, remove, updater, without_identity};

/// One server-side apply.
pub(super) struct Application<'a> {
    pub(super) live: &'a Value,
    pub(super) configuration: &'a Value,
    pub(super) author: WriteAuthor<'a>,
    pub(super) layout: Layout,
}

impl Application<'_> {
    /// Returns the resulting object without managed fields, and its field managers.
    pub(super) fn run(
        &self,
        mut managers: Vec<Manager>,
        force: bool,
    ) -> Result<(Value, Vec<Manager>), Vec<Conflict>> {
        let mut own = Manager {
            operation: Operation::Apply,
            fields: fields_of(self.configuration, self.layout),
            ..updater(self.author, self.author.manager)
        };
        let previous = remove(&mut managers, &own);
        let merged = merge::merge(Some(self.live), self.configuration, self.layout);
        let object = match &previous {
            Some(previous) => self.prune(&merged, &previous.fields, &own.fields, &managers),
            None => merged,
        };
        let comparison = Comparison::of(self.live, &object, self.layout);
        let conflicts = release_fields(&mut managers, Some(&own), &comparison, force);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        own.fields = without_identity(&own.fields);
        if comparison.is_empty() {
            // As upstream: an apply that changes no value has no time, and keeps that of the manager's entry.
            own.time = previous.map(|previous| previous.time).unwrap_or_default();
        }
        managers.push(own);
        Ok((object, managers))
    }

    /// Removes the fields that the manager applied before, does not apply now, and no other manager owns.
    fn prune(&self, merged: &Value, previous: &FieldSet, own: &FieldSet, others: &[Manager]) -> Value {
        let previous = with_parents(previous, self.layout);
        let pruned = merge::without_fields(merged, &previous, self.layout);
        let owned = others
            .iter()
            .fold(own.clone(), |all, manager| all.union(&manager.fields));
        let present = |object: &Value| with_parents(&fields_of(object, self.layout), self.layout);
        let (all, kept) = (present(merged), present(&pruned));
        // First restore fields of other managers, then fields that were removed only with their parents.
        let lost = all.difference(&kept.union(&with_parents(&owned, self.layout)));
        let pruned = merge::without_fields(merged, &lost, self.layout);
        let lost = all.difference(&present(&pruned)).intersection(&previous);
        merge::without_fields(merged, &lost, self.layout)
    }
}

/// Removes changed fields from the other managers. Without `force`, fields that a manager owns and the change sets
/// become conflicts, which are returned. `own` is the manager that applies.
pub(super) fn release_fields(
    managers: &mut Vec<Manager>,
    own: Option<&Manager>,
    comparison: &Comparison,
    force: bool,
) -> Vec<Conflict> {
    let written = comparison.written();
    let mut conflicts = Vec::new();
    for manager in managers.iter_mut() {
        debug_assert!(own.is_none_or(|own| !own.is_same(manager)));
        let lost = manager.fields.intersection(&written);
        if !lost.is_empty() && !force {
            let max = CONFLICTS_MAX.saturating_sub(conflicts.len());
            conflicts.extend(Conflict::all_of(manager, &lost, max));
        }
        manager.fields = manager.fields.difference(&lost).difference(&comparison.removed);
    }
    managers.retain(|manager| !manager.fields.is_empty());
    conflicts
}
