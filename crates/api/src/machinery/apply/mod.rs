//! Server-side apply: who owns which field of an object, and merging what somebody wants with what others own.
//!
//! Ownership is recorded in `metadata.managedFields` from the creation of an object on. A client may end the records
//! of an object; then they begin anew at the next apply, which takes everything that is there to be owned by
//! [`BEFORE_FIRST_APPLY`].

mod application;
mod check;
mod compare;
mod conflict;
mod creation;
mod field_set;
mod fields_v1;
mod last_applied;
mod layout;
mod managers;
mod merge;

use serde_json::Value;
use thiserror::Error;

pub use conflict::Conflict;

use crate::kinds::kind::Kind;
use crate::machinery::decode::{DecodeError, Format, decode_free};
use crate::machinery::tree::{child, clear, set, text};
use application::{Application, take_away};
use compare::Comparison;
use creation::{created_fields, managed_fields, zero_of};
use field_set::FieldSet;
use layout::Layout;
use managers::{Manager, Operation};

/// The manager of what was there when somebody applied for the first time.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager of what a client writes that does not say who it is.
const UNKNOWN: &str = "unknown";

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
    /// The body has more values than are read; the same again does not help. Answer: 413 `RequestEntityTooLarge`.
    #[error(transparent)]
    TooLarge(DecodeError),
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
    let configuration = decode_free(body, Format::Yaml).map_err(|error| match error {
        DecodeError::TooManyValues => ApplyError::TooLarge(error),
        other => ApplyError::Syntax(other.to_string()),
    })?;
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
        configuration: &without_reset_field(configuration, author),
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

/// The records of a new object, as its author sent it with defaults filled in. `given` is the `managedFields` that
/// came with it.
pub fn record_creation(object: &Value, given: Option<&Value>, author: Author<'_>) -> Option<Value> {
    let managers = given.and_then(managers::read).unwrap_or_default();
    if !managers.is_empty() {
        return updated(managers, zero_of(author.kind), object, author);
    }
    let fields = created_fields(object, author.kind, reset_field(author))?;
    Some(Value::Array(vec![updater(author, author.manager).entry(fields)]))
}

/// The records after an update from `old` to `new`, the object as its author sent it with defaults filled in; none if
/// nothing is recorded of it. `given` is the `managedFields` that came with it: an empty list ends the records,
/// anything readable replaces them.
pub fn record_update(new: &Value, old: &Value, given: Option<&Value>, author: Author<'_>) -> Option<Value> {
    let kept = || managers::read(managed_fields(old)).unwrap_or_default();
    let managers = match given.filter(|_| author.subresource.is_none()) {
        Some(given) if is_reset(given) => Vec::new(),
        Some(given) => managers::read(given)
            .filter(|given| !given.is_empty())
            .unwrap_or_else(kept),
        None => kept(),
    };
    if managers.is_empty() {
        return None;
    }
    updated(managers, old, new, author)
}

/// The records of `managers` after a change by somebody who updates.
fn updated(mut managers: Vec<Manager>, old: &Value, new: &Value, author: Author<'_>) -> Option<Value> {
    let mut comparison = Comparison::of(old, new, Layout::of_kind(author.kind));
    if let Some(reset) = reset_field(author) {
        comparison.leave_out(reset);
    }
    let written = without_identity(&comparison.written()).difference(&inevitable());
    let mut own = updater(author, author.manager);
    take_away(&mut managers, None, &comparison, true);
    if !written.is_empty() {
        let before = remove(&mut managers, &own).map(|manager| manager.fields);
        own.fields = written.union(&before.unwrap_or_default());
        managers.push(own);
    }
    managers::cap(&mut managers);
    (!managers.is_empty()).then(|| managers::write(managers))
}

/// Whether two versions of an object say the same, whenever their fields were written.
pub fn same_but_times(new: &Value, old: &Value) -> bool {
    let (new_records, old_records) = (managed_fields(new), managed_fields(old));
    if !same_but_records(new, old) {
        return false;
    }
    if new_records.is_null() || old_records.is_null() || new_records == old_records {
        return new_records == old_records;
    }
    let timeless = |records: &Value| -> Vec<Manager> {
        let mut managers = managers::read(records).unwrap_or_default();
        managers.iter_mut().for_each(|manager| manager.time.clear());
        managers.sort_by(|a, b| {
            (a.operation, &a.name, &a.subresource).cmp(&(b.operation, &b.name, &b.subresource))
        });
        managers
    };
    timeless(new_records) == timeless(old_records)
}

fn same_but_records(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new == old;
    };
    new.len() == old.len()
        && new
            .iter()
            .all(|(name, value)| match (name.as_str(), old.get(name)) {
                ("metadata", Some(before)) => same_but(value, before, "managedFields"),
                (_, before) => before == Some(value),
            })
}

/// Whether two objects have the same fields, whatever they have in the field `left_out`.
fn same_but(new: &Value, old: &Value, left_out: &str) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new == old;
    };
    let length =
        |fields: &serde_json::Map<String, Value>| fields.len() - usize::from(fields.contains_key(left_out));
    length(new) == length(old)
        && new
            .iter()
            .all(|(name, value)| name == left_out || old.get(name) == Some(value))
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

/// The manager of all that is there.
fn before_first_apply(live: &Value, author: Author<'_>) -> Option<Manager> {
    let mut all = Comparison::of(zero_of(author.kind), live, Layout::of_kind(author.kind));
    if let Some(reset) = reset_field(author) {
        all.leave_out(reset);
    }
    let manager = Manager {
        fields: without_identity(&all.written()),
        ..updater(author, BEFORE_FIRST_APPLY)
    };
    (!manager.fields.is_empty()).then_some(manager)
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

/// What no update brings into being: it is there in every object that can have it, though it may be left out.
fn inevitable() -> FieldSet {
    FieldSet::of_names(&[&["spec"], &["status"], &["status", "loadBalancer"]])
}

/// What this path does not write, though it may be sent: the status, or on the path of the status the spec (API-12).
/// It is neither set nor owned.
fn reset_field(author: Author<'_>) -> Option<&'static str> {
    match author.subresource {
        Some("status") => Some("spec"),
        _ if author.kind.has_status() => Some("status"),
        _ => None,
    }
}

/// A configuration without what this path does not write.
fn without_reset_field(configuration: &Value, author: Author<'_>) -> Value {
    let mut left = configuration.clone();
    if let Some(reset) = reset_field(author) {
        clear(&mut left, reset);
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
