//! Permits with a limit in total, of which each namespace has a share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(test)]
mod tests;

/// Permits of all namespaces. A namespace may hold as many as are free: one gets half of them, two get a third each.
#[derive(Debug)]
pub struct NamespaceShares {
    total_max: usize,
    held: Mutex<Held>,
}

/// Number of permits that all namespaces hold, and each namespace with any.
#[derive(Debug, Default)]
struct Held {
    total: usize,
    namespaces: HashMap<String, usize>,
}

/// Permit of a namespace, until it is dropped.
#[derive(Debug)]
pub struct NamespaceShare {
    shares: Arc<NamespaceShares>,
    namespace: String,
}

impl NamespaceShares {
    /// Creates the shares of a limit.
    pub fn of(total_max: usize) -> Arc<Self> {
        Arc::new(Self {
            total_max,
            held: Mutex::default(),
        })
    }

    /// Returns a permit, unless the limit or the share of the namespace is reached. "" is for what belongs to the node.
    pub fn take(self: &Arc<Self>, namespace: &str) -> Option<NamespaceShare> {
        let mut held = self.held();
        let of_namespace = held.namespaces.get(namespace).copied().unwrap_or_default();
        if of_namespace >= self.total_max.saturating_sub(held.total) {
            return None;
        }
        held.total += 1;
        held.namespaces.insert(namespace.to_owned(), of_namespace + 1);
        Some(NamespaceShare {
            shares: Arc::clone(self),
            namespace: namespace.to_owned(),
        })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for NamespaceShare {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        held.total = held.total.saturating_sub(1);
        match held.namespaces.get_mut(&self.namespace) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(held.namespaces.remove(&self.namespace)),
        }
    }
}
