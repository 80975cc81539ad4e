//! The merge of what a manager wants with what is there and who owns it.

use serde_json::Value;

use super::compare::Comparison;
use super::conflict::Conflict;
use super::field_set::FieldSet;
use super::layout::{Layout, fields_of, with_parents};
use super::managers::{Manager, Operation};
use super::{Author, merge, remove, updater, without_identity};

/// One apply.
pub(super) struct Application<'a> {
    pub(super) live: &'a Value,
    pub(super) configuration: &'a Value,
    pub(super) author: Author<'a>,
    pub(super) layout: Layout,
}

impl Application<'_> {
    /// The object that comes out, without its records, and the records.
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
        let former = remove(&mut managers, &own);
        let merged = merge::merged(Some(self.live), self.configuration, self.layout);
        let object = match &former {
            Some(former) => self.pruned(&merged, &former.fields, &own.fields, &managers),
            None => merged,
        };
        let comparison = Comparison::of(self.live, &object, self.layout);
        let conflicts = take_away(&mut managers, Some(&own), &comparison, force);
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
        own.fields = without_identity(&own.fields);
        if let Some(former) = former
            && comparison.is_empty()
            && former.fields == own.fields
        {
            own.time = former.time;
        }
        managers.push(own);
        Ok((object, managers))
    }

    /// The merged object without what was applied formerly, is not applied now and nobody owns.
    fn pruned(&self, merged: &Value, former: &FieldSet, own: &FieldSet, others: &[Manager]) -> Value {
        let former = with_parents(former, self.layout);
        let pruned = merge::without(merged, &former, self.layout);
        let owned = others.iter().fold(own.clone(), |all, m| all.union(&m.fields));
        let present = |object: &Value| with_parents(&fields_of(object, self.layout), self.layout);
        let (all, kept) = (present(merged), present(&pruned));
        // First comes back what somebody owns, then what went only because it stood within something that went.
        let lost = all.difference(&kept.union(&with_parents(&owned, self.layout)));
        let pruned = merge::without(merged, &lost, self.layout);
        let lost = all.difference(&present(&pruned)).intersection(&former);
        merge::without(merged, &lost, self.layout)
    }
}

/// Takes from all managers what a change takes from them. Without force nothing is taken from those that lose what
/// somebody else sets; those conflicts come back.
pub(super) fn take_away(
    managers: &mut Vec<Manager>,
    own: Option<&Manager>,
    comparison: &Comparison,
    force: bool,
) -> Vec<Conflict> {
    let written = comparison.written();
    let mut conflicts = Vec::new();
    for manager in managers.iter_mut() {
        debug_assert!(own.is_none_or(|own| !own.is(manager)));
        let lost = manager.fields.intersection(&written);
        if !lost.is_empty() && !force {
            conflicts.extend(Conflict::of(manager, &lost));
        }
        manager.fields = manager.fields.difference(&lost).difference(&comparison.removed);
    }
    managers.retain(|manager| !manager.fields.is_empty());
    conflicts
}
