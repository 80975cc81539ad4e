//! Number of listeners of each namespace. Pure.

use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of addresses with a port at which the edge listens for one namespace. Each takes a descriptor for
/// each worker, and a namespace can have any number of Services.
pub(super) const LISTENERS_MAX: usize = 4_096;

/// Open listeners by namespace.
#[derive(Debug, Default)]
pub(super) struct NamespaceListeners(HashMap<Arc<str>, usize>);

impl NamespaceListeners {
    /// Counts listeners by namespace. The iterator has the namespace of each listener.
    pub(super) fn of<'a>(namespaces: impl Iterator<Item = &'a Arc<str>>) -> Self {
        let mut this = Self::default();
        for namespace in namespaces {
            this.add(namespace);
        }
        this
    }

    /// Counts one more listener.
    pub(super) fn add(&mut self, namespace: &Arc<str>) {
        *self.0.entry(namespace.clone()).or_default() += 1;
    }

    /// Checks that the namespace may have one more listener.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(super) fn check(&self, namespace: &Arc<str>) -> Result<(), String> {
        let open = self.0.get(namespace).copied().unwrap_or(0);
        if open < LISTENERS_MAX {
            return Ok(());
        }
        Err(format!(
            "expected at most {LISTENERS_MAX} addresses with a port for the Services of a namespace; those of {namespace} have {open}"
        ))
    }
}

#[cfg(test)]
mod tests;
