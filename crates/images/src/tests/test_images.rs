//! Images for tests: layers, configuration, manifest, and the archives that hold them.

use serde_json::{Value, json};
use tar::{Builder, Header};

use crate::digest::Digest;
use crate::platform::Platform;

/// Image with one file in each layer.
pub(crate) struct TestImage {
    pub layers: Vec<Vec<u8>>,
    /// The layers as registries have them.
    pub compressed: Vec<Vec<u8>>,
    pub config: Vec<u8>,
    pub manifest: Vec<u8>,
}

/// Tar archive with files.
pub(crate) fn archive<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, content).expect("an entry");
    }
    builder.into_inner().expect("an archive")
}

impl TestImage {
    /// Image with layers of these contents, compressed by `compress`.
    pub(crate) fn new(contents: &[&str], compress: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let paths: Vec<String> = (0..contents.len())
            .map(|number| format!("file{number}"))
            .collect();
        let files = paths.iter().zip(contents);
        let layers = files
            .map(|(path, content)| archive([(path.as_str(), content.as_bytes())]))
            .collect();
        Self::of_layers(layers, compress)
    }

    pub(crate) fn of_layers(layers: Vec<Vec<u8>>, compress: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let platform = Platform::host();
        let diff_ids = layers.iter().map(|layer| Digest::sha256(layer));
        let config = json!({
            "os": platform.os, "architecture": platform.architecture,
            "config": {"Cmd": ["/file0"]},
            "rootfs": {"type": "layers", "diff_ids": diff_ids.collect::<Vec<_>>()},
        });
        let config = config.to_string().into_bytes();
        let compressed: Vec<Vec<u8>> = layers.iter().map(|layer| compress(layer)).collect();
        let layer = "application/vnd.oci.image.layer.v1.tar+gzip";
        let descriptors = compressed.iter().map(|content| descriptor(layer, content));
        let manifest = json!({
            "schemaVersion": 2,
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": descriptors.collect::<Vec<_>>(),
        });
        Self {
            layers,
            compressed,
            config,
            manifest: manifest.to_string().into_bytes(),
        }
    }

    /// Files of an OCI layout with this image.
    pub(crate) fn layout(&self, annotations: &Value) -> Vec<(String, Vec<u8>)> {
        let mut entry = descriptor("application/vnd.oci.image.manifest.v1+json", &self.manifest);
        entry["annotations"] = annotations.clone();
        let index = json!({"schemaVersion": 2, "manifests": [entry]})
            .to_string()
            .into_bytes();
        let mut files = vec![
            (
                "oci-layout".to_owned(),
                br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(),
            ),
            ("index.json".to_owned(), index),
        ];
        let blobs = [&self.manifest, &self.config].into_iter().chain(&self.compressed);
        files.extend(blobs.map(|blob| {
            let digest = Digest::sha256(blob);
            (format!("blobs/sha256/{}", digest.hex()), blob.clone())
        }));
        files
    }

    /// Files of `docker save` before version 25. The list of images comes last, as Docker writes it.
    pub(crate) fn docker_files(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let layers = (0..self.layers.len()).map(|number| format!("{number}/layer.tar"));
        let layers: Vec<String> = layers.collect();
        let list = json!([{"Config": "config.json", "RepoTags": [name], "Layers": layers}]);
        let mut files: Vec<_> = layers.into_iter().zip(self.layers.iter().cloned()).collect();
        files.push(("config.json".to_owned(), self.config.clone()));
        files.push(("manifest.json".to_owned(), list.to_string().into_bytes()));
        files
    }
}

pub(crate) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::sha256(content), "size": content.len()})
}

pub(crate) fn archive_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    archive(
        files
            .iter()
            .map(|(path, content)| (path.as_str(), content.as_slice())),
    )
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).expect("compressed");
    encoder.finish().expect("compressed")
}

pub(crate) fn zstd(content: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest)
}
