//! Parser of manifests. Pure.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::field::{FieldError, FieldErrors};
use api::kind::{self, Kind};
use api::pod::{default_pod_on_write, prepare_pod_create, validate_pod};
use api::tree::{child, clear, items, text};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use super::StaticPod;
use crate::object::Pod;
use crate::static_pods::mirror_pod::{CONFIG_HASH, CONFIG_SOURCE, MIRROR};

/// Hexadecimal digits of a static Pod's UID.
const UID_DIGITS: usize = 32;

/// Error in a manifest. To correct it, replace the file.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file is neither YAML nor JSON.
    #[error("{path}: {detail}", path = path.display())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Message of the parser.
        detail: String,
    },
    /// A document is not a Pod.
    #[error("{path}, document {document}: {detail}", path = path.display())]
    Document {
        /// Path of the file.
        path: PathBuf,
        /// Number of the document in the file, from 1.
        document: usize,
        /// Expected and actual content.
        detail: String,
    },
    /// Fields of a Pod are invalid.
    #[error("{path}, document {document}: {}", list(errors), path = path.display())]
    Fields {
        /// Path of the file.
        path: PathBuf,
        /// Number of the document in the file, from 1.
        document: usize,
        /// Errors by field.
        errors: FieldErrors,
    },
}

fn list(errors: &[FieldError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// Parses a manifest: JSON, or one or more YAML documents, with `v1` Pods or Lists of Pods.
///
/// # Errors
/// See [`ManifestError`]. One invalid Pod makes the whole manifest invalid.
pub fn parse(content: &[u8], path: &Path, node_name: &str) -> Result<Vec<StaticPod>, ManifestError> {
    let text = String::from_utf8_lossy(content);
    let documents: Vec<Value> = match serde_json::from_str::<Value>(&text) {
        Ok(value) => vec![value],
        Err(_) => parse_yaml(&text).map_err(|error| ManifestError::Syntax {
            path: path.to_owned(),
            detail: error.to_string(),
        })?,
    };
    let mut pods = Vec::new();
    let documents = documents.into_iter().filter(|document| !document.is_null());
    for (index, document) in documents.enumerate() {
        let document_at = Position {
            path,
            document: index + 1,
            node_name,
        };
        match document {
            Value::Object(mut list) if list.get("items").is_some_and(Value::is_array) => {
                let items = list.remove("items").unwrap_or_default();
                for item in items.as_array().into_iter().flatten() {
                    pods.push(document_at.parse_pod(item.clone())?);
                }
            }
            document => pods.push(document_at.parse_pod(document)?),
        }
    }
    Ok(pods)
}

/// Parses YAML as kubectl and the API server do: `0400` is an octal number.
fn parse_yaml(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options)
}

/// Position of a document, and the node of its Pods.
struct Position<'a> {
    path: &'a Path,
    document: usize,
    node_name: &'a str,
}

impl Position<'_> {
    /// Parses, completes and validates the Pod in a document.
    fn parse_pod(&self, document: Value) -> Result<StaticPod, ManifestError> {
        let (version, found) = (text(&document, "apiVersion"), text(&document, "kind"));
        if (version, found) != ("v1", "Pod") {
            return Err(self.invalid(format!(
                "expected apiVersion: v1 and kind: Pod, not apiVersion: {version:?} and kind: {found:?}"
            )));
        }
        let kind: &Kind =
            kind::find("", "v1", "pods").ok_or_else(|| self.invalid("the API has no kind Pod".into()))?;
        let decoded = api::decode::conform(document, kind).and_then(|decoded| decoded.strict(kind));
        let mut object = decoded.map_err(|error| self.invalid(error.to_string()))?;
        object["metadata"]["namespace"] = match text(child(&object, "metadata"), "namespace") {
            "" => "default".into(),
            named => named.into(),
        };
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        let hash = self.hash(&object);
        self.bind(&mut object, &hash);
        default_pod_on_write(&mut object);
        let mut errors = validate_pod(&object);
        errors.extend(check_references(&object));
        if !errors.is_empty() {
            return Err(ManifestError::Fields {
                path: self.path.to_owned(),
                document: self.document,
                errors,
            });
        }
        let mut mirror = object.clone();
        mirror["metadata"]["annotations"][MIRROR] = hash.as_str().into();
        // The API server refuses finalizers of nodes.
        clear(&mut mirror["metadata"], "finalizers");
        // Only the manifest ends the Pod.
        mirror["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute"}]);
        object["metadata"]["uid"] = hash.into();
        prepare_pod_create(&mut object);
        let pod = Pod::deserialize(&object).map_err(|error| self.invalid(error.to_string()))?;
        Ok(StaticPod {
            pod: Arc::new(pod),
            mirror: Arc::new(mirror),
            mirror_changed: Arc::new(Notify::new()),
        })
    }

    /// Makes a Pod one of this node, without the metadata that only a server sets.
    fn bind(&self, object: &mut Value, hash: &str) {
        let metadata = &mut object["metadata"];
        for field in ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"] {
            if let Some(fields) = metadata.as_object_mut() {
                fields.remove(field);
            }
        }
        if !text(metadata, "name").is_empty() {
            metadata["name"] = format!("{}-{}", text(metadata, "name"), self.node_name).into();
        }
        metadata["annotations"][CONFIG_HASH] = hash.into();
        metadata["annotations"][CONFIG_SOURCE] = "file".into();
        object["spec"]["nodeName"] = self.node_name.into();
    }

    /// Returns the UID of the Pod: a hash of node, path and object.
    fn hash(&self, object: &Value) -> String {
        let mut digest = Sha256::new();
        for part in [self.node_name, &self.path.to_string_lossy(), &object.to_string()] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        let digits = digest
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        digits[..UID_DIGITS].to_owned()
    }

    fn invalid(&self, detail: String) -> ManifestError {
        ManifestError::Document {
            path: self.path.to_owned(),
            document: self.document,
            detail,
        }
    }
}

/// Returns the errors for references to objects of the API, which a static Pod must not have: it runs without the API.
fn check_references(pod: &Value) -> FieldErrors {
    let detail = "static Pods may not refer to it: they run without the API";
    let root = api::field::Path::new("spec");
    let mut errors = FieldErrors::new();
    let mut forbid_if = |is_there: bool, path: api::field::Path| {
        if is_there {
            errors.push(FieldError::forbidden(&path, detail));
        }
    };
    let spec = child(pod, "spec");
    for field in ["serviceAccountName", "serviceAccount"] {
        forbid_if(!text(spec, field).is_empty(), root.child(field));
    }
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let path = root.child("volumes").index(index);
        for field in ["configMap", "secret"] {
            forbid_if(!child(volume, field).is_null(), path.child(field));
        }
        let sources = items(child(volume, "projected"), "sources");
        for (index, source) in sources.iter().enumerate() {
            let path = path.child("projected").child("sources").index(index);
            for field in ["configMap", "secret", "serviceAccountToken"] {
                forbid_if(!child(source, field).is_null(), path.child(field));
            }
        }
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            let path = root.child(list).index(index);
            for (index, from) in items(container, "envFrom").iter().enumerate() {
                forbid_if(!from.is_null(), path.child("envFrom").index(index));
            }
            for (index, variable) in items(container, "env").iter().enumerate() {
                for field in ["configMapKeyRef", "secretKeyRef"] {
                    let is_there = !child(child(variable, "valueFrom"), field).is_null();
                    let path = path.child("env").index(index).child("valueFrom");
                    forbid_if(is_there, path.child(field));
                }
            }
        }
    }
    errors
}
