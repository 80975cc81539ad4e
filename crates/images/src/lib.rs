//! Container images of a node: references, registries, archives, and a store on disk with unpacked layers.
//!
//! The crate does not depend on Kubernetes. [`ImageStore::pull`] downloads an image, [`ImageStore::load`] reads it
//! from an archive. [`Image::layers`] are the lower directories of an overlay file system.
//!
//! Everything in an image and everything that a registry sends is untrusted. The crate verifies content by its
//! digest. It unpacks layers through directory descriptors, never through paths.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let reference: images::Reference = "nginx:1.27".parse()?;
//! assert_eq!(reference.to_string(), "docker.io/library/nginx:1.27");
//!
//! let directory = tempfile::tempdir()?;
//! let store = images::ImageStore::open(directory.path(), images::StoreSettings::default())?;
//! assert!(store.find(&reference)?.is_none());
//! # Ok(())
//! # }
//! ```

mod config;
mod digest;
mod image;
mod layer;
mod load;
mod manifest;
mod platform;
mod reference;
mod registry;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod text;

pub use config::{ConfigError, ImageConfig};
pub use digest::{Algorithm, Digest, DigestError};
pub use image::{Image, ImageId, ImageSummary};
pub use layer::limits::Limit;
pub use layer::whiteout::OverlayAttributes;
pub use layer::{EntryError, LayerError, UnpackedSize, unpack_for_test};
pub use load::{LoadError, LoadSource};
pub use manifest::{CONFIG_BYTES_MAX, LAYERS_MAX, MANIFEST_BYTES_MAX, ManifestError, check_manifest};
pub use platform::Platform;
pub use reference::{DEFAULT_REGISTRY, Reference, ReferenceError};
pub use registry::{
    CredentialError, HostsError, Progress, PullError, RegistryCredential, parse_docker_credentials,
};
pub use settings::{DevicePolicy, StoreSettings};
pub use store::{DiskThresholds, ImageStore, PruneReport, StoreError};
