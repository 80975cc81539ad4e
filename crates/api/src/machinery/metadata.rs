//! Rules of `metadata`, the same for every kind but for the form of the name.

use std::collections::HashSet;

use serde_json::Value;

use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{
    child, entries, flag_if_set, is_set, items, number, omit_null, omit_zero, set, text, texts,
};
use crate::machinery::{ip, names};

/// Most bytes of all annotations' keys and values together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// Faults for more than one controller among the owners. Each repeats the whole list, as upstream's does, so that one for each
/// owner would take gigabytes.
const SURPLUS_CONTROLLERS_MAX: usize = 3;

/// The form that a kind's names have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameForm {
    /// A DNS-1123 label: Namespaces, and Services since their names were relaxed (VAL-01).
    DnsLabel,
    /// A DNS-1123 subdomain: most kinds.
    DnsSubdomain,
    /// Anything that is one segment of a URL path: roles and their bindings.
    PathSegment,
    /// A canonical IP address: IPAddress (CIDR-12).
    IpAddress,
}

impl NameForm {
    /// What is wrong with `name`; as the prefix of a generated name it may end in a hyphen.
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

/// What is wrong with `name` as an object's name of this form, for callers that have only the name.
pub fn name_faults(form: NameForm, name: &str) -> Vec<String> {
    form.faults(name, false)
}

/// Leaves out of `metadata` what the reference never writes out when it is empty.
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

/// Leaves out owners that are named twice in the same words; gives the warning for it, if there were any.
pub fn drop_duplicate_owners(object: &mut Value) -> Option<String> {
    let metadata = object.get_mut("metadata")?;
    let owners = items(metadata, "ownerReferences");
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut twice: Vec<String> = Vec::new();
    // By a hash: comparing each with all before takes minutes for as many as fit into a body.
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

/// The rules for a new object's metadata.
pub fn validate(object: &Value, form: NameForm, namespaced: bool) -> FieldErrors {
    let metadata = child(object, "metadata");
    let mut errors = Vec::new();
    validate_form(&mut errors, metadata, form, namespaced);
    validate_finalizer_names(&mut errors, metadata);
    errors
}

/// The rules for the metadata of a template at `path`: its labels and annotations. The reference tells them by the
/// template's own path.
pub(crate) fn validate_template(errors: &mut FieldErrors, metadata: &Value, path: &Path) {
    validate_labels(errors, &path.child("labels"), entries(metadata, "labels"));
    validate_annotations(errors, metadata, &path.child("annotations"));
}

/// The rules for changed metadata (VAL-56): identity and times stay, and nothing new holds back a deletion.
/// The reference asks most of them twice, for every kind and again for this one, so a fault has two causes
/// or three.
pub fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate_update_of_any(new, old);
    let (new, old) = (child(new, "metadata"), child(old, "metadata"));
    validate_transition(&mut errors, new, old);
    validate_finalizer_names(&mut errors, new);
    errors
}

/// Those rules for changed metadata that are asked for every kind. Kinds that ask the rules for new objects
/// again at an update need no others.
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
        let before = texts(old, "finalizers");
        let added: Vec<&str> = texts(new, "finalizers")
            .into_iter()
            .filter(|f| !before.contains(f))
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

/// The rules for a map of labels at `path`: keys are qualified names, values have the form of a label's.
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

/// One `Invalid` for every fault of `value`.
pub fn push_faults(errors: &mut FieldErrors, path: &Path, value: &str, faults: Vec<String>) {
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

fn validate_owners(errors: &mut FieldErrors, metadata: &Value, path: &Path) {
    let owners = items(metadata, "ownerReferences");
    let mut controller = None;
    let mut surplus_controllers = 0;
    for owner in owners {
        let api_version = text(owner, "apiVersion");
        if api_version.is_empty() || api_version.ends_with('/') {
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

/// A finalizer is one of the known ones or says by its prefix whose it is.
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
