//! View of a Pod or Pod template for checks.

use serde_json::Value;

use crate::machinery::tree::{child, flag_if_set, is_set, items, text};

/// The container lists, in the order in which upstream visits them.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// View of a Pod or Pod template.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> PodView<'a> {
    /// Views a Pod, or the `template` of a controller.
    pub fn new(pod: &'a Value) -> Self {
        Self {
            metadata: child(pod, "metadata"),
            spec: child(pod, "spec"),
        }
    }

    /// Views the Pod template of a controller; `None` for an object without a template.
    pub fn of_controller(object: &'a Value) -> Option<Self> {
        let spec = child(object, "spec");
        is_set(spec, "template").then(|| Self::new(child(spec, "template")))
    }

    /// Returns the RuntimeClass; "" if unset.
    pub fn runtime_class(&self) -> &'a str {
        text(self.spec, "runtimeClassName")
    }

    /// Returns the annotations.
    pub(super) fn annotations(&self) -> &'a Value {
        child(self.metadata, "annotations")
    }

    /// Iterates over all containers: init containers first, ephemeral containers last.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        CONTAINER_LISTS.iter().flat_map(move |list| items(spec, list))
    }

    /// Returns the security context of the whole Pod.
    pub(super) fn security_context(&self) -> &'a Value {
        child(self.spec, "securityContext")
    }

    /// Returns the names of containers whose `securityContext` matches.
    pub(super) fn containers_where(&self, mut matches: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| matches(child(container, "securityContext")))
            .map(|container| text(container, "name"))
            .collect()
    }

    /// Returns true if the Pod has a user namespace, in which root is an unprivileged user of the node (KEP-127).
    pub(super) fn has_user_namespace(&self) -> bool {
        flag_if_set(self.spec, "hostUsers") == Some(false)
    }

    /// Returns true if the operating system of the Pod is Windows.
    pub(super) fn is_windows(&self) -> bool {
        text(child(self.spec, "os"), "name") == "windows"
    }
}
