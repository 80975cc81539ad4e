//! The steps of a pull: manifest, configuration, layers and commit.

use std::collections::BTreeMap;
use std::io::{Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use reqwest::header::HeaderMap;

use super::Progress;
use super::credentials::{RegistryCredential, matching_credentials};
use super::download::{PartialLayer, verify};
use super::error::PullError;
use super::hosts::hosts;
use super::session::Session;
use crate::config::ParsedConfig;
use crate::digest::Digest;
use crate::image::Image;
use crate::layer::LayerDigests;
use crate::manifest::{
    CONFIG_BYTES_MAX, Descriptor, Document, MANIFEST_BYTES_MAX, Manifest, ManifestError, choose,
};
use crate::reference::Reference;
use crate::store::{ImageDigests, ImageStore, LayerOrigin, LockedFile, StoreError, VerifiedContent};

/// Maximum number of layers that are downloaded and unpacked at the same time, as Docker does.
const CONCURRENT_LAYERS_MAX: usize = 3;
/// Maximum number of attempts to store an image, if another process removes its layers meanwhile.
const COMMIT_ATTEMPTS_MAX: usize = 3;
/// Time between two checks of a layer that another process downloads.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Header with the digest of a manifest.
const DIGEST_HEADER: &str = "docker-content-digest";

type ProgressCallback<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// Ends the threads of a pull that is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Image that a registry has.
struct RemoteImage {
    parts: ImageDigests,
    layers: Vec<Descriptor>,
    documents: VerifiedContent,
}

impl ImageStore {
    /// Pulls an image from its registry or a mirror. Layers that the store has are not downloaded, if the pull has access to
    /// them.
    ///
    /// Credentials are tried for the registries that they name. Several pulls from one repository share the download
    /// of a layer, also those of other processes. A pull that is dropped keeps the downloaded bytes for a day.
    ///
    /// # Errors
    /// [`PullError`]
    pub async fn pull(
        &self,
        reference: &Reference,
        credentials: &[RegistryCredential],
        progress: &(dyn Fn(Progress) + Send + Sync),
    ) -> Result<Image, PullError> {
        let pull_timeout = self.settings().pull_timeout;
        let pulled = self.pull_without_timeout(reference, credentials, progress);
        let pulled = tokio::time::timeout(pull_timeout, pulled).await;
        pulled.unwrap_or(Err(PullError::Timeout(pull_timeout)))
    }

    /// Pulls an image: resolves the reference, downloads missing layers, and records the image.
    async fn pull_without_timeout(
        &self,
        reference: &Reference,
        credentials: &[RegistryCredential],
        progress: ProgressCallback<'_>,
    ) -> Result<Image, PullError> {
        let sessions = self.sessions(reference, credentials)?;
        let remote = self.resolve(reference, &sessions).await?;
        let bytes = remote
            .layers
            .iter()
            .map(|layer| layer.size)
            .fold(0, u64::saturating_add);
        progress(Progress::Resolved {
            digest: remote.parts.target.clone(),
            layers: remote.layers.len(),
            bytes,
        });
        let cancelled = CancelOnDrop(Arc::new(AtomicBool::new(false)));
        let (store, layers) = (self.clone(), remote.parts.layers.clone());
        let layer_lock = tokio::task::spawn_blocking(move || store.lock_layers(&layers)).await;
        let _layer_lock = layer_lock.map_err(PullError::Thread)??;
        for _ in 0..COMMIT_ATTEMPTS_MAX {
            let mut layers: BTreeMap<&Digest, &Descriptor> = BTreeMap::new();
            for (diff_id, layer) in remote.parts.layers.iter().zip(&remote.layers) {
                layers.entry(diff_id).or_insert(layer);
            }
            let fetches = layers.into_iter().map(|(diff_id, layer)| {
                self.fetch_layer(layer, diff_id, reference, &sessions, &cancelled.0, progress)
            });
            let fetches: Vec<_> = fetches.collect();
            stream::iter(fetches)
                .buffer_unordered(CONCURRENT_LAYERS_MAX)
                .try_collect::<()>()
                .await?;
            let (store, reference) = (self.clone(), reference.clone());
            let (parts, documents) = (remote.parts.clone(), remote.documents.clone());
            let committed =
                tokio::task::spawn_blocking(move || store.commit(&reference, parts, &documents)).await;
            if let Some(image) = committed.map_err(PullError::Thread)?? {
                return Ok(image);
            }
        }
        Err(PullError::Removed)
    }

    /// Sessions with the registry and its mirrors, in the order of use.
    fn sessions(
        &self,
        reference: &Reference,
        credentials: &[RegistryCredential],
    ) -> Result<Vec<Session>, PullError> {
        let settings = self.settings();
        let hosts = hosts(settings.hosts_directory.as_deref(), reference)?.into_iter();
        let sessions = hosts.map(|host| {
            let registry = match &host.mirrored {
                Some(_) => host.authority.as_str(),
                None => reference.registry(),
            };
            let credentials = matching_credentials(credentials, registry, reference.repository());
            Session::new(host, reference, credentials, settings.stall_timeout)
        });
        sessions.collect()
    }

    /// Reads manifest and configuration.
    async fn resolve(&self, reference: &Reference, sessions: &[Session]) -> Result<RemoteImage, PullError> {
        let platform = &self.settings().platform;
        let mut documents = VerifiedContent::new();
        let (target, content) = manifest_of_name(reference, sessions).await?;
        let (manifest_digest, manifest) = match Document::parse(&content)? {
            Document::Manifest(manifest) => (target.clone(), manifest),
            Document::Index(entries) => {
                let digest = choose(&entries, platform)?.digest.clone();
                let content = manifest_with_digest(&digest, sessions).await?;
                let manifest = match Document::parse(&content)? {
                    Document::Manifest(manifest) => manifest,
                    Document::Index(_) => return Err(ManifestError::NestedIndex.into()),
                };
                documents.insert(digest.clone(), content);
                (digest, manifest)
            }
        };
        documents.insert(target.clone(), content);
        let Manifest { config, layers } = manifest;
        let content = config_content(&config, sessions).await?;
        let parsed = ParsedConfig::parse(&content)?;
        parsed.check(platform, layers.len())?;
        documents.insert(config.digest.clone(), content);
        let parts = ImageDigests {
            target,
            manifest: manifest_digest,
            config: config.digest,
            layers: parsed.diff_ids,
        };
        Ok(RemoteImage {
            parts,
            layers,
            documents,
        })
    }

    /// Downloads and unpacks a layer, unless the store has it and this pull may use it.
    async fn fetch_layer(
        &self,
        layer: &Descriptor,
        diff_id: &Digest,
        reference: &Reference,
        sessions: &[Session],
        cancelled: &Arc<AtomicBool>,
        progress: ProgressCallback<'_>,
    ) -> Result<(), PullError> {
        let path = self.download_path(reference, &layer.digest);
        if !self.may_use_layer(layer, diff_id, reference, sessions).await? {
            let locked = lock_download(&path).await?;
            // Another pull may have unpacked it while this one waited for the lock.
            if !self.may_use_layer(layer, diff_id, reference, sessions).await? {
                let mut partial = PartialLayer::open(layer, &locked).await?;
                let mut errors = Vec::new();
                for session in sessions.iter().filter(|session| session.host.can_pull) {
                    match partial.complete_from(session, progress).await {
                        Err(error) if error.is_of_host() => errors.push(error),
                        completed => {
                            completed?;
                            errors.clear();
                            let origin = if session.has_credentials() {
                                origin_of(layer, reference)
                            } else {
                                LayerOrigin::Public
                            };
                            return self
                                .unpack_download(layer, diff_id, origin, locked, cancelled, progress)
                                .await;
                        }
                    }
                }
                return Err(one_or_all(errors, "pull"));
            }
            locked.delete().map_err(StoreError::at(&path))?;
        }
        progress(Progress::LayerReady {
            digest: layer.digest.clone(),
        });
        Ok(())
    }

    /// Returns true if the store has a layer that this pull may use. Who knows the digests of a layer need not have access
    /// to it. A layer that was downloaded with credentials is for those to whom the same registry gives the content.
    async fn may_use_layer(
        &self,
        layer: &Descriptor,
        diff_id: &Digest,
        reference: &Reference,
        sessions: &[Session],
    ) -> Result<bool, PullError> {
        let Some(origins) = self.layer_origins(diff_id)? else {
            return Ok(false);
        };
        if origins.contains(&LayerOrigin::Public) {
            return Ok(true);
        }
        if !origins.contains(&origin_of(layer, reference)) {
            return Ok(false);
        }
        for session in sessions.iter().filter(|session| session.host.can_pull) {
            if session.has_blob(layer).await {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Unpacks a complete download, and deletes it.
    async fn unpack_download(
        &self,
        layer: &Descriptor,
        diff_id: &Digest,
        origin: LayerOrigin,
        locked: LockedFile,
        cancelled: &Arc<AtomicBool>,
        progress: ProgressCallback<'_>,
    ) -> Result<(), PullError> {
        let (store, cancelled) = (self.clone(), Arc::clone(cancelled));
        let digests = LayerDigests {
            compressed: None,
            uncompressed: diff_id.clone(),
        };
        let unpacked = tokio::task::spawn_blocking(move || {
            let path = locked.path().to_owned();
            let mut file = locked.file();
            file.seek(SeekFrom::Start(0)).map_err(StoreError::at(&path))?;
            let added = store.add_layer(file, &digests, origin, cancelled);
            locked.delete().map_err(StoreError::at(&path))?;
            added
        });
        unpacked.await.map_err(PullError::Thread)??;
        progress(Progress::LayerReady {
            digest: layer.digest.clone(),
        });
        Ok(())
    }
}

/// Returns the origin of a layer that a registry gives only with credentials.
fn origin_of(layer: &Descriptor, reference: &Reference) -> LayerOrigin {
    LayerOrigin::Registry {
        registry: reference.registry().to_owned(),
        content: layer.digest.clone(),
    }
}

/// Waits until no other pull downloads the layer. The deadline of the pull bounds the wait.
async fn lock_download(path: &Path) -> Result<LockedFile, PullError> {
    loop {
        match LockedFile::try_lock(path).map_err(StoreError::at(path))? {
            Some(locked) => return Ok(locked),
            None => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
        }
    }
}

/// Returns the manifest or index of a reference, with its digest.
async fn manifest_of_name(
    reference: &Reference,
    sessions: &[Session],
) -> Result<(Digest, Vec<u8>), PullError> {
    let mut errors = Vec::new();
    let usable = sessions.iter().filter(|session| match reference.digest() {
        Some(_) => session.host.can_pull,
        None => session.host.can_resolve,
    });
    for session in usable {
        let received = session.manifest(&reference.selector(), MANIFEST_BYTES_MAX).await;
        let verified = received.and_then(|(content, headers)| {
            let digest = content_digest(reference, session, &content, &headers)?;
            Ok((digest, content))
        });
        match verified {
            Err(error) if error.is_of_host() => errors.push(error),
            verified => return verified,
        }
    }
    Err(one_or_all(errors, "resolve"))
}

/// Returns the digest of a manifest, verified against the reference, or else against the header of the response.
fn content_digest(
    reference: &Reference,
    session: &Session,
    content: &[u8],
    headers: &HeaderMap,
) -> Result<Digest, PullError> {
    let host = &session.host.authority;
    if let Some(digest) = reference.digest() {
        verify(host, digest, content)?;
        return Ok(digest.clone());
    }
    let stated = headers
        .get(DIGEST_HEADER)
        .and_then(|value| value.to_str().ok()?.parse::<Digest>().ok());
    match stated {
        Some(digest) => verify(host, &digest, content).map(|()| digest),
        None => Ok(Digest::sha256(content)),
    }
}

async fn manifest_with_digest(digest: &Digest, sessions: &[Session]) -> Result<Vec<u8>, PullError> {
    let mut errors = Vec::new();
    for session in sessions.iter().filter(|session| session.host.can_pull) {
        let received = session.manifest(&digest.to_string(), MANIFEST_BYTES_MAX).await;
        let verified = received.and_then(|(content, _)| {
            verify(&session.host.authority, digest, &content)?;
            Ok(content)
        });
        match verified {
            Ok(content) => return Ok(content),
            Err(error) => errors.push(error),
        }
    }
    Err(one_or_all(errors, "pull"))
}

async fn config_content(config: &Descriptor, sessions: &[Session]) -> Result<Vec<u8>, PullError> {
    let mut errors = Vec::new();
    for session in sessions.iter().filter(|session| session.host.can_pull) {
        let received = session.blob(&config.digest.to_string(), CONFIG_BYTES_MAX).await;
        let verified = received.and_then(|content| {
            verify(&session.host.authority, &config.digest, &content)?;
            Ok(content)
        });
        match verified {
            Ok(content) => return Ok(content),
            Err(error) => errors.push(error),
        }
    }
    Err(one_or_all(errors, "pull"))
}

fn one_or_all(mut errors: Vec<PullError>, capability: &'static str) -> PullError {
    match (errors.pop(), errors.is_empty()) {
        (None, _) => PullError::NoHost(capability),
        (Some(only), true) => only,
        (Some(last), false) => {
            errors.push(last);
            PullError::All(errors)
        }
    }
}
