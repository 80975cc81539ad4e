//! The ready keys of a queue, of which the tenants take turns.

use std::collections::{HashMap, VecDeque};

/// Ready keys.
///
/// The keys of one tenant are taken in the order in which they were added. The tenants take turns, so the first key
/// of a tenant waits for at most one key of each other tenant.
#[derive(Debug)]
pub(crate) struct ReadyKeys<K> {
    tenant_of: fn(&K) -> &str,
    /// The keys of each tenant that has any.
    by_tenant: HashMap<Box<str>, VecDeque<K>>,
    /// The tenants with keys, next first.
    turns: VecDeque<Box<str>>,
    len: usize,
}

impl<K> ReadyKeys<K> {
    /// Creates an empty collection; `tenant_of` returns the tenant of a key.
    pub(crate) fn new(tenant_of: fn(&K) -> &str) -> Self {
        Self {
            tenant_of,
            by_tenant: HashMap::new(),
            turns: VecDeque::new(),
            len: 0,
        }
    }

    /// Returns the tenant of a key.
    pub(crate) fn tenant<'k>(&self, key: &'k K) -> &'k str {
        (self.tenant_of)(key)
    }

    /// Adds a key as the last one of its tenant.
    pub(crate) fn push(&mut self, key: K) {
        let tenant = (self.tenant_of)(&key);
        if !self.by_tenant.contains_key(tenant) {
            self.by_tenant.insert(tenant.into(), VecDeque::new());
            self.turns.push_back(tenant.into());
        }
        if let Some(keys) = self.by_tenant.get_mut(tenant) {
            keys.push_back(key);
            self.len += 1;
        }
    }

    /// Takes the first key of the next tenant for which `may_run` returns true.
    pub(crate) fn pop(&mut self, may_run: impl Fn(&str) -> bool) -> Option<K> {
        let turn = self.turns.iter().position(|tenant| may_run(tenant))?;
        let tenant = self.turns.remove(turn)?;
        let keys = self.by_tenant.get_mut(&tenant)?;
        let key = keys.pop_front()?;
        self.len -= 1;
        if keys.is_empty() {
            self.by_tenant.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        Some(key)
    }

    /// Returns true if there is a key of a tenant for which `may_run` returns true.
    pub(crate) fn has_any(&self, may_run: impl Fn(&str) -> bool) -> bool {
        self.turns.iter().any(|tenant| may_run(tenant))
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is no key.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}
