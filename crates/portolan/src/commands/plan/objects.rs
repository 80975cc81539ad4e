//! Objects in files: manifests, output of `kubectl get`, and recorded worlds.

use api::object::{EndpointSlice, Labels, Node, Service};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum nesting depth of Lists.
const DEPTH_MAX: usize = 8;
/// Namespace of objects without one, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// Objects of a file.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Services of the file.
    pub services: Vec<Service>,
    /// EndpointSlices of the file.
    pub slices: Vec<EndpointSlice>,
    nodes: Vec<Node>,
    /// Node that a recorded world names (`nodeName`).
    pub node_name: Option<String>,
    /// Labels of that node (`nodeLabels`).
    node_labels: Option<Labels>,
    /// Invalid objects, with the reasons.
    pub problems: Vec<String>,
}

impl Objects {
    /// Parses JSON or YAML: objects, nested Lists, several documents, arrays, or a recorded world (`services`,
    /// `endpointSlices`, `nodeName`, `nodeLabels`). Objects of other kinds are skipped.
    ///
    /// # Errors
    ///
    /// An error if the text is neither JSON nor YAML.
    pub(super) fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        let mut objects = Self::default();
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            objects.add(value, DEPTH_MAX);
            return Ok(objects);
        }
        // As with kubectl, the last of several equal keys counts.
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            with_snippet: false,
        };
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
        for document in documents {
            objects.add(document, DEPTH_MAX);
        }
        Ok(objects)
    }

    /// Returns the labels of a node: those of the recorded world, or those of its Node.
    pub(super) fn labels_of(&self, node: &str) -> Labels {
        let node_object = || self.nodes.iter().find(|object| object.metadata.name == node);
        match &self.node_labels {
            Some(labels) => labels.clone(),
            None => node_object().map_or_else(Labels::new, |object| object.metadata.labels.clone()),
        }
    }

    /// Adds an object, or the items of a List. Other values are problems.
    fn add(&mut self, value: Value, depth: usize) {
        if depth == 0 {
            return self
                .problems
                .push(format!("expected at most {DEPTH_MAX} nested Lists"));
        }
        let mut fields = match value {
            Value::Array(items) => return items.into_iter().for_each(|item| self.add(item, depth - 1)),
            Value::Object(fields) => fields,
            Value::Null => return,
            other => return self.problems.push(format!("{other} is not an object")),
        };
        let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "Service" => {
                let read = self.read(Value::Object(fields), "Service");
                self.services.extend(read.map(|mut service: Service| {
                    default_namespace(&mut service.metadata.namespace);
                    service
                }));
            }
            "EndpointSlice" => {
                let read = self.read(Value::Object(fields), "EndpointSlice");
                self.slices.extend(read.map(|mut slice: EndpointSlice| {
                    default_namespace(&mut slice.metadata.namespace);
                    slice
                }));
            }
            "Node" => {
                let read = self.read(Value::Object(fields), "Node");
                self.nodes.extend(read);
            }
            _ if kind.ends_with("List") => {
                let item_kind = kind.trim_end_matches("List").to_owned();
                let items = fields.remove("items").unwrap_or_default();
                self.add_all(items, &item_kind, depth);
            }
            "" if fields.contains_key("services") || fields.contains_key("endpointSlices") => {
                self.add_world(fields, depth);
            }
            _ => {}
        }
    }

    /// Adds a list of objects. Items of a typed List need no kind.
    fn add_all(&mut self, items: Value, kind: &str, depth: usize) {
        let Value::Array(items) = items else { return };
        for mut item in items {
            if let Some(fields) = item.as_object_mut().filter(|_| !kind.is_empty()) {
                fields.entry("kind").or_insert_with(|| kind.into());
            }
            self.add(item, depth - 1);
        }
    }

    fn add_world(&mut self, mut fields: serde_json::Map<String, Value>, depth: usize) {
        for (list, kind) in [("services", "Service"), ("endpointSlices", "EndpointSlice")] {
            let items = fields.remove(list).unwrap_or_default();
            self.add_all(items, kind, depth);
        }
        self.node_name = fields.get("nodeName").and_then(Value::as_str).map(str::to_owned);
        self.node_labels = fields
            .remove("nodeLabels")
            .and_then(|labels| serde_json::from_value(labels).ok());
    }

    fn read<T: DeserializeOwned>(&mut self, value: Value, kind: &str) -> Option<T> {
        let name = value.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or("without a name").to_owned();
        match serde_json::from_value(value) {
            Ok(object) => Some(object),
            Err(error) => {
                self.problems
                    .push(format!("{kind} {name} is invalid and skipped: {error}"));
                None
            }
        }
    }
}

fn default_namespace(namespace: &mut String) {
    if namespace.is_empty() {
        DEFAULT_NAMESPACE.clone_into(namespace);
    }
}
