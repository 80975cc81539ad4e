//! OpenAPI v3 documents, one a group and version: `kubectl explain`, and what `kubectl apply` looks up before it
//! sends a patch. The older form of them all is in [`v2`].

mod definitions;
mod paths;
pub mod v2;
mod v2_protobuf;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kinds::kind;

/// The version of the Kubernetes API that the definitions are of.
const API_LEVEL: &str = "v1.36.0";

/// A document as pieces to be sent one after another; most are part of the program and cost no memory.
pub type Pieces = Vec<Cow<'static, str>>;

/// `/openapi/v3`: the path of every document, with a hash, so that clients may cache documents forever.
pub fn index() -> &'static Value {
    // Hashing every document takes milliseconds, and kubectl asks with each command.
    static INDEX: OnceLock<Value> = OnceLock::new();
    INDEX.get_or_init(build_index)
}

/// `/openapi/v3/api/v1`, `/openapi/v3/apis/{group}/{version}`: paths and definitions.
pub fn document(group: &str, version: &str) -> Option<Pieces> {
    let kinds: Vec<_> = kind::all()
        .iter()
        .filter(|k| k.group == group && k.version == version)
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
    // The components go in before the closing brace, without building a tree of them.
    head.pop();
    head.push_str(",\"components\":{\"schemas\":{");
    let mut pieces: Pieces = vec![Cow::Owned(head)];
    for (at, line) in definitions::reached_from(&kinds).into_iter().enumerate() {
        if at > 0 {
            pieces.push(Cow::Borrowed(","));
        }
        pieces.push(Cow::Borrowed(line));
    }
    pieces.push(Cow::Borrowed("}}}"));
    Some(pieces)
}

/// The hash by which a document is known, also its `ETag`.
pub fn hash(pieces: &[Cow<'static, str>]) -> String {
    hash_of(pieces.iter().map(|piece| piece.as_bytes()))
}

fn hash_of<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> String {
    let mut digest = Sha256::new();
    pieces.for_each(|piece| digest.update(piece));
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02X}").expect("memory takes every write");
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
    let mut all: Vec<_> = kind::all().iter().map(|k| (k.group, k.version)).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests;
