//! Rules of Pods: defaults, permitted updates, and validation. Of volumes that need a plugin, only the required fields are
//! validated.

mod defaults;
mod ephemeral_containers;
mod gated;
mod host_port;
mod label_keys;
mod quality_of_service;
mod references;
mod status;
mod update;
mod validate;
mod warnings;

pub use defaults::default_pod_on_write;
pub(crate) use defaults::default_spec;
pub use ephemeral_containers::{prepare_ephemeral_containers_update, validate_ephemeral_containers_update};
pub use host_port::{RequestedHostPort, UsedHostPorts};
pub use references::{
    MIRROR_ANNOTATION, api_object_reference, config_map_names, is_mirror, secret_names, service_account_name,
    token_audiences,
};
pub use update::{
    prepare_pod_create, prepare_pod_status_update, prepare_pod_update, validate_pod_status_update,
    validate_pod_update,
};
pub use validate::validate_pod;
pub(crate) use validate::validate_spec;
pub(crate) use warnings::{name_warnings, template_warnings};
pub use warnings::{pod_creation_warnings, pod_status_warnings};

/// Lists of containers in the spec of a Pod.
const CONTAINER_LISTS: [&str; 2] = ["initContainers", "containers"];

/// List of ephemeral containers, which the subresource `ephemeralcontainers` adds to a Pod.
const EPHEMERAL_CONTAINERS: &str = "ephemeralContainers";

/// All lists of containers.
const ALL_CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", EPHEMERAL_CONTAINERS];

/// Field of the required terms of an affinity.
const REQUIRED_AFFINITY: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Field of the preferred terms of an affinity.
const PREFERRED_AFFINITY: &str = "preferredDuringSchedulingIgnoredDuringExecution";

#[cfg(test)]
mod tests;
