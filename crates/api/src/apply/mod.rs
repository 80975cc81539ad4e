//! Server-side apply: who owns which field of an object, and merging what somebody wants with what others own.
//!
//! Ownership is recorded in `metadata.managedFields`, and only from the first apply on: an object that nobody ever
//! applied to has no records, so that ordinary writes cost nothing. At the first apply everything that is there
//! is taken to be owned by [`BEFORE_FIRST_APPLY`], but for what kubectl's client-side apply says to have written.

mod application;
mod check;
mod compare;
mod conflict;
mod field_set;
mod fields_v1;
mod last_applied;
mod layout;
mod managers;
mod merge;

use serde_json::Value;
use thiserror::Error;

pub use conflict::Conflict;

use crate::decode::{Format, decode_free};
use crate::kind::Kind;
use crate::tree::{child, clear, set, text};
use application::{Application, take_away};
use compare::Comparison;
use field_set::FieldSet;
use layout::Layout;
use managers::{Manager, Operation};

/// The manager of what was there when somebody applied for the first time.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Who writes, and what.
#[derive(Clone, Copy, Debug)]
pub struct Author<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The subresource that is written, if not the object itself.
    pub subresource: Option<&'a str>,
    /// The name of the field manager.
    pub manager: &'a str,
    /// The time of the write, RFC 3339 in whole seconds.
    pub time: &'a str,
}

/// Why a configuration was not applied. The text is the client's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// The body is no YAML or no object; the same again does not help. Answer: 400 `BadRequest`.
    #[error("error decoding YAML: {0}")]
    Syntax(String),
    /// `apiVersion` and `kind` are not those of the path; the same again does not help. Answer: 400 `BadRequest`.
    #[error("invalid object type: {api_version}, Kind={kind}")]
    WrongKind {
        /// The `apiVersion` that came.
        api_version: String,
        /// The `kind` that came.
        kind: String,
    },
    /// The configuration sets who owns its fields; the same again does not help. Answer: 400 `BadRequest`.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// A field is unknown, of another type or an item is there twice; the same again does not help. Answer: 500
    /// without a reason, as the reference does.
    #[error("failed to create typed patch object ({object}): {faults}")]
    Untyped {
        /// Namespace, name and type of the object.
        object: String,
        /// What is wrong where.
        faults: String,
    },
    /// Others own fields that the configuration sets to something else; with force it is applied nevertheless.
    /// Answer: 409 `Conflict` with a cause each.
    #[error("{}", conflict::message(.0))]
    Conflicts(Vec<Conflict>),
}

/// Reads the body of an apply and checks it against the schema of its kind.
pub fn read_configuration(body: &[u8], kind: &Kind) -> Result<Value, ApplyError> {
    let configuration = decode_free(body, Format::Yaml).map_err(|e| ApplyError::Syntax(e.to_string()))?;
    if !configuration.is_object() {
        return Err(ApplyError::Syntax("the configuration must be an object".into()));
    }
    let (api_version, kind_word) = (text(&configuration, "apiVersion"), text(&configuration, "kind"));
    if !kind.is_api_version(api_version) || kind_word != kind.kind {
        return Err(ApplyError::WrongKind {
            api_version: api_version.to_owned(),
            kind: kind_word.to_owned(),
        });
    }
    let metadata = child(&configuration, "metadata");
    if metadata
        .get("managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::ManagedFields);
    }
    let faults = check::faults(&configuration, kind);
    if faults.is_empty() {
        return Ok(configuration);
    }
    let separator = if kind.group.is_empty() { "/" } else { "" };
    Err(ApplyError::Untyped {
        object: format!(
            "{}/{}; {separator}{api_version}, Kind={kind_word}",
            text(metadata, "namespace"),
            text(metadata, "name")
        ),
        faults: match faults.as_slice() {
            [fault] => fault.clone(),
            all => format!("errors:\n  {}", all.join("\n  ")),
        },
    })
}

/// Applies a configuration, as [`read_configuration`] gives it, to an object or to nothing. What the manager has
/// applied before and leaves out now is removed unless others own it. The result has the new records.
pub fn apply(
    live: Option<&Value>,
    configuration: &Value,
    author: Author<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let (bare, mut managers) = live.map_or((Value::Object(serde_json::Map::new()), Vec::new()), taken_apart);
    if managers.is_empty() && live.is_some() {
        managers.extend(before_first_apply(&bare, author));
    }
    let application = Application {
        live: &bare,
        // What this path cannot write is neither set nor owned (API-12).
        configuration: &without_reset_fields(configuration, author),
        author,
        layout: Layout::of_kind(author.kind),
    };
    let applied = application.run(managers.clone(), force);
    let (mut object, managers) = match applied {
        Err(conflicts) => {
            let left = last_applied::without_allowed(conflicts, &application);
            if !left.is_empty() {
                return Err(ApplyError::Conflicts(left));
            }
            application.run(managers, true).map_err(ApplyError::Conflicts)?
        }
        Ok(applied) => applied,
    };
    last_applied::renew(&mut object, &application, configuration);
    record(&mut object, managers);
    Ok(object)
}

/// Records who wrote what in an update from `old` to `new`, if anything is recorded of the object. `given` is the
/// `managedFields` that the client sent: an empty list ends the records, anything readable replaces them.
pub fn record_update(new: &mut Value, old: &Value, given: Option<Value>, author: Author<'_>) {
    let kept = || managers::read(child(child(old, "metadata"), "managedFields")).unwrap_or_default();
    let mut managers = match given.filter(|_| author.subresource.is_none()) {
        Some(given) if is_reset(&given) => Vec::new(),
        Some(given) => managers::read(&given)
            .filter(|given| !given.is_empty())
            .unwrap_or_else(kept),
        None => kept(),
    };
    if managers.is_empty() {
        return;
    }
    let mut bare = old.clone();
    if let Some(metadata) = bare.get_mut("metadata") {
        clear(metadata, "managedFields");
    }
    let comparison = Comparison::of(&bare, new, Layout::of_kind(author.kind));
    let written = without_identity(&comparison.written());
    let mut own = updater(author, author.manager);
    take_away(&mut managers, None, &comparison, true);
    if !written.is_empty() {
        let before = remove(&mut managers, &own).map(|manager| manager.fields);
        own.fields = written.union(&before.unwrap_or_default());
        managers.push(own);
    }
    managers::cap(&mut managers);
    record(new, managers);
}

/// Whether two versions of an object say the same, whenever their fields were written.
pub fn same_but_times(new: &Value, old: &Value) -> bool {
    let (new_managers, old_managers) = (managed_fields(new), managed_fields(old));
    if new_managers.is_null() || old_managers.is_null() {
        return new == old;
    }
    let ((new, new_managers), (old, old_managers)) = (taken_apart(new), taken_apart(old));
    let timeless = |managers: Vec<Manager>| -> Vec<Manager> {
        let mut managers = managers;
        managers.iter_mut().for_each(|manager| manager.time.clear());
        managers.sort_by(|a, b| {
            (a.operation, &a.name, &a.subresource).cmp(&(b.operation, &b.name, &b.subresource))
        });
        managers
    };
    new == old && timeless(new_managers) == timeless(old_managers)
}

/// An object without its records, and the records; unreadable ones count as none.
fn taken_apart(object: &Value) -> (Value, Vec<Manager>) {
    let managers = managers::read(managed_fields(object)).unwrap_or_default();
    let mut bare = object.clone();
    if let Some(metadata) = bare.get_mut("metadata") {
        clear(metadata, "managedFields");
    }
    (bare, managers)
}

fn managed_fields(object: &Value) -> &Value {
    child(child(object, "metadata"), "managedFields")
}

fn record(object: &mut Value, managers: Vec<Manager>) {
    let records = managers::write(managers);
    if records.as_array().is_some_and(|entries| !entries.is_empty())
        && let Some(metadata) = object.get_mut("metadata")
    {
        set(metadata, "managedFields", records);
    }
}

fn remove(managers: &mut Vec<Manager>, wanted: &Manager) -> Option<Manager> {
    let at = managers.iter().position(|manager| manager.is(wanted))?;
    Some(managers.remove(at))
}

/// The author as somebody who updates, under the name `name`, with no fields yet.
fn updater(author: Author<'_>, name: &str) -> Manager {
    Manager {
        name: name.to_owned(),
        operation: Operation::Update,
        api_version: author.kind.api_version(),
        subresource: author.subresource.unwrap_or_default().to_owned(),
        time: author.time.to_owned(),
        fields: FieldSet::default(),
    }
}

/// The managers of all that is there.
fn before_first_apply(live: &Value, author: Author<'_>) -> Vec<Manager> {
    // What every object of the type has counts as there before anybody set it.
    let empty = serde_json::json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}});
    let all = Comparison::of(&empty, live, Layout::of_kind(author.kind)).written();
    let all = without_identity(&all);
    let client_side = all.intersection(&last_applied::owned(live, author.kind));
    let rest = all.difference(&client_side);
    [
        (last_applied::CLIENT_SIDE_APPLY, client_side),
        (BEFORE_FIRST_APPLY, rest),
    ]
    .into_iter()
    .filter(|(_, fields)| !fields.is_empty())
    .map(|(name, fields)| Manager {
        fields,
        ..updater(author, name)
    })
    .collect()
}

/// Without those fields that are nobody's.
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

/// Without the status, or on the path of the status without the spec (API-12).
fn without_reset_fields(configuration: &Value, author: Author<'_>) -> Value {
    let mut left = configuration.clone();
    match author.subresource {
        Some(_) => clear(&mut left, "spec"),
        None if author.kind.has_status() => clear(&mut left, "status"),
        None => {}
    }
    left
}

/// Whether a client asks for the end of the records: an empty list, or a list of one empty entry.
fn is_reset(given: &Value) -> bool {
    match given.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
