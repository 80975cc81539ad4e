//! Connections, flows and further requests of the Services of each namespace.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

/// Number of open connections, flows and further requests of a namespace.
pub(crate) type NamespaceLoad = Arc<AtomicUsize>;

/// Loads of the namespaces with Services or connections.
#[derive(Debug, Default)]
pub(crate) struct NamespaceLoads(BTreeMap<Arc<str>, Weak<AtomicUsize>>);

impl NamespaceLoads {
    /// Returns the load of a namespace. It is the same while a Service, or a connection to a former one, has it.
    pub(crate) fn get(&mut self, namespace: &Arc<str>) -> NamespaceLoad {
        if let Some(load) = self.0.get(namespace).and_then(Weak::upgrade) {
            return load;
        }
        self.0.retain(|_, load| load.strong_count() > 0);
        let load = NamespaceLoad::default();
        self.0.insert(namespace.clone(), Arc::downgrade(&load));
        load
    }
}

#[cfg(test)]
mod tests;
