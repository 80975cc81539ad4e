//! ControllerRevisions: the templates that a StatefulSet or DaemonSet has or had.

use api::object::{ControllerRevision, Labels, ObjectMeta};
use api::tree::{child, entries};
use serde_json::{Value, json};

use super::{Inputs, Step, Workload};
use crate::deployment::naming::template_hash;
use crate::owned_objects::reference_to;

/// Label of Pods with their revision: the name for StatefulSets, the hash for DaemonSets.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";
/// Upper bound of names that are tried for a revision; hashes of two templates rarely collide.
const NAMES_TRIED_MAX: i64 = 16;

/// Returns the revision of the current template, or the step that creates it or makes it the latest.
///
/// # Errors
/// Returns the step to write first.
pub(crate) fn update_revision<'a, W: Workload>(
    inputs: &Inputs<'a, W>,
    template: &Value,
    hash_label: &str,
) -> Result<&'a ControllerRevision, Step> {
    let data = data_of(template);
    let revisions = || inputs.revisions.iter().copied();
    let latest = revisions().map(|revision| revision.revision).max().unwrap_or(0);
    let equal = revisions().filter(|revision| revision.data == data);
    if let Some(revision) = equal.max_by_key(|revision| revision.revision) {
        if revision.revision == latest {
            return Ok(revision);
        }
        return Err(Step::RenumberRevision(
            Box::new(revision.metadata.clone()),
            latest + 1,
        ));
    }
    let owner = inputs.workload.metadata();
    let hashes = (0..NAMES_TRIED_MAX).map(|attempt| template_hash(template, attempt));
    let hash = hashes
        .into_iter()
        .find(|hash| !inputs.revision_names.contains(&*format!("{}-{hash}", owner.name)))
        .unwrap_or_default();
    let mut labels: Labels = entries(child(template, "metadata"), "labels")
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    labels.insert(hash_label.to_owned(), hash.clone());
    Err(Step::CreateRevision(Box::new(ControllerRevision {
        metadata: ObjectMeta {
            name: format!("{}-{hash}", owner.name),
            namespace: owner.namespace.clone(),
            labels,
            annotations: owner.annotations.clone(),
            owner_references: vec![reference_to(inputs.workload)],
            ..ObjectMeta::default()
        },
        data,
        revision: latest + 1,
    })))
}

/// Returns the deletion of revisions that are neither in use nor among the `limit` latest others.
pub(crate) fn excess_revisions<W: Workload>(
    inputs: &Inputs<'_, W>,
    in_use: impl Fn(&ControllerRevision) -> bool,
    limit: Option<i64>,
) -> Option<Step> {
    let mut unused: Vec<&ControllerRevision> = inputs.revisions.to_vec();
    unused.retain(|revision| !in_use(revision) && revision.metadata.deletion_timestamp.is_none());
    unused.sort_by_key(|revision| revision.revision);
    let kept = usize::try_from(limit?).unwrap_or(0);
    let excess = unused.len().saturating_sub(kept);
    let excess: Vec<ObjectMeta> = unused[..excess]
        .iter()
        .map(|revision| revision.metadata.clone())
        .collect();
    (!excess.is_empty()).then_some(Step::DeleteRevisions(excess))
}

/// Returns the template of a revision.
pub(crate) fn template_of(revision: &ControllerRevision) -> Value {
    let mut template = child(child(&revision.data, "spec"), "template").clone();
    if let Some(template) = template.as_object_mut() {
        template.shift_remove("$patch");
    }
    template
}

/// Returns the data of a revision: the strategic merge patch that `kubectl rollout undo` sends.
fn data_of(template: &Value) -> Value {
    let mut template = template.clone();
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}
