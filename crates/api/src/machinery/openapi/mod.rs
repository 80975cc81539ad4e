//! OpenAPI v3 documents, one for each group and version. `kubectl explain` and `kubectl apply` read them. [`v2`] is
//! the older form.

mod definitions;
mod parameters;
mod paths;
pub mod v2;
mod v2_protobuf;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kinds::kind;

/// Kubernetes version of the definitions.
const API_LEVEL: &str = "v1.36.0";

/// A document in pieces. Most pieces are static text and use no memory.
pub type Pieces = Vec<Cow<'static, str>>;

/// Returns `/openapi/v3`: the paths of all documents, with hashes, so that clients may cache documents indefinitely.
pub fn index() -> &'static Value {
    // Hashing takes milliseconds, and each kubectl command requests the index.
    static INDEX: OnceLock<Value> = OnceLock::new();
    INDEX.get_or_init(build_index)
}

/// Returns `/openapi/v3/api/v1` or `/openapi/v3/apis/{group}/{version}`: paths and definitions.
pub fn document(group: &str, version: &str) -> Option<Pieces> {
    let kinds: Vec<_> = kind::all()
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
        .collect();
    if kinds.is_empty() {
        return None;
    }
    let mut head = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": API_LEVEL},
        "paths": paths::of(&kinds),
    })
    .to_string();
    // Insert the components before the closing brace, without building a tree.
    head.pop();
    head.push_str(",\"components\":{\"schemas\":{");
    let mut pieces: Pieces = vec![Cow::Owned(head)];
    for (index, line) in definitions::reachable_from(&kinds).into_iter().enumerate() {
        if index > 0 {
            pieces.push(Cow::Borrowed(","));
        }
        pieces.push(Cow::Borrowed(line));
    }
    pieces.push(Cow::Borrowed("}}}"));
    Some(pieces)
}

/// Returns the hash of a document, which is also its `ETag`.
pub fn hash(pieces: &[Cow<'static, str>]) -> String {
    hash_of(pieces.iter().map(|piece| piece.as_bytes()))
}

fn hash_of<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> String {
    let mut digest = Sha256::new();
    pieces.for_each(|piece| digest.update(piece));
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02X}").expect("writing to a String");
        text
    })
}

fn build_index() -> Value {
    let mut paths = Map::new();
    for (group, version) in group_versions() {
        let root = kind::root_path(group, version);
        let Some(pieces) = document(group, version) else {
            continue;
        };
        let url = format!("/openapi/v3{root}?hash={}", hash(&pieces));
        paths.insert(
            root.trim_start_matches('/').to_owned(),
            json!({"serverRelativeURL": url}),
        );
    }
    json!({"paths": paths})
}

fn group_versions() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = kind::all()
        .iter()
        .map(|kind| (kind.group, kind.version))
        .collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests;
