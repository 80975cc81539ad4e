//! Objects to examine, from the API or from files.

use std::path::{Path, PathBuf};

use client::Client;
use explain::{Kind, World, WorldBuilder};
use futures_util::{StreamExt, stream};
use serde_json::Value;

use crate::error::{CommandError, FileError};
use crate::paged_list::{OBJECTS_MAX, list};

/// Kinds that are listed at the same time: the responses of a distant API server take longer than their objects.
const CONCURRENT_LISTS: usize = 8;
/// Maximum number of values of a YAML file: 200 for each of 500,000 objects.
const YAML_NODES_MAX: usize = 100_000_000;
/// Maximum number of bytes of the values of a YAML file.
const YAML_BYTES_MAX: usize = 4 << 30;

/// Objects to examine.
#[derive(Debug)]
pub(crate) struct Source {
    /// The objects.
    pub builder: WorldBuilder,
    /// Kinds that the user must not read.
    pub forbidden: Vec<&'static str>,
    /// Kinds that the server does not serve.
    pub not_served: Vec<&'static str>,
}

impl Source {
    /// Lists all kinds that the rules read. A kind that the user must not read, or that the server does not serve, is
    /// absent.
    ///
    /// # Errors
    ///
    /// An error if the server does not respond, or if Services cannot be read.
    pub(crate) async fn from_api(client: &Client) -> Result<Self, CommandError> {
        Self::of_kinds(client, Kind::served()).await
    }

    /// Lists some kinds, as [`Self::from_api`] does.
    ///
    /// # Errors
    ///
    /// An error if the server does not respond, or if Services cannot be read.
    pub(crate) async fn of_kinds(
        client: &Client,
        kinds: impl IntoIterator<Item = Kind>,
    ) -> Result<Self, CommandError> {
        let mut source = Self::empty();
        let lists = kinds
            .into_iter()
            .map(|kind| async move { (kind, list(client, &kind.collection(), "").await) });
        let mut lists = stream::iter(lists).buffered(CONCURRENT_LISTS);
        while let Some((kind, listed)) = lists.next().await {
            match listed {
                Ok(None) => {
                    return Err(format!(
                        "more than {OBJECTS_MAX} objects of kind {}: examine a part of the cluster with --from-file",
                        kind.name()
                    )
                    .into());
                }
                Ok(Some(pages)) => {
                    source.builder.mark_present(kind);
                    pages.into_iter().for_each(|page| source.builder.add(page));
                }
                Err(error) if kind != Kind::Service && error.is_forbidden() => {
                    source.forbidden.push(kind.name());
                }
                Err(error) if kind != Kind::Service && error.is_not_found() => {
                    source.not_served.push(kind.name());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(source)
    }

    /// Reads files with JSON or YAML, with one or more documents each. An empty List is the output of kubectl for an empty
    /// namespace.
    ///
    /// # Errors
    ///
    /// An error if a file is unreadable, is neither JSON nor YAML, or the files contain neither an object of a known kind
    /// nor a List.
    pub(crate) fn from_files(paths: &[PathBuf]) -> Result<Self, CommandError> {
        let mut source = Self::empty();
        let mut has_list = false;
        for path in paths {
            for document in documents(path, &read(path)?)? {
                has_list |= is_list(&document);
                source.builder.add(document);
            }
        }
        if source.builder.is_empty() && !has_list {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            return Err(format!(
                "no objects in {}: expected the output of kubectl get services,endpointslices,pods,nodes -A -o json",
                names.join(", ")
            )
            .into());
        }
        Ok(source)
    }

    /// Returns the reasons why the examination is less than the user expects. `node` is the name of `--node`.
    pub(crate) fn problems(&self, node: Option<&str>) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.builder.has(Kind::Service) {
            problems.push("the input has no Services".to_owned());
        }
        if !self.forbidden.is_empty() {
            problems.push(format!("the user must not read {}", self.forbidden.join(", ")));
        }
        if let Some(node) =
            node.filter(|node| self.builder.has(Kind::Node) && !self.builder.contains(Kind::Node, "", node))
        {
            problems.push(format!("no Node has the name {node}"));
        }
        problems
    }

    /// Returns no objects.
    pub(crate) fn empty() -> Self {
        Self {
            builder: World::builder(),
            forbidden: Vec::new(),
            not_served: Vec::new(),
        }
    }
}

/// Reads the documents of a text, JSON or else YAML.
fn documents(path: &Path, text: &str) -> Result<Vec<Value>, CommandError> {
    let json: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text)
        .into_iter::<Value>()
        .collect();
    if let Ok(documents) = json {
        return Ok(documents);
    }
    let documents = serde_saphyr::from_multiple_with_options(text, yaml_options())
        .map_err(|error| format!("invalid {}: {error}", path.display()))?;
    Ok(documents)
}

/// Returns true for a List of any kind, with or without objects.
fn is_list(document: &Value) -> bool {
    let is_kind = document["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    is_kind && document["items"].is_array()
}

/// Options of YAML. As with kubectl, the last of several equal keys counts: templates repeat labels. A dump of a large
/// cluster exceeds the default limits, which are for untrusted configuration. JSON has none.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: YAML_NODES_MAX,
            max_nodes: YAML_NODES_MAX,
            max_documents: YAML_NODES_MAX,
            max_total_scalar_bytes: YAML_BYTES_MAX,
        },
    }
}

fn read(path: &Path) -> Result<String, FileError> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(FileError::at(path))
}

#[cfg(test)]
mod tests;
