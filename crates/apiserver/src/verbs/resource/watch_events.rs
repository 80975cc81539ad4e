//! Encoding of store events as watch events. Pure.

use std::sync::Arc;

use api::kind::Kind;
use api::protobuf;
use api::tree::set;
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};
use store::{Event, EventKind, Revision};

use super::encoded_events::{EncodedEvents, EventKey};
use super::metadata_mut;
use super::selection::Selection;
use crate::failure::Failure;
use crate::request::negotiation::{Encoding, Form, Representation};
use crate::verbs::printing::{IncludeObject, STATUS_DEFINITION, metadata_only, row, table_of};

/// Annotation of the bookmark that follows the initial objects.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The type of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}

/// Writes the events of one watch.
pub(super) struct EventWriter {
    pub(super) kind: &'static Kind,
    pub(super) selection: Selection,
    pub(super) form: Form,
    pub(super) include: IncludeObject,
    /// True once the columns of a table were sent; they are sent with the first row only.
    pub(super) has_sent_columns: bool,
    /// Events that were written since the last [`EventWriter::take_event_count`].
    pub(super) event_count: u64,
    /// Events that were encoded for other watches.
    pub(super) encoded_events: Arc<EncodedEvents>,
}

impl EventWriter {
    /// Returns true if the next line does not depend on lines that were sent before.
    pub(super) fn is_stateless(&self) -> bool {
        self.has_sent_columns || self.form.representation != Representation::Table
    }

    /// Returns and resets the number of written events.
    pub(super) fn take_event_count(&mut self) -> u64 {
        std::mem::take(&mut self.event_count)
    }

    /// Writes an object that existed before the watch, if it matches.
    pub(super) fn write_initial(&mut self, key: &str, bytes: &[u8], out: &mut BytesMut) {
        if self.selection.is_everything() || self.selection.matches(key, bytes) {
            self.write_line(Change::Added, bytes, out);
        }
    }

    /// Writes an event if it concerns a matching object. An object that begins to match is `ADDED`, one that
    /// ceases to match is `DELETED`.
    pub(super) fn write_event(&mut self, event: &Event, out: &mut BytesMut) {
        if self.selection.is_everything() {
            let change = match event.kind {
                EventKind::Created => Change::Added,
                EventKind::Updated => Change::Modified,
                EventKind::Deleted => Change::Deleted,
            };
            return self.write_shared(change, event, out);
        }
        let matches = |bytes: &[u8]| self.selection.matches(&event.key, bytes);
        let is_in = event.kind != EventKind::Deleted && matches(&event.value);
        let was_in = event.previous.as_deref().is_some_and(matches);
        match (was_in, is_in) {
            (false, false) => {}
            (false, true) => self.write_shared(Change::Added, event, out),
            (true, true) => self.write_shared(Change::Modified, event, out),
            (true, false) if event.kind == EventKind::Deleted => {
                self.write_shared(Change::Deleted, event, out);
            }
            (true, false) => {
                let previous = event.previous.as_deref().unwrap_or_default();
                self.write_line(Change::Deleted, &at_revision(previous, event.revision), out);
            }
        }
    }

    /// Writes a bookmark: all events up to `revision` are sent.
    pub(super) fn write_bookmark(&mut self, revision: Revision, ends_initial: bool, out: &mut BytesMut) {
        let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if ends_initial {
            metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
        }
        let object =
            json!({ "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata });
        let include = match self.form.representation {
            Representation::Table => IncludeObject::Whole,
            _ => self.include,
        };
        let includes_columns = !std::mem::replace(&mut self.has_sent_columns, true);
        out.put_slice(&self.framed("BOOKMARK", object, include, includes_columns));
    }

    /// Writes an event whose encoding all watches of this form share.
    fn write_shared(&mut self, change: Change, event: &Event, out: &mut BytesMut) {
        if self.sends_stored_bytes()
            || (self.form.representation == Representation::Table && !self.has_sent_columns)
        {
            return self.write_line(change, &event.value, out);
        }
        self.event_count += 1;
        let key = EventKey {
            revision: event.revision,
            key: event.key.clone(),
            group: self.kind.group,
            version: self.kind.version,
            change: change.name(),
            form: self.form,
            include: self.include,
        };
        let line = self.encoded_events.get_or_write(key, || {
            // Stored values are JSON. If a stored value is not JSON, the event has an empty object.
            let object = serde_json::from_slice(&event.value).unwrap_or_default();
            self.framed(change.name(), object, self.include, false)
        });
        out.put_slice(&line);
    }

    fn write_line(&mut self, change: Change, bytes: &[u8], out: &mut BytesMut) {
        self.event_count += 1;
        if self.sends_stored_bytes() {
            return put_line(change.name(), bytes, out);
        }
        let object = serde_json::from_slice(bytes).unwrap_or_default();
        let includes_columns = !std::mem::replace(&mut self.has_sent_columns, true);
        out.put_slice(&self.framed(change.name(), object, self.include, includes_columns));
    }

    /// Returns true if stored bytes are sent without conversion.
    fn sends_stored_bytes(&self) -> bool {
        self.form.is_plain() && self.kind.is_stored_form()
    }

    /// Encodes an object in the form of this watch, as a line or a protobuf frame.
    fn framed(&self, change: &str, object: Value, include: IncludeObject, includes_columns: bool) -> Bytes {
        let (kind, version) = (self.kind, self.form.meta_version);
        let shown = match (self.form.representation, self.form.encoding) {
            (Representation::Objects, Encoding::Protobuf) => {
                let object = kind.of_stored(object);
                return protobuf_frame(change, protobuf::write(&object, kind.definition));
            }
            (_, Encoding::Protobuf) => {
                let message = protobuf::metadata_message(&object);
                let enveloped =
                    message.map(|message| protobuf::envelope(&metadata_only(&object, version), &message));
                return protobuf_frame(change, enveloped);
            }
            (Representation::Objects, _) => kind.of_stored(object),
            (Representation::Metadata | Representation::MetadataList, _) => metadata_only(&object, version),
            (Representation::Table, _) => {
                let metadata = json!({ "resourceVersion": object["metadata"]["resourceVersion"] });
                let row = row(kind, object, include, version);
                let mut table = table_of(kind, vec![row], metadata, version);
                if !includes_columns {
                    table["columnDefinitions"] = Value::Array(Vec::new());
                }
                table
            }
        };
        let mut line = BytesMut::new();
        put_line(change, shown.to_string().as_bytes(), &mut line);
        line.freeze()
    }
}

/// Writes an `ERROR` event, the last of a watch.
pub(super) fn write_error(failure: &Failure, encoding: Encoding, out: &mut BytesMut) {
    let status = failure.status();
    match encoding {
        Encoding::Protobuf => {
            out.put_slice(&protobuf_frame(
                "ERROR",
                protobuf::write(&status, STATUS_DEFINITION),
            ));
        }
        _ => put_line("ERROR", status.to_string().as_bytes(), out),
    }
}

/// Encodes an event as a protobuf frame. Every served kind has a protobuf form, so `enveloped` is never `None`.
fn protobuf_frame(change: &str, enveloped: Option<Vec<u8>>) -> Bytes {
    protobuf::watch_frame(change, &enveloped.unwrap_or_default()).into()
}

fn put_line(change: &str, object: &[u8], out: &mut BytesMut) {
    const ENVELOPE_BYTES: usize = 32;
    out.reserve(object.len() + ENVELOPE_BYTES);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(change.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
}

/// Returns the last matching state of an object, at the revision at which it ceased to match.
fn at_revision(bytes: &[u8], revision: Revision) -> Vec<u8> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(mut object) => {
            set(metadata_mut(&mut object), "resourceVersion", revision.to_string());
            object.to_string().into_bytes()
        }
        Err(_) => bytes.to_vec(),
    }
}

#[cfg(test)]
mod tests;
