//! Images of containers: programs of the node by name, and images that the agent pulls into the store of the node.

pub(crate) mod image_access;
pub(crate) mod image_puller;
pub mod image_table;
pub(crate) mod images_in_use;
pub(crate) mod pull_credentials;
pub(crate) mod pull_policy;
