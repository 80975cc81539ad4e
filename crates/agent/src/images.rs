//! What stands for container images: a table from image name to command.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::user_namespaces::IdMap;

#[cfg(test)]
mod tests;

/// The image that always works.
pub const ECHO_IMAGE: &str = "portolan.dev/echo";

/// The image table, as its YAML file has it:
///
/// ```yaml
/// images:
///   nginx: [/usr/sbin/nginx, -g, daemon off;]
///   docker.io/library/redis: [/usr/bin/redis-server]
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Images {
    /// Image name, with or without tag, to program and arguments.
    pub images: BTreeMap<String, Vec<String>>,
}

/// What an image runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entrypoint {
    /// The built-in echo server.
    Echo,
    /// A program with its arguments.
    Command(Vec<String>),
}

/// An image is not in the table. The message is for the container's status.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "image {image:?} is not known here: there is no registry behind this node. \
     Add a line `{name}: [program, argument, …]` under `images:` in the agent's image table (--image-table FILE), \
     or use {ECHO_IMAGE}"
)]
pub struct UnknownImage {
    image: String,
    name: String,
}

/// The user of an image whose Pod names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageUser {
    /// Root.
    #[default]
    Root,
    /// An ordinary one.
    Ordinary(u32),
    /// The only one that there is in the agent's user namespace: it is called root in there.
    Only,
}

/// The user of the built-in image.
const ECHO_USER: u32 = 65_532;

impl Entrypoint {
    /// The user that it runs as. The built-in image needs no rights, so it has an ordinary user, as restricted Pods want;
    /// in the node's network it stays root, which may listen at ports below 1024 there.
    pub fn user(&self, is_in_host_network: bool) -> ImageUser {
        match self {
            Self::Echo if !is_in_host_network && is_there(ECHO_USER) => ImageUser::Ordinary(ECHO_USER),
            Self::Echo if !is_there(ECHO_USER) => ImageUser::Only,
            _ => ImageUser::Root,
        }
    }
}

/// Returns true if this process's user namespace maps the user.
fn is_there(user: u32) -> bool {
    IdMap::own_users().contains(user, 1)
}

impl Images {
    /// What `image` runs: its whole reference is looked up first, then its name without digest and tag.
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

/// The name of an image without `@digest` and `:tag`. A colon before the last `/` belongs to a registry's port.
fn without_tag(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}
