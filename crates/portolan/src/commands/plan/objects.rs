//! Objects from files as people and programs write them.

use api::object::{EndpointSlice, Labels, Node, Service};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How deep Lists may be in Lists.
const DEPTH_MAX: usize = 8;
/// The namespace of objects that name none, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// What a file has for a node.
#[derive(Debug, Default)]
pub struct Objects {
    /// Services.
    pub services: Vec<Service>,
    /// EndpointSlices.
    pub slices: Vec<EndpointSlice>,
    /// Nodes.
    nodes: Vec<Node>,
    /// The node that the file is about, where it says so (`nodeName`), as recorded worlds do.
    pub node_name: Option<String>,
    /// The labels that it gives that node (`nodeLabels`).
    node_labels: Option<Labels>,
    /// Objects that cannot be read, with the reason.
    pub complaints: Vec<String>,
}

impl Objects {
    /// Reads JSON or YAML: objects, Lists of them in any nesting, several documents, arrays, or a recorded world
    /// (`services`, `endpointSlices`, `nodeName`, `nodeLabels`). Objects of other kinds are passed over. An
    /// error is about the file as a whole.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut objects = Self::default();
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            objects.take(value, DEPTH_MAX);
            return Ok(objects);
        }
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
        for document in documents {
            objects.take(document, DEPTH_MAX);
        }
        Ok(objects)
    }

    /// The labels of a node: those that the file gives for it, else those of its Node.
    pub fn labels_of(&self, node: &str) -> Labels {
        let of_object = || self.nodes.iter().find(|object| object.metadata.name == node);
        match &self.node_labels {
            Some(labels) => labels.clone(),
            None => of_object().map_or_else(Labels::new, |object| object.metadata.labels.clone()),
        }
    }

    fn take(&mut self, value: Value, depth: usize) {
        if depth == 0 {
            return self
                .complaints
                .push(format!("Lists are nested more than {DEPTH_MAX} deep"));
        }
        let mut fields = match value {
            Value::Array(items) => return items.into_iter().for_each(|item| self.take(item, depth - 1)),
            Value::Object(fields) => fields,
            Value::Null => return,
            other => return self.complaints.push(format!("{other} is not an object")),
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
                let of = kind.trim_end_matches("List").to_owned();
                let items = fields.remove("items").unwrap_or_default();
                self.take_all(items, &of, depth);
            }
            "" if fields.contains_key("services") || fields.contains_key("endpointSlices") => {
                self.take_world(fields, depth);
            }
            _ => {}
        }
    }

    /// Takes a list of objects. Those of a typed List need not say their kind.
    fn take_all(&mut self, items: Value, kind: &str, depth: usize) {
        let Value::Array(items) = items else { return };
        for mut item in items {
            if let Some(fields) = item.as_object_mut().filter(|_| !kind.is_empty()) {
                fields.entry("kind").or_insert_with(|| kind.into());
            }
            self.take(item, depth - 1);
        }
    }

    fn take_world(&mut self, mut fields: serde_json::Map<String, Value>, depth: usize) {
        for (list, kind) in [("services", "Service"), ("endpointSlices", "EndpointSlice")] {
            let items = fields.remove(list).unwrap_or_default();
            self.take_all(items, kind, depth);
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
                self.complaints
                    .push(format!("{kind} {name} cannot be read, and is left out: {error}"));
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
