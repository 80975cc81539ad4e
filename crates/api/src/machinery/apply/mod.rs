//! Server-side apply: ownership of fields, and the merge of a configuration with the fields of other managers.
//!
//! `metadata.managedFields` records the ownership from the creation of an object. A client may reset it. The next
//! apply then starts again, with all existing fields owned by [`BEFORE_FIRST_APPLY`].
//!
//! # Example
//!
//! ```
//! use api::apply::{WriteAuthor, apply, read_configuration};
//! use api::kind;
//!
//! let kind = kind::find("", "v1", "services").expect("the kind Service");
//! let author = |manager| WriteAuthor { kind, subresource: None, manager, time: "2026-01-01T12:00:00Z" };
//! let body = b"{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort}}";
//! let service = apply(None, &read_configuration(body, kind)?, author("ann"), false)?;
//! assert_eq!(service["metadata"]["managedFields"][0]["manager"], "ann");
//!
//! // Another manager may not change the type without force.
//! let body = b"{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: ClusterIP}}";
//! let configuration = read_configuration(body, kind)?;
//! let error = apply(Some(&service), &configuration, author("bob"), false).unwrap_err();
//! assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "ann": .spec.type"#);
//! # Ok::<(), api::apply::ApplyError>(())
//! ```

mod application;
mod check;
mod compare;
mod conflict;
mod creation;
mod equality;
mod field_set;
mod fields_v1;
mod last_applied;
mod layout;
mod managers;
mod merge;

use serde_json::Value;
use thiserror::Error;

pub use conflict::Conflict;
pub use equality::is_same_except_times;

use crate::kinds::kind::Kind;
use crate::machinery::decode::{DecodeError, Format, decode_untyped};
use crate::machinery::tree::{child, clear, set, text};
use application::{Application, release_fields};
use compare::Comparison;
use creation::{created_fields, managed_fields, zero_of};
use field_set::FieldSet;
use layout::Layout;
use managers::{Manager, Operation};

/// Manager of the fields that existed before the first apply.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Manager of writes without a field manager.
const UNKNOWN: &str = "unknown";

/// Author of a write: the field manager, and the object that it writes.
#[derive(Clone, Copy, Debug)]
pub struct WriteAuthor<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The subresource, unless the object itself is written.
    pub subresource: Option<&'a str>,
    /// The name of the field manager.
    pub manager: &'a str,
    /// Time of the write: RFC 3339 in whole seconds.
    pub time: &'a str,
}

/// Failure to apply a configuration. The message is sent to the client, and a retry does not help unless stated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The body is not YAML, or not an object. The response is 400 `BadRequest`.
    #[error("error decoding YAML: {0}")]
    Syntax(String),
    /// The body has too many values. The response is 413 `RequestEntityTooLarge`.
    #[error(transparent)]
    TooLarge(DecodeError),
    /// `apiVersion` and `kind` differ from those of the path. The response is 400 `BadRequest`.
    #[error("invalid object type: {api_version}, Kind={kind}")]
    WrongKind {
        /// The `apiVersion` of the body.
        api_version: String,
        /// The `kind` of the body.
        kind: String,
    },
    /// The configuration contains managed fields. The response is 400 `BadRequest`.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// A field is unknown or has another type, or a list item is duplicate. The response is 500 without a reason, as
    /// in upstream.
    #[error("failed to create typed patch object ({object}): {errors}")]
    Untyped {
        /// Namespace, name and type of the object.
        object: String,
        /// Errors with their paths.
        errors: String,
    },
    /// Other managers own fields that the configuration changes. With force it applies. The response is 409
    /// `Conflict` with one cause for each conflict.
    #[error("{}", conflict::message(.0))]
    Conflicts(Vec<Conflict>),
}

/// Parses the body of an apply, and checks it against the schema of its kind.
///
/// # Errors
/// See [`ApplyError`].
pub fn read_configuration(body: &[u8], kind: &Kind) -> Result<Value, ApplyError> {
    let configuration = decode_untyped(body, Format::Yaml).map_err(|error| match error {
        DecodeError::TooManyValues => ApplyError::TooLarge(error),
        other => ApplyError::Syntax(other.to_string()),
    })?;
    let configuration = configuration.object;
    if !configuration.is_object() {
        return Err(ApplyError::Syntax("expected an object as configuration".into()));
    }
    let (api_version, kind_name) = (text(&configuration, "apiVersion"), text(&configuration, "kind"));
    if !kind.is_api_version(api_version) || kind_name != kind.kind {
        return Err(ApplyError::WrongKind {
            api_version: api_version.to_owned(),
            kind: kind_name.to_owned(),
        });
    }
    let metadata = child(&configuration, "metadata");
    if metadata
        .get("managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::ManagedFields);
    }
    let errors = check::errors(&configuration, kind);
    if errors.is_empty() {
        return Ok(configuration);
    }
    let separator = if kind.group.is_empty() { "/" } else { "" };
    Err(ApplyError::Untyped {
        object: format!(
            "{}/{}; {separator}{api_version}, Kind={kind_name}",
            text(metadata, "namespace"),
            text(metadata, "name")
        ),
        errors: match errors.as_slice() {
            [error] => error.clone(),
            all => format!("errors:\n  {}", all.join("\n  ")),
        },
    })
}

/// Applies a configuration from [`read_configuration`] to a live object, or creates an object. Fields that the
/// manager applied before and now omits are removed, unless others own them. The result includes the updated managed
/// fields.
///
/// # Errors
/// [`ApplyError::Conflicts`] if others own changed fields and `force` is false.
pub fn apply(
    live: Option<&Value>,
    configuration: &Value,
    author: WriteAuthor<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let (bare, mut managers) = live.map_or(
        (Value::Object(serde_json::Map::new()), Vec::new()),
        split_managed_fields,
    );
    if managers.is_empty() && live.is_some() {
        managers.extend(before_first_apply(&bare, author));
    }
    let application = Application {
        live: &bare,
        configuration: &without_reset_fields(configuration, author),
        author,
        layout: Layout::of_kind(author.kind),
    };
    let applied = application.run(managers.clone(), force);
    let (mut object, managers) = match applied {
        Err(conflicts) => {
            let remaining = last_applied::without_allowed(conflicts, &application);
            if !remaining.is_empty() {
                return Err(ApplyError::Conflicts(remaining));
            }
            application.run(managers, true).map_err(ApplyError::Conflicts)?
        }
        Ok(applied) => applied,
    };
    last_applied::renew(&mut object, &application, configuration);
    if author.subresource == Some("status") {
        object = with_spec(object, configuration, application.layout);
    }
    record(&mut object, managers);
    Ok(object)
}

/// Returns the managed fields of a new object, which has its defaults. `requested` is `managedFields` of the request.
pub fn record_creation(object: &Value, requested: Option<&Value>, author: WriteAuthor<'_>) -> Option<Value> {
    let managers = requested.and_then(managers::parse).unwrap_or_default();
    if !managers.is_empty() {
        return record_changes(managers, zero_of(author.kind), object, author);
    }
    let fields = created_fields(object, author.kind, author.kind.has_status().then_some("status"))?;
    Some(Value::Array(vec![updater(author, author.manager).entry(fields)]))
}

/// Returns the managed fields after an update from `old` to `new`, which has its defaults; `None` if nothing
/// is recorded. `requested` is `managedFields` of the request: an empty list resets the record, and a valid
/// one replaces it.
pub fn record_update(
    new: &Value,
    old: &Value,
    requested: Option<&Value>,
    author: WriteAuthor<'_>,
) -> Option<Value> {
    let kept = || managers::parse(managed_fields(old)).unwrap_or_default();
    let managers = match requested.filter(|_| author.subresource.is_none()) {
        Some(requested) if is_reset(requested) => Vec::new(),
        // As upstream: entries without fields replace those of the object, too.
        Some(requested) => managers::parse(requested)
            .filter(|_| requested.as_array().is_some_and(|entries| !entries.is_empty()))
            .unwrap_or_else(kept),
        None => kept(),
    };
    if managers.is_empty() {
        return None;
    }
    record_changes(managers, old, new, author)
}

/// Returns the managed fields of `managers` after an update by `author`.
fn record_changes(
    mut managers: Vec<Manager>,
    old: &Value,
    new: &Value,
    author: WriteAuthor<'_>,
) -> Option<Value> {
    let mut comparison = Comparison::of_objects(old, new, Layout::of_kind(author.kind));
    for reset in reset_fields(author) {
        comparison.exclude(reset);
    }
    let written = without_identity(&comparison.written()).difference(&always_present());
    let mut own = updater(author, author.manager);
    release_fields(&mut managers, None, &comparison, true);
    if !written.is_empty() {
        let previous = remove(&mut managers, &own).map(|manager| manager.fields);
        own.fields = written.union(&previous.unwrap_or_default());
        managers.push(own);
    }
    managers::merge_oldest_updaters(&mut managers);
    (!managers.is_empty()).then(|| managers::format(managers))
}

/// Splits an object into the object without managed fields, and its managers. Malformed managed fields count as none.
fn split_managed_fields(object: &Value) -> (Value, Vec<Manager>) {
    let managers = managers::parse(managed_fields(object)).unwrap_or_default();
    let mut bare = object.clone();
    if let Some(metadata) = bare.get_mut("metadata") {
        clear(metadata, "managedFields");
    }
    (bare, managers)
}

fn record(object: &mut Value, managers: Vec<Manager>) {
    let records = managers::format(managers);
    if records.as_array().is_some_and(|entries| !entries.is_empty())
        && let Some(metadata) = object.get_mut("metadata")
    {
        set(metadata, "managedFields", records);
    }
}

fn remove(managers: &mut Vec<Manager>, searched: &Manager) -> Option<Manager> {
    let index = managers.iter().position(|manager| manager.is_same(searched))?;
    Some(managers.remove(index))
}

/// Returns the author as a manager named `name` with operation `Update` and without fields.
fn updater(author: WriteAuthor<'_>, name: &str) -> Manager {
    Manager {
        name: match name {
            "" => UNKNOWN,
            name => name,
        }
        .to_owned(),
        operation: Operation::Update,
        api_version: author.kind.api_version(),
        subresource: author.subresource.unwrap_or_default().to_owned(),
        time: author.time.to_owned(),
        fields: FieldSet::default(),
    }
}

/// Returns the manager of all existing fields.
fn before_first_apply(live: &Value, author: WriteAuthor<'_>) -> Option<Manager> {
    let mut all = Comparison::of_objects(zero_of(author.kind), live, Layout::of_kind(author.kind));
    for reset in reset_fields(author) {
        all.exclude(reset);
    }
    let manager = Manager {
        fields: without_identity(&all.written()),
        ..updater(author, BEFORE_FIRST_APPLY)
    };
    (!manager.fields.is_empty()).then_some(manager)
}

/// Removes the fields that have no owner.
fn without_identity(fields: &FieldSet) -> FieldSet {
    fields.difference(&FieldSet::of_names(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ]))
}

/// Returns fields that no update creates: objects of these types always have them, even if they are not serialized.
fn always_present() -> FieldSet {
    FieldSet::of_names(&[&["spec"], &["status"], &["status", "loadBalancer"]])
}

/// Returns the fields that a path does not write: `status`, or `spec` for the path of the status (API-12). They are
/// neither set nor owned. Of some kinds, the path of the status does not write parts of the metadata either (upstream:
/// `GetResetFields` of the strategies of the status).
fn reset_fields(author: WriteAuthor<'_>) -> &'static [&'static [&'static str]] {
    match author.subresource {
        Some("status") => match author.kind.kind {
            "ServiceCIDR" => &[&["spec"], &["metadata"]],
            "Deployment" => &[&["spec"], &["metadata", "labels"]],
            "Pod" => &[&["spec"], &["metadata", "ownerReferences"]],
            _ => &[&["spec"]],
        },
        _ if author.kind.has_status() => &[&["status"]],
        _ => &[],
    }
}

/// Removes the fields that the path does not write.
fn without_reset_fields(configuration: &Value, author: WriteAuthor<'_>) -> Value {
    let mut written = configuration.clone();
    for reset in reset_fields(author) {
        match reset {
            [field] => clear(&mut written, field),
            [parent, field] => {
                if let Some(parent) = written.get_mut(*parent) {
                    clear(parent, field);
                }
            }
            _ => {}
        }
    }
    written
}

/// Merges the spec of a configuration for the status. As upstream: it has no owner, and defaults can depend on it before the
/// server restores the stored spec.
fn with_spec(object: Value, configuration: &Value, layout: Layout) -> Value {
    match configuration.get("spec") {
        Some(spec) if spec.is_object() => {
            merge::merge(Some(&object), &serde_json::json!({ "spec": spec }), layout)
        }
        _ => object,
    }
}

/// Returns true if a client resets the managed fields: an empty list, or a list of one empty entry.
fn is_reset(requested: &Value) -> bool {
    match requested.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
