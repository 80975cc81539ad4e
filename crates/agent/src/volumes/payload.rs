//! Files of a volume, from its sources. Pure.

use std::collections::BTreeMap;

use crate::containers::environment::{PodFacts, SourceKind, field, resource_field};
use crate::object::{DownwardSource, FileSource, KeyToPath, Pod, Projection, TokenSource, Volume};

use super::atomic_writer::{File, Files, is_valid_path};
use super::error::VolumeError;

/// Default mode of files.
const MODE_DEFAULT: u32 = 0o644;
/// Maximum size of the files of one volume, with their paths. Items can repeat a key of a ConfigMap, which has up to a
/// megabyte, tens of thousands of times.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// ConfigMaps and Secrets by kind and name, with the bytes of their keys.
pub type Objects = BTreeMap<(SourceKind, String), BTreeMap<String, Vec<u8>>>;

/// Tokens of the Pod's ServiceAccount by audience.
pub type Tokens = BTreeMap<String, String>;

/// Sources of a volume's files.
pub struct Sources<'a> {
    /// Pod of the volume.
    pub pod: &'a Pod,
    /// Addresses of the Pod, and capacity of the node.
    pub facts: &'a PodFacts,
    /// ConfigMaps and Secrets.
    pub objects: &'a Objects,
    /// ServiceAccount tokens by audience.
    pub tokens: &'a Tokens,
}

/// Projections of a volume with files, and the default mode of the files; `None` for other volumes.
pub fn projections(volume: &Volume) -> Option<(Vec<Projection>, u32)> {
    if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(MODE_DEFAULT);
        return Some((projected.sources.clone(), mode));
    }
    let mut projection = Projection::default();
    let mode = if let Some(source) = &volume.config_map {
        projection.config_map = Some(source.clone());
        source.default_mode
    } else if let Some(source) = &volume.secret {
        projection.secret = Some(source.clone());
        source.default_mode
    } else {
        let source = volume.downward_api.as_ref()?;
        projection.downward_api = Some(source.clone());
        source.default_mode
    };
    Some((vec![projection], mode.unwrap_or(MODE_DEFAULT)))
}

/// Returns the ConfigMaps and Secrets of a projection.
pub fn referenced_sources(projection: &Projection) -> impl Iterator<Item = (SourceKind, &str)> {
    let config_map = projection.config_map.iter();
    let config_map = config_map.map(|source| (SourceKind::ConfigMap, source.name.as_str()));
    let secret = projection.secret.iter();
    config_map.chain(secret.map(|source| (SourceKind::Secret, source.name.as_str())))
}

/// Returns the files of a volume. Of two files with the same path, the later one counts.
///
/// # Errors
/// [`VolumeError`] for a missing object, key, field or token, for an invalid path, and for too much content.
pub fn files(projections: &[Projection], mode: u32, sources: &Sources<'_>) -> Result<Files, VolumeError> {
    let mut files = Payload::default();
    for projection in projections {
        if let Some(source) = &projection.config_map {
            add_object(&mut files, SourceKind::ConfigMap, source, mode, sources)?;
        }
        if let Some(source) = &projection.secret {
            add_object(&mut files, SourceKind::Secret, source, mode, sources)?;
        }
        if let Some(source) = &projection.downward_api {
            add_fields(&mut files, source, mode, sources)?;
        }
        if let Some(source) = &projection.service_account_token {
            add_token(&mut files, source, mode, sources)?;
        }
    }
    let Payload { files, .. } = files;
    match files.keys().find(|path| !is_valid_path(path)) {
        Some(path) => Err(VolumeError::Path { path: path.clone() }),
        None => Ok(files),
    }
}

/// Files of a volume, with a bound of their size.
#[derive(Default)]
struct Payload {
    files: Files,
    bytes: usize,
}

impl Payload {
    /// Adds a file, in place of an earlier one with the same path.
    ///
    /// # Errors
    /// [`VolumeError::TooLarge`].
    fn add(&mut self, path: &str, content: &[u8], mode: u32) -> Result<(), VolumeError> {
        self.bytes += path.len() + content.len();
        if self.bytes > PAYLOAD_BYTES_MAX {
            return Err(VolumeError::TooLarge {
                bytes_max: PAYLOAD_BYTES_MAX,
            });
        }
        let content = content.to_vec();
        self.files.insert(path.to_owned(), File { content, mode });
        Ok(())
    }
}

fn add_object(
    files: &mut Payload,
    kind: SourceKind,
    source: &FileSource,
    mode: u32,
    sources: &Sources<'_>,
) -> Result<(), VolumeError> {
    let is_optional = source.optional == Some(true);
    let Some(keys) = sources.objects.get(&(kind, source.name.clone())) else {
        return if is_optional {
            Ok(())
        } else {
            Err(VolumeError::Object {
                kind,
                name: source.name.clone(),
            })
        };
    };
    if source.items.is_empty() {
        let mut all = keys.iter();
        return all.try_for_each(|(key, content)| files.add(key, content, mode));
    }
    for KeyToPath { key, path, mode: own } in &source.items {
        match keys.get(key) {
            Some(content) => files.add(path, content, own.unwrap_or(mode))?,
            None if is_optional => {}
            None => {
                return Err(VolumeError::Key {
                    kind,
                    name: source.name.clone(),
                    key: key.clone(),
                });
            }
        }
    }
    Ok(())
}

fn add_fields(
    files: &mut Payload,
    source: &DownwardSource,
    mode: u32,
    sources: &Sources<'_>,
) -> Result<(), VolumeError> {
    for item in &source.items {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(reference), _) => whole_map(&reference.field_path, sources.pod)
                .or_else(|| field(&reference.field_path, sources.pod, sources.facts)),
            (None, Some(reference)) => resource_field(reference, sources.pod, None, sources.facts),
            (None, None) => None,
        };
        let value = value.ok_or_else(|| VolumeError::Field {
            path: item.path.clone(),
        })?;
        files.add(&item.path, value.as_bytes(), item.mode.unwrap_or(mode))?;
    }
    Ok(())
}

/// Labels or annotations as a whole, which only volumes support: a line for each entry, sorted by key.
fn whole_map(path: &str, pod: &Pod) -> Option<String> {
    let lines = |entries: &mut dyn Iterator<Item = (&String, &String)>| {
        let lines: Vec<String> = entries.map(|(key, value)| format!("{key}={value:?}")).collect();
        lines.join("\n")
    };
    match path {
        "metadata.labels" => {
            let sorted: BTreeMap<_, _> = pod.metadata.labels.iter().collect();
            Some(lines(&mut sorted.into_iter()))
        }
        "metadata.annotations" => {
            let sorted: BTreeMap<_, _> = pod.metadata.annotations.iter().collect();
            Some(lines(&mut sorted.into_iter()))
        }
        _ => None,
    }
}

fn add_token(
    files: &mut Payload,
    source: &TokenSource,
    mode: u32,
    sources: &Sources<'_>,
) -> Result<(), VolumeError> {
    let token = sources.tokens.get(&source.audience);
    let token = token.ok_or_else(|| VolumeError::Token {
        cause: "none was issued".to_owned(),
    })?;
    files.add(&source.path, token.as_bytes(), mode)
}
