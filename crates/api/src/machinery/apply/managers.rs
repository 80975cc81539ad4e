//! Who owns which fields: the entries of `metadata.managedFields`.

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::fields_v1;
use crate::machinery::tree::{child, text};

/// Most entries of writers that update; older ones are put together. The same bound as the reference has.
const UPDATERS_MAX: usize = 10;
/// The name that the oldest writers are put together under.
const ANCIENT: &str = "ancient-changes";

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// One entry: a writer and the fields that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    /// "" for the object itself.
    pub(super) subresource: String,
    /// RFC 3339; "" if unknown.
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

impl Manager {
    /// Whether both are the same writer. Somebody who applies is the same in every version.
    pub(super) fn is(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The writer, for people.
    pub(super) fn describe(&self) -> String {
        let mut description = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            description += &format!(" with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            description += &format!(" using {}", self.api_version);
        }
        description
    }

    fn read(entry: &Value) -> Option<Manager> {
        let operation = match text(entry, "operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let is_readable = text(entry, "fieldsType") == "FieldsV1" && !text(entry, "apiVersion").is_empty();
        is_readable.then_some(())?;
        let fields = match child(entry, "fieldsV1") {
            Value::Null => FieldSet::default(),
            fields => fields_v1::read(fields)?,
        };
        Some(Manager {
            name: text(entry, "manager").to_owned(),
            operation,
            api_version: text(entry, "apiVersion").to_owned(),
            subresource: text(entry, "subresource").to_owned(),
            time: text(entry, "time").to_owned(),
            fields,
        })
    }

    fn write(&self) -> Value {
        self.entry(fields_v1::write(&self.fields))
    }

    /// The entry of this writer, with these fields in their written form.
    pub(super) fn entry(&self, fields_v1: Value) -> Value {
        let mut entry = Map::new();
        let operation = match self.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let fields = [
            ("apiVersion", self.api_version.as_str()),
            ("fieldsType", "FieldsV1"),
            ("manager", &self.name),
            ("operation", operation),
            ("subresource", &self.subresource),
            ("time", &self.time),
        ];
        for (name, value) in fields {
            if !value.is_empty() {
                entry.insert(name.to_owned(), value.into());
            }
        }
        entry.insert("fieldsV1".to_owned(), fields_v1);
        Value::Object(entry)
    }
}

/// Reads the entries; none if any does not have the form. Entries without fields are left out.
pub(super) fn read(managed_fields: &Value) -> Option<Vec<Manager>> {
    let entries = managed_fields.as_array().map_or(&[][..], Vec::as_slice);
    let mut managers: Vec<Manager> = Vec::with_capacity(entries.len());
    for entry in entries {
        let manager = Manager::read(entry)?;
        match managers.iter_mut().find(|other| other.is(&manager)) {
            Some(same) => *same = manager,
            None => managers.push(manager),
        }
    }
    managers.retain(|manager| !manager.fields.is_empty());
    Some(managers)
}

/// Writes the entries in their order: who applies first, then by time.
pub(super) fn write(mut managers: Vec<Manager>) -> Value {
    managers.retain(|manager| !manager.fields.is_empty());
    managers.sort_by(|a, b| {
        let order = |m: &Manager| (m.operation, m.time.clone(), m.name.clone(), m.subresource.clone());
        order(a).cmp(&order(b))
    });
    managers.iter().map(Manager::write).collect()
}

/// Puts the oldest writers that update together, so that there are not too many.
pub(super) fn cap(managers: &mut Vec<Manager>) {
    let mut updaters: Vec<Manager> = managers
        .extract_if(.., |manager| manager.operation == Operation::Update)
        .collect();
    if updaters.len() > UPDATERS_MAX {
        updaters.sort_by(|a, b| (&a.time, &a.name).cmp(&(&b.time, &b.name)));
        let kept = updaters.split_off(updaters.len() - UPDATERS_MAX + 1);
        let ancient = updaters.into_iter().reduce(|bucket, manager| Manager {
            name: ANCIENT.to_owned(),
            operation: Operation::Update,
            api_version: manager.api_version,
            subresource: String::new(),
            time: manager.time,
            fields: bucket.fields.union(&manager.fields),
        });
        managers.extend(ancient);
        updaters = kept;
    }
    managers.append(&mut updaters);
}
