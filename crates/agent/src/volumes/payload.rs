//! The files of a volume, from the objects that it names. Pure.

use std::collections::BTreeMap;

use crate::environment::{PodFacts, SourceKind, field, resource_field};
use crate::object::{DownwardSource, FileSource, KeyToPath, Pod, Projection, TokenSource, Volume};

use super::VolumeError;
use super::atomic::{File, Files, is_valid_path};

/// The permissions of files where the Pod does not say.
const MODE_DEFAULT: u32 = 0o644;

/// ConfigMaps and Secrets by kind and name, with the bytes of their keys.
pub type Objects = BTreeMap<(SourceKind, String), BTreeMap<String, Vec<u8>>>;

/// Tokens of the Pod's ServiceAccount, by audience.
pub type Tokens = BTreeMap<String, String>;

/// What volumes are filled from.
pub struct Sources<'a> {
    /// The Pod.
    pub pod: &'a Pod,
    /// Its addresses.
    pub facts: &'a PodFacts,
    /// What was read from the API.
    pub objects: &'a Objects,
    /// What the API has issued.
    pub tokens: &'a Tokens,
}

/// The sources of a volume that is filled with files, with the permissions of those that say none; `None` for others.
pub fn projections(volume: &Volume) -> Option<(Vec<Projection>, u32)> {
    let one = |projection: Projection, mode: Option<u32>| (vec![projection], mode.unwrap_or(MODE_DEFAULT));
    if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(MODE_DEFAULT);
        return Some((projected.sources.clone(), mode));
    }
    if let Some(source) = &volume.config_map {
        let projection = Projection {
            config_map: Some(source.clone()),
            ..Projection::default()
        };
        return Some(one(projection, source.default_mode));
    }
    if let Some(source) = &volume.secret {
        let projection = Projection {
            secret: Some(source.clone()),
            ..Projection::default()
        };
        return Some(one(projection, source.default_mode));
    }
    let source = volume.downward_api.as_ref()?;
    let projection = Projection {
        downward_api: Some(source.clone()),
        ..Projection::default()
    };
    Some(one(projection, source.default_mode))
}

/// The ConfigMaps and Secrets that a source names.
pub fn referenced(projection: &Projection) -> impl Iterator<Item = (SourceKind, &str)> {
    let config_map = projection
        .config_map
        .iter()
        .map(|s| (SourceKind::ConfigMap, s.name.as_str()));
    config_map.chain(
        projection
            .secret
            .iter()
            .map(|s| (SourceKind::Secret, s.name.as_str())),
    )
}

/// The files of a volume with these sources. Of two for one path the later counts.
pub fn files(projections: &[Projection], mode: u32, sources: &Sources<'_>) -> Result<Files, VolumeError> {
    let mut files = Files::new();
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
    match files.keys().find(|path| !is_valid_path(path)) {
        Some(path) => Err(VolumeError::Path { path: path.clone() }),
        None => Ok(files),
    }
}

fn add_object(
    files: &mut Files,
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
        let all = keys
            .iter()
            .map(|(key, content)| (key.clone(), file(content, mode)));
        files.extend(all);
        return Ok(());
    }
    for KeyToPath { key, path, mode: own } in &source.items {
        match keys.get(key) {
            Some(content) => drop(files.insert(path.clone(), file(content, own.unwrap_or(mode)))),
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
    files: &mut Files,
    source: &DownwardSource,
    mode: u32,
    sources: &Sources<'_>,
) -> Result<(), VolumeError> {
    for item in &source.items {
        let value = match (&item.field_ref, &item.resource_field_ref) {
            (Some(reference), _) => map_of(&reference.field_path, sources.pod)
                .or_else(|| field(&reference.field_path, sources.pod, sources.facts)),
            (None, Some(reference)) => resource_field(reference, sources.pod, None, sources.facts),
            (None, None) => None,
        };
        let value = value.ok_or_else(|| VolumeError::Field {
            path: item.path.clone(),
        })?;
        files.insert(
            item.path.clone(),
            file(value.as_bytes(), item.mode.unwrap_or(mode)),
        );
    }
    Ok(())
}

/// Whole maps, which only volumes can have: a line for each entry, in their order.
fn map_of(path: &str, pod: &Pod) -> Option<String> {
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
    files: &mut Files,
    source: &TokenSource,
    mode: u32,
    sources: &Sources<'_>,
) -> Result<(), VolumeError> {
    let token = sources.tokens.get(&source.audience);
    let token = token.ok_or_else(|| VolumeError::Token {
        why: "none was issued".to_owned(),
    })?;
    files.insert(source.path.clone(), file(token.as_bytes(), mode));
    Ok(())
}

fn file(content: &[u8], mode: u32) -> File {
    File {
        content: content.to_vec(),
        mode,
    }
}
