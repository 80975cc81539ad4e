//! Pods by key and by label.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use api::object::{Labels, ObjectKey, Pod};

/// A cache of Pods that finds those of a selector without looking at the others.
#[derive(Default)]
pub struct Pods {
    by_key: BTreeMap<ObjectKey, Pod>,
    by_label: HashMap<Pair, BTreeSet<ObjectKey>>,
}

/// A label in a namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Pair {
    namespace: String,
    label: String,
}

impl Pods {
    /// Adds or replaces a Pod and returns the one before.
    pub fn insert(&mut self, pod: Pod) -> Option<Pod> {
        let key = pod.metadata.key();
        let before = self.remove(&key);
        for pair in pairs(&pod.metadata.namespace, &pod.metadata.labels) {
            self.by_label.entry(pair).or_default().insert(key.clone());
        }
        self.by_key.insert(key, pod);
        before
    }

    /// Removes a Pod and returns it.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Pod> {
        let pod = self.by_key.remove(key)?;
        for pair in pairs(&pod.metadata.namespace, &pod.metadata.labels) {
            if let Some(keys) = self.by_label.get_mut(&pair) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_label.remove(&pair);
                }
            }
        }
        Some(pod)
    }

    /// The Pod of a key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Pod> {
        self.by_key.get(key)
    }

    /// All Pods.
    pub fn iter(&self) -> impl Iterator<Item = &Pod> {
        self.by_key.values()
    }

    /// The Pods of a namespace that have all labels of the selector, sorted by name. An empty selector
    /// chooses none.
    pub fn matching(&self, namespace: &str, selector: &Labels) -> Vec<&Pod> {
        let rarest = pairs(namespace, selector)
            .map(|pair| self.by_label.get(&pair))
            .min_by_key(|keys| keys.map_or(0, BTreeSet::len));
        let Some(Some(keys)) = rarest else {
            return Vec::new();
        };
        keys.iter()
            .filter_map(|key| self.by_key.get(key))
            .filter(|pod| super::selectors::chooses(selector, &pod.metadata.labels))
            .collect()
    }
}

fn pairs<'a>(namespace: &'a str, labels: &'a Labels) -> impl Iterator<Item = Pair> + 'a {
    labels.iter().map(move |(key, value)| Pair {
        namespace: namespace.to_owned(),
        label: format!("{key}={value}"),
    })
}
