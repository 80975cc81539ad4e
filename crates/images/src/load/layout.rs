//! OCI layouts (OCI image specification, "Image Layout").

use std::collections::BTreeMap;

use super::content::{Content, blob_name};
use super::docker_archive;
use super::name::parse_name;
use super::{FoundImage, LoadError};
use crate::config::ParsedConfig;
use crate::digest::Digest;
use crate::manifest::{
    CONFIG_BYTES_MAX, Descriptor, Document, MANIFEST_BYTES_MAX, Manifest, ManifestError, choose,
};
use crate::platform::Platform;

const INDEX: &str = "index.json";
/// Annotation with the whole name, of containerd and Docker.
const NAME_ANNOTATION: &str = "io.containerd.image.name";
/// Annotation with a name or, more often, only a tag.
const REF_NAME_ANNOTATION: &str = "org.opencontainers.image.ref.name";

/// Returns the images of a layout, or `None` if the content is not one.
pub(super) fn images(content: &Content, platform: &Platform) -> Result<Option<Vec<FoundImage>>, LoadError> {
    let Some(index) = content.read(INDEX, MANIFEST_BYTES_MAX)? else {
        return Ok(None);
    };
    let Document::Index(entries) = Document::parse(&index)? else {
        return Err(ManifestError::Neither.into());
    };
    let docker_names = docker_archive::names_by_config(content)?;
    let has_names = entries.iter().any(|entry| name_of(entry).is_some());
    let chosen: Vec<&Descriptor> = if has_names || !docker_names.is_empty() {
        let can_run = |entry: &&Descriptor| {
            let platform_of_entry = entry.platform.as_ref();
            platform_of_entry.is_none_or(|offered| platform.preference_of(offered).is_some())
        };
        entries.iter().filter(can_run).collect()
    } else {
        vec![choose(&entries, platform)?]
    };
    if chosen.is_empty() {
        choose(&entries, platform)?;
    }
    // One image can have several names, each with an entry of its own.
    let mut found: BTreeMap<Digest, FoundImage> = BTreeMap::new();
    for entry in chosen {
        if !found.contains_key(&entry.digest) {
            let image = image(content, entry, platform)?;
            found.insert(entry.digest.clone(), image);
        }
        let Some(image) = found.get_mut(&entry.digest) else {
            continue;
        };
        match name_of(entry) {
            Some(name) => image.names.push(parse_name(name)?),
            None => image
                .names
                .extend(docker_names.get(&image.config).into_iter().flatten().cloned()),
        }
    }
    let mut found: Vec<FoundImage> = found.into_values().collect();
    for image in &mut found {
        image.names.sort();
        image.names.dedup();
    }
    Ok(Some(found))
}

/// Returns the name of an entry. A tag alone is not a name.
fn name_of(entry: &Descriptor) -> Option<&str> {
    let whole = entry.annotations.get(NAME_ANNOTATION);
    let reference = entry.annotations.get(REF_NAME_ANNOTATION);
    let reference = reference.filter(|name| name.contains(['/', ':']));
    whole.or(reference).map(String::as_str)
}

fn image(content: &Content, entry: &Descriptor, platform: &Platform) -> Result<FoundImage, LoadError> {
    let target = entry.digest.clone();
    let mut documents = BTreeMap::new();
    let (manifest_digest, manifest) = manifest(content, &target, platform, &mut documents)?;
    let config = manifest.config.digest.clone();
    let config_content = content.read_blob(&config, CONFIG_BYTES_MAX)?;
    let parsed_config = ParsedConfig::parse(&config_content)?;
    parsed_config.check(platform, manifest.layers.len())?;
    documents.insert(config.clone(), config_content);
    let layers = manifest.layers.into_iter();
    Ok(FoundImage {
        names: Vec::new(),
        target,
        manifest: manifest_digest,
        config,
        parsed_config,
        layers: layers
            .map(|layer| (blob_name(&layer.digest), Some(layer.digest)))
            .collect(),
        documents,
    })
}

/// Reads the manifest with a digest, or the one that the index with this digest has for the platform.
fn manifest(
    content: &Content,
    target: &Digest,
    platform: &Platform,
    documents: &mut BTreeMap<Digest, Vec<u8>>,
) -> Result<(Digest, Manifest), LoadError> {
    let read = content.read_blob(target, MANIFEST_BYTES_MAX)?;
    let document = Document::parse(&read)?;
    documents.insert(target.clone(), read);
    let entries = match document {
        Document::Manifest(manifest) => return Ok((target.clone(), manifest)),
        Document::Index(entries) => entries,
    };
    let digest = choose(&entries, platform)?.digest.clone();
    let read = content.read_blob(&digest, MANIFEST_BYTES_MAX)?;
    let Document::Manifest(manifest) = Document::parse(&read)? else {
        return Err(ManifestError::NestedIndex.into());
    };
    documents.insert(digest.clone(), read);
    Ok((digest, manifest))
}
