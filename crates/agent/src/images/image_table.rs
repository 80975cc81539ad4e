//! Image table: it replaces a container registry and maps image names to commands of the node.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::confinement::user_namespaces::IdMap;

#[cfg(test)]
mod tests;

/// Built-in image of the echo server.
pub const ECHO_IMAGE: &str = "portolan.dev/echo";

/// Image table, as its YAML file has it:
///
/// ```yaml
/// images:
///   nginx: [/usr/sbin/nginx, -g, daemon off;]
///   docker.io/library/redis: [/usr/bin/redis-server]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageTable {
    /// Program and arguments by image name, with or without tag.
    pub images: BTreeMap<String, Vec<String>>,
}

/// Entrypoint of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entrypoint {
    /// The built-in echo server.
    Echo,
    /// Program with its arguments.
    Command(Vec<String>),
}

/// Error of an image that is not in the table. The message goes into the container's status.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "image {image:?} is not in the image table, and this node has no registry. \
     Add a line `{name}: [program, argument, …]` under `images:` in the agent's image table (--image-table FILE) \
     and start the agent again, which reads the table at its start; or use {ECHO_IMAGE}"
)]
pub struct UnknownImage {
    image: String,
    name: String,
}

/// User of an image, for Pods that name no user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageUser {
    /// User 0, by number or name.
    #[default]
    Root,
    /// Unprivileged user.
    Unprivileged(u32),
    /// User of an image in the store, which the sandbox finds in the image.
    InImage,
    /// The only user in the agent's user namespace, which has ID 0 there.
    OnlyMapped,
}

/// User of the built-in image.
const ECHO_USER: u32 = 65_532;

impl Entrypoint {
    /// Returns the user of the image. The built-in image needs no privileges, so it satisfies the Pod Security level
    /// `restricted`. In the host network it stays root, which can listen on ports below 1024 there.
    pub fn user(&self, is_in_host_network: bool) -> ImageUser {
        match self {
            Self::Echo if !is_in_host_network && is_mapped(ECHO_USER) => ImageUser::Unprivileged(ECHO_USER),
            Self::Echo if !is_mapped(ECHO_USER) => ImageUser::OnlyMapped,
            _ => ImageUser::Root,
        }
    }
}

/// Returns true if the user namespace of this process maps the user.
fn is_mapped(user: u32) -> bool {
    IdMap::own_users().contains(user, 1)
}

impl ImageTable {
    /// Returns the entrypoint of an image. The full reference takes precedence over the name without digest and tag.
    ///
    /// # Errors
    /// [`UnknownImage`] if the table has neither.
    pub fn entrypoint(&self, image: &str) -> Result<Entrypoint, UnknownImage> {
        let name = without_tag(image);
        if let Some(command) = self.images.get(image).or_else(|| self.images.get(name)) {
            return Ok(Entrypoint::Command(command.clone()));
        }
        if name == ECHO_IMAGE {
            return Ok(Entrypoint::Echo);
        }
        Err(UnknownImage {
            image: image.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Returns the image name without `@digest` and `:tag`. A colon before the last `/` belongs to the port of a registry.
fn without_tag(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}
