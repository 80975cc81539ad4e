//! View of a Pod or Pod template for checks.

use serde_json::Value;

use crate::machinery::tree::{child, flag_if_set, is_set, items, text};

/// The lists of containers, in the order in which upstream visits them.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// A Pod or a template of Pods.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> PodView<'a> {
    /// A Pod, or the `template` of a controller.
    pub fn new(pod: &'a Value) -> Self {
        Self {
            metadata: child(pod, "metadata"),
            spec: child(pod, "spec"),
        }
    }

    /// The Pods that an object asks for: a Pod itself, or the template of one of upstream's controllers. `None` for an
    /// object without a template.
    pub fn of_controller(object: &'a Value) -> Option<Self> {
        let spec = child(object, "spec");
        is_set(spec, "template").then(|| Self::new(child(spec, "template")))
    }

    /// The RuntimeClass, "" for none.
    pub fn runtime_class(&self) -> &'a str {
        text(self.spec, "runtimeClassName")
    }

    pub(super) fn annotations(&self) -> &'a Value {
        child(self.metadata, "annotations")
    }

    /// All containers: init containers first, ephemeral containers last.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        CONTAINER_LISTS.iter().flat_map(move |list| items(spec, list))
    }

    pub(super) fn security_context(&self) -> &'a Value {
        child(self.spec, "securityContext")
    }

    /// The names of the containers whose `securityContext` is not as it should be.
    pub(super) fn containers_where(&self, mut is_bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| is_bad(child(container, "securityContext")))
            .map(|container| text(container, "name"))
            .collect()
    }

    /// Returns true if the Pod has its own user namespace, in which root is an unprivileged user of the node (KEP-127).
    pub(super) fn has_user_namespace(&self) -> bool {
        flag_if_set(self.spec, "hostUsers") == Some(false)
    }

    pub(super) fn is_windows(&self) -> bool {
        text(child(self.spec, "os"), "name") == "windows"
    }
}
