//! An object as its JSON tree.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::finding::ObjectName;
use crate::kind::Kind;
use crate::kubectl;

/// Namespace of objects without one, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// An object of a known kind. Fields that are absent, or of an unexpected type, read as empty.
#[derive(Clone, Debug)]
pub struct Object {
    /// Kind of the object.
    pub kind: Kind,
    /// Namespace; "" for cluster-scoped kinds.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Workload whose template the object is. The object has the kind Pod and the name of the workload.
    template: Option<Template>,
    tree: Arc<Value>,
}

/// Template of Pods in a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    /// Kind of the workload.
    pub workload: Kind,
    /// JSON pointer to the template in the workload.
    pub pointer: &'static str,
    /// True if the object counts as a Pod. Otherwise only the names of Services in it are read.
    pub counts_as_pod: bool,
}

impl Object {
    /// Reads an object. Returns `None` if it has no name, or a name that Kubernetes rejects: remedies contain names.
    pub fn read(kind: Kind, tree: impl Into<Arc<Value>>) -> Option<Self> {
        let tree = tree.into();
        let text = |pointer| tree.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let name = text("/metadata/name").to_owned();
        let namespace = match text("/metadata/namespace") {
            _ if !kind.is_namespaced() => "",
            "" => DEFAULT_NAMESPACE,
            namespace => namespace,
        };
        let namespace = namespace.to_owned();
        let has_valid_name =
            kubectl::is_plain(&name) && (namespace.is_empty() || kubectl::is_plain(&namespace));
        has_valid_name.then_some(Self {
            kind,
            namespace,
            name,
            template: None,
            tree,
        })
    }

    /// Returns a Pod that stands for the Pods of a workload. `None` if the object has no template.
    pub fn pod_of_template(workload: &Self, counts_as_pod: bool) -> Option<Self> {
        let pointer = match workload.kind {
            Kind::Deployment | Kind::ReplicaSet | Kind::StatefulSet | Kind::DaemonSet | Kind::Job => {
                "/spec/template"
            }
            Kind::CronJob => "/spec/jobTemplate/spec/template",
            _ => return None,
        };
        let mut tree = workload.at(pointer).clone();
        if !tree["spec"].is_object() {
            return None;
        }
        let labels = tree["metadata"]["labels"].clone();
        let metadata = json!({"name": workload.name, "namespace": workload.namespace, "labels": labels});
        tree.as_object_mut()?.insert("metadata".to_owned(), metadata);
        let pod = Self::read(Kind::Pod, tree)?;
        let template = Template {
            workload: workload.kind,
            pointer,
            counts_as_pod,
        };
        Some(Self {
            template: Some(template),
            ..pod
        })
    }

    /// Returns the template that the object is, if it stands for the Pods of a workload.
    pub fn template(&self) -> Option<Template> {
        self.template
    }

    /// Returns the kind for commands and findings: that of the workload, if the object is a template.
    pub fn changed_kind(&self) -> Kind {
        self.template.map_or(self.kind, |template| template.workload)
    }

    /// Returns the path of a field for findings: in the workload, if the object is a template.
    pub fn changed_field(&self, field: String) -> String {
        match self.template.filter(|_| !field.is_empty()) {
            Some(template) => {
                let path = template.pointer.trim_start_matches('/').replace('/', ".");
                format!("{path}.{field}")
            }
            None => field,
        }
    }

    /// Returns the name for findings.
    pub fn object_name(&self) -> ObjectName {
        ObjectName {
            kind: self.changed_kind().name().to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// Returns the whole tree.
    pub fn tree(&self) -> &Value {
        &self.tree
    }

    /// Returns the value at a JSON pointer, or `null`.
    pub fn at(&self, pointer: &str) -> &Value {
        self.tree.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Returns the string at a JSON pointer, or "".
    pub fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    /// Returns the list at a JSON pointer, or an empty one.
    pub fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the integer at a JSON pointer.
    pub fn number(&self, pointer: &str) -> Option<i64> {
        self.at(pointer).as_i64()
    }

    /// Returns the boolean at a JSON pointer, or false.
    pub fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).as_bool().unwrap_or_default()
    }

    /// Iterates over the string entries of the map at a JSON pointer.
    pub fn pairs(&self, pointer: &str) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.at(pointer))
    }

    /// Returns the value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.at("/metadata/labels").get(key)?.as_str()
    }

    /// Iterates over the labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs("/metadata/labels")
    }

    /// Returns the value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.at("/metadata/annotations").get(key)?.as_str()
    }

    /// Returns true if deletion of the object was requested.
    pub fn is_terminating(&self) -> bool {
        !self.at("/metadata/deletionTimestamp").is_null()
    }

    /// Returns kind and name of the owner that is marked as the controller.
    pub fn controller(&self) -> Option<(&str, &str)> {
        let owners = self.list("/metadata/ownerReferences").iter();
        let mut controllers = owners.filter(|owner| owner["controller"] == true);
        let owner = controllers.next()?;
        Some((owner["kind"].as_str()?, owner["name"].as_str()?))
    }

    /// Returns the condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        let mut conditions = self.list("/status/conditions").iter();
        conditions.find(|condition| condition["type"] == kind)
    }

    /// Returns true if the condition of a type has this status.
    pub fn has_condition(&self, kind: &str, status: &str) -> bool {
        self.condition(kind)
            .is_some_and(|condition| condition["status"] == status)
    }
}

/// Iterates over the string entries of a map.
pub(crate) fn pairs(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.as_object().into_iter().flatten();
    entries.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}
