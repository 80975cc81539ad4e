//! Field managers: the entries of `metadata.managedFields`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::fields_v1;
use crate::machinery::tree::{child, text};

/// Maximum number of entries with operation `Update`, as upstream; the oldest are merged.
const UPDATERS_MAX: usize = 10;
/// Name of the entry that merges the oldest ones.
const MERGED_MANAGER: &str = "ancient-changes";

/// Operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// A field manager and the fields that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    /// Subresource; "" for the object itself.
    pub(super) subresource: String,
    /// Time in RFC 3339; "" if unknown.
    pub(super) time: String,
    pub(super) fields: FieldSet,
}

impl Manager {
    /// Returns true if both are the same manager. The API version is ignored for applies.
    pub(super) fn is_same(&self, other: &Manager) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Returns a key that is equal for the same manager.
    fn identity(&self) -> (String, Operation, String, String) {
        let api_version = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => self.api_version.clone(),
        };
        (
            self.name.clone(),
            self.operation,
            self.subresource.clone(),
            api_version,
        )
    }

    /// Returns the display name of the manager.
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

    fn parse(entry: &Value) -> Option<Manager> {
        let operation = match text(entry, "operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let is_supported = text(entry, "fieldsType") == "FieldsV1" && !text(entry, "apiVersion").is_empty();
        is_supported.then_some(())?;
        let fields = match child(entry, "fieldsV1") {
            Value::Null => FieldSet::default(),
            fields => fields_v1::parse(fields)?,
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

    fn format(&self) -> Value {
        self.entry(fields_v1::format(&self.fields))
    }

    /// Returns the entry of this manager with the given `FieldsV1`.
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

/// Parses the entries; `None` if one is malformed. Entries without fields are dropped.
pub(super) fn parse(managed_fields: &Value) -> Option<Vec<Manager>> {
    let entries = managed_fields.as_array().map_or(&[][..], Vec::as_slice);
    let mut managers: Vec<Manager> = Vec::with_capacity(entries.len());
    let mut positions = HashMap::with_capacity(entries.len());
    for entry in entries {
        let manager = Manager::parse(entry)?;
        match positions.entry(manager.identity()) {
            Entry::Occupied(position) => managers[*position.get()] = manager,
            Entry::Vacant(position) => {
                position.insert(managers.len());
                managers.push(manager);
            }
        }
    }
    managers.retain(|manager| !manager.fields.is_empty());
    Some(managers)
}

/// Formats the entries: applies first, then by time.
pub(super) fn format(mut managers: Vec<Manager>) -> Value {
    managers.retain(|manager| !manager.fields.is_empty());
    managers.sort_by(|a, b| {
        let order = |manager: &Manager| {
            (
                manager.operation,
                manager.time.clone(),
                manager.name.clone(),
                manager.subresource.clone(),
            )
        };
        order(a).cmp(&order(b))
    });
    managers.iter().map(Manager::format).collect()
}

/// Merges the oldest entries with operation `Update` if there are too many.
pub(super) fn merge_oldest_updaters(managers: &mut Vec<Manager>) {
    let mut updaters: Vec<Manager> = managers
        .extract_if(.., |manager| manager.operation == Operation::Update)
        .collect();
    if updaters.len() > UPDATERS_MAX {
        updaters.sort_by(|a, b| (&a.time, &a.name).cmp(&(&b.time, &b.name)));
        let kept = updaters.split_off(updaters.len() - UPDATERS_MAX + 1);
        let merged = updaters.into_iter().reduce(|merged, manager| Manager {
            name: MERGED_MANAGER.to_owned(),
            operation: Operation::Update,
            api_version: manager.api_version,
            subresource: String::new(),
            time: manager.time,
            fields: merged.fields.union(&manager.fields),
        });
        managers.extend(merged);
        updaters = kept;
    }
    managers.append(&mut updaters);
}
