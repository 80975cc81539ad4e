//! Archives of `docker save` without index: `manifest.json` lists the images.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::content::Content;
use super::name::parse_name;
use super::{FoundImage, LoadError};
use crate::config::ParsedConfig;
use crate::digest::Digest;
use crate::manifest::{CONFIG_BYTES_MAX, LAYERS_MAX, MANIFEST_BYTES_MAX, ManifestError};
use crate::platform::Platform;
use crate::reference::Reference;

const LIST: &str = "manifest.json";

/// An image in `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListEntry {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Returns the images of an archive, or `None` if the content is not one.
pub(super) fn images(content: &Content, platform: &Platform) -> Result<Option<Vec<FoundImage>>, LoadError> {
    let Some(entries) = list(content)? else {
        return Ok(None);
    };
    let images = entries.into_iter().map(|entry| image(content, entry, platform));
    images.collect::<Result<Vec<_>, _>>().map(Some)
}

/// Returns the names of the images by the digests of their configurations. Empty if there is no list.
pub(super) fn names_by_config(content: &Content) -> Result<BTreeMap<Digest, Vec<Reference>>, LoadError> {
    let mut names = BTreeMap::new();
    for entry in list(content)?.unwrap_or_default() {
        let Some(config) = content.read(&entry.config, CONFIG_BYTES_MAX)? else {
            continue;
        };
        names.insert(Digest::sha256(&config), entry.names()?);
    }
    names.retain(|_, names: &mut Vec<Reference>| !names.is_empty());
    Ok(names)
}

fn list(content: &Content) -> Result<Option<Vec<ListEntry>>, LoadError> {
    let Some(list) = content.read(LIST, MANIFEST_BYTES_MAX)? else {
        return Ok(None);
    };
    serde_json::from_slice(&list).map(Some).map_err(LoadError::List)
}

impl ListEntry {
    fn names(&self) -> Result<Vec<Reference>, LoadError> {
        let names = self.repo_tags.iter().flatten();
        names.map(|name| parse_name(name)).collect()
    }
}

fn image(content: &Content, entry: ListEntry, platform: &Platform) -> Result<FoundImage, LoadError> {
    if entry.layers.len() > LAYERS_MAX {
        return Err(ManifestError::Layers(entry.layers.len()).into());
    }
    let names = entry.names()?;
    let config_content = content.read(&entry.config, CONFIG_BYTES_MAX)?;
    let config_content = config_content.ok_or(LoadError::Missing(entry.config))?;
    let config = Digest::sha256(&config_content);
    let parsed_config = ParsedConfig::parse(&config_content)?;
    parsed_config.check(platform, entry.layers.len())?;
    let manifest_content = manifest(&config, config_content.len(), &parsed_config.diff_ids)?;
    let manifest = Digest::sha256(&manifest_content);
    let documents = BTreeMap::from([
        (config.clone(), config_content),
        (manifest.clone(), manifest_content),
    ]);
    Ok(FoundImage {
        names,
        target: manifest.clone(),
        manifest,
        config,
        parsed_config,
        layers: entry.layers.into_iter().map(|layer| (layer, None)).collect(),
        documents,
    })
}

/// Returns the manifest of an image whose archive has none, with the digests of the uncompressed layers.
fn manifest(config: &Digest, config_bytes: usize, layers: &[Digest]) -> Result<Vec<u8>, LoadError> {
    let layers = layers
        .iter()
        .map(|layer| json!({"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer}));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": config,
            "size": config_bytes,
        },
        "layers": layers.collect::<Vec<_>>(),
    });
    serde_json::to_vec(&manifest).map_err(LoadError::List)
}
