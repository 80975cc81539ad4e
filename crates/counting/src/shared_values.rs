//! Values of keys, such as the limits of namespaces.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[cfg(test)]
mod tests;

/// Number of keys from which keys without users are removed.
const REMOVAL_MIN: usize = 64;

/// One value for each key, which all users of the key share. The last user drops the value.
#[derive(Debug)]
pub struct SharedValues<V>(Mutex<Values<V>>);

#[derive(Debug)]
struct Values<V> {
    by_key: HashMap<Box<str>, Weak<V>>,
    /// Number of keys at which those without users are removed: twice the number after the last removal, so that
    /// removals take constant time for each new key.
    removal_at: usize,
}

impl<V> Default for SharedValues<V> {
    fn default() -> Self {
        Self(Mutex::new(Values {
            by_key: HashMap::new(),
            removal_at: REMOVAL_MIN,
        }))
    }
}

impl<V> SharedValues<V> {
    /// Returns the value of a key. `create` makes a new one if the key has no user.
    pub fn get(&self, key: &str, create: impl FnOnce() -> V) -> Arc<V> {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = values.by_key.get(key).and_then(Weak::upgrade) {
            return value;
        }
        if values.by_key.len() >= values.removal_at {
            values.by_key.retain(|_, value| value.strong_count() > 0);
            values.removal_at = REMOVAL_MIN.max(2 * values.by_key.len());
        }
        let value = Arc::new(create());
        values.by_key.insert(key.into(), Arc::downgrade(&value));
        value
    }
}
