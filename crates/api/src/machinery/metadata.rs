//! Rules of `metadata`. Kinds differ in the form of the name only.

use std::collections::HashSet;

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{
    child, entries, flag_if_set, is_set, items, number, omit_null, omit_zero, set, text, texts,
};
use crate::machinery::{ip, names};

/// Maximum number of bytes of all keys and values of annotations.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of errors for surplus controllers among the owners. Each message repeats the whole list, as upstream,
/// so one for each owner would take gigabytes.
const SURPLUS_CONTROLLERS_MAX: usize = 3;

/// Errors of an object from which the faults of further texts are not added. An object may have 100,000 labels, and the error of
/// each takes 400 bytes.
const ERRORS_MAX: usize = 1_000;

/// Form of a kind's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// RFC 1123 label: Namespaces, and Services since their names were relaxed (VAL-01).
    DnsLabel,
    /// RFC 1123 subdomain: most kinds.
    DnsSubdomain,
    /// One segment of a URL path: roles and their bindings.
    PathSegment,
    /// Canonical IP address: IPAddress (CIDR-12).
    IpAddress,
}

impl NameForm {
    /// Returns the broken rules of `name`. The prefix of a generated name may end with a hyphen.
    fn faults(self, name: &str, is_prefix: bool) -> Vec<String> {
        let masked = match name.strip_suffix('-') {
            Some(stem) if is_prefix && !stem.is_empty() => format!("{stem}a"),
            _ => name.to_owned(),
        };
        match self {
            Self::DnsLabel => names::dns_label(&masked),
            Self::DnsSubdomain => names::dns_subdomain(&masked),
            Self::PathSegment => names::path_segment(name),
            Self::IpAddress => ip::canonical_fault(name).into_iter().collect(),
        }
    }
}

/// Returns the rules that `name` breaks as an object name of this form.
pub fn name_faults(form: NameForm, name: &str) -> Vec<String> {
    form.faults(name, false)
}

/// Drops empty fields of `metadata`, which upstream never writes.
pub fn omit_empty(object: &mut Value) {
    const OMITTED: &[&str] = &[
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    if let Some(metadata) = object.get_mut("metadata") {
        omit_zero(metadata, OMITTED);
        omit_null(
            metadata,
            &[
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ],
        );
    }
}

/// Drops duplicate owner references. Returns a warning if there were any.
pub fn drop_duplicate_owners(object: &mut Value) -> Option<String> {
    let metadata = object.get_mut("metadata")?;
    let owners = items(metadata, "ownerReferences");
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut twice: Vec<String> = Vec::new();
    // A hash set: the pairwise comparison of as many owners as fit into a body takes minutes.
    let mut seen = HashSet::with_capacity(owners.len());
    for owner in owners {
        if seen.insert(owner) {
            kept.push(owner.clone());
        } else {
            twice.push(text(owner, "uid").to_owned());
        }
    }
    if twice.is_empty() {
        return None;
    }
    set(metadata, "ownerReferences", kept);
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may \
         reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        twice.join(", ")
    ))
}

/// Validates the metadata of a new object.
pub fn validate(object: &Value, form: NameForm, namespaced: bool) -> FieldErrors {
    let metadata = child(object, "metadata");
    let mut errors = Vec::new();
    validate_form(&mut errors, metadata, form, namespaced);
    validate_finalizer_names(&mut errors, metadata);
    errors
}

/// Validates labels and annotations of a template. Upstream reports them below the path of the template, without
/// `metadata`.
pub(crate) fn validate_template(errors: &mut FieldErrors, metadata: &Value, path: &Path) {
    validate_labels(errors, &path.child("labels"), entries(metadata, "labels"));
    validate_annotations(errors, metadata, &path.child("annotations"));
}

/// Validates changed metadata (VAL-56): identity and times stay, and a deletion gets no new finalizers. Upstream runs
/// most checks twice, for every kind and again for this one, so a fault has two or three causes.
pub fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_update_of_any(new, old);
    let (new, old) = (child(new, "metadata"), child(old, "metadata"));
    validate_transition(&mut errors, new, old);
    validate_finalizer_names(&mut errors, new);
    errors
}

/// Runs the checks of changed metadata for every kind. Kinds that validate an update like a new object need no
/// others.
pub fn validate_update_of_any(new: &Value, old: &Value) -> FieldErrors {
    let (new, old) = (child(new, "metadata"), child(old, "metadata"));
    let namespaced = !text(old, "namespace").is_empty();
    let mut errors = Vec::new();
    validate_form(&mut errors, new, NameForm::PathSegment, namespaced);
    validate_transition(&mut errors, new, old);
    errors
}

fn validate_form(errors: &mut FieldErrors, metadata: &Value, form: NameForm, namespaced: bool) {
    let path = Path::new("metadata");
    let prefix = text(metadata, "generateName");
    if !prefix.is_empty() {
        push_faults(
            errors,
            &path.child("generateName"),
            prefix,
            form.faults(prefix, true),
        );
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required(
            &path.child("name"),
            "name or generateName is required",
        ));
    } else {
        push_faults(errors, &path.child("name"), name, form.faults(name, false));
    }
    validate_namespace(errors, metadata, &path, namespaced);
    let generation = number(metadata, "generation");
    if generation < 0 {
        let fault = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, fault));
    }
    validate_common(errors, metadata, &path);
    validate_finalizers(errors, metadata, &path);
}

fn validate_transition(errors: &mut FieldErrors, new: &Value, old: &Value) {
    let path = Path::new("metadata");
    if is_set(old, "deletionTimestamp") {
        let before: HashSet<&str> = texts(old, "finalizers").into_iter().collect();
        let added: Vec<&str> = texts(new, "finalizers")
            .into_iter()
            .filter(|finalizer| !before.contains(finalizer))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            errors.push(FieldError::forbidden(&path.child("finalizers"), detail));
        }
    }
    if number(new, "generation") < number(old, "generation") {
        let value = number(new, "generation");
        errors.push(FieldError::invalid(
            &path.child("generation"),
            value,
            "must not be decremented",
        ));
    }
    const IMMUTABLE: [&str; 6] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    for field in IMMUTABLE {
        if child(new, field) != child(old, field) {
            let value = child(new, field).clone();
            errors.push(FieldError::invalid(
                &path.child(field),
                value,
                "field is immutable",
            ));
        }
    }
    validate_common(errors, new, &path);
}

/// Validates a map of labels at `path`: keys are qualified names, values label values.
pub fn validate_labels<'a>(
    errors: &mut FieldErrors,
    path: &Path,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
) {
    for (key, value) in labels {
        push_faults(errors, path, key, names::qualified_name(key));
        push_faults(errors, path, value, names::label_value(value));
    }
}

/// Adds an `Invalid` error for each fault of `value`, unless there are very many errors already.
pub fn push_faults(errors: &mut FieldErrors, path: &Path, value: &str, faults: Vec<String>) {
    if errors.len() >= ERRORS_MAX {
        return;
    }
    errors.extend(
        faults
            .into_iter()
            .map(|fault| FieldError::invalid(path, value, fault)),
    );
}

fn validate_namespace(errors: &mut FieldErrors, metadata: &Value, path: &Path, namespaced: bool) {
    let path = path.child("namespace");
    let namespace = text(metadata, "namespace");
    match (namespaced, namespace) {
        (true, "") => errors.push(FieldError::required(&path, "")),
        (true, namespace) => push_faults(errors, &path, namespace, names::dns_label(namespace)),
        (false, "") => {}
        (false, _) => errors.push(FieldError::forbidden(&path, "not allowed on this type")),
    }
}

fn validate_common(errors: &mut FieldErrors, metadata: &Value, path: &Path) {
    validate_labels(errors, &path.child("labels"), entries(metadata, "labels"));
    validate_annotations(errors, metadata, &path.child("annotations"));
    validate_owners(errors, metadata, &path.child("ownerReferences"));
}

fn validate_annotations(errors: &mut FieldErrors, metadata: &Value, path: &Path) {
    let mut bytes = 0;
    for (key, value) in entries(metadata, "annotations") {
        push_faults(errors, path, key, names::qualified_name(&key.to_lowercase()));
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
}

/// Validates the owner references.
fn validate_owners(errors: &mut FieldErrors, metadata: &Value, path: &Path) {
    let owners = items(metadata, "ownerReferences");
    let mut controller = None;
    let mut surplus_controllers = 0;
    for owner in owners {
        let api_version = text(owner, "apiVersion");
        // As upstream: text with two separators has no version.
        let has_version = !api_version.ends_with('/') && api_version.matches('/').count() <= 1;
        if api_version.is_empty() || !has_version {
            errors.push(FieldError::invalid(
                &path.child("apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            let value = text(owner, field);
            if value.is_empty() {
                errors.push(FieldError::invalid(
                    &path.child(field),
                    value,
                    "must not be empty",
                ));
            }
        }
        if api_version == "v1" && text(owner, "kind") == "Event" {
            let fault = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), fault));
        }
        if flag_if_set(owner, "controller") != Some(true) {
            continue;
        }
        let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let fault = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                if surplus_controllers < SURPLUS_CONTROLLERS_MAX {
                    errors.push(FieldError::invalid(path, owners.to_vec(), fault));
                }
                surplus_controllers += 1;
            }
        }
    }
}

fn validate_finalizers(errors: &mut FieldErrors, metadata: &Value, path: &Path) {
    let list_path = path.child("finalizers");
    let finalizers = texts(metadata, "finalizers");
    for finalizer in &finalizers {
        push_faults(errors, &list_path, finalizer, names::qualified_name(finalizer));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let fault = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(&list_path, finalizers, fault));
    }
}

/// Checks that each finalizer is a standard one or has a domain prefix.
fn validate_finalizer_names(errors: &mut FieldErrors, metadata: &Value) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    for (index, finalizer) in texts(metadata, "finalizers").into_iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            let path = Path::new("metadata").child("finalizers").index(index);
            let fault = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&path, finalizer, fault));
        }
    }
}

#[cfg(test)]
mod tests;
