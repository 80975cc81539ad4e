//! Services indexed by one of the labels of their selectors, so that a Pod is matched without a scan of all Services.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use api::object::{Labels, ObjectKey, Service};

use super::compact_set::CompactSet;
use super::interner::{Interner, LabelSet};
use super::keyed_set::KeyedSet;
use super::pods::NamespacedLabel;

/// Names of the Services that have a selector, by its first label. The Services contain the selectors.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    by_first_label: HashMap<NamespacedLabel, CompactSet<Arc<str>>>,
}

impl Selectors {
    /// Adds the selector of a Service. An empty selector matches nothing.
    pub(crate) fn add(&mut self, service: &ObjectKey, selector: &Labels, interner: &mut Interner) {
        if let Some(first) = first_label(&service.namespace, selector, interner) {
            let services = self.by_first_label.entry(first).or_default();
            services.insert(Arc::clone(&service.name));
        }
    }

    /// Removes the selector of a Service.
    pub(crate) fn remove(&mut self, service: &ObjectKey, selector: &Labels, interner: &mut Interner) {
        let Some(first) = first_label(&service.namespace, selector, interner) else {
            return;
        };
        if let Entry::Occupied(mut services) = self.by_first_label.entry(first) {
            services.get_mut().remove(&service.name);
            if services.get().is_empty() {
                services.remove();
            }
        }
    }

    /// Returns the Services of a namespace that select a Pod with these labels.
    pub(crate) fn matching(
        &self,
        services: &KeyedSet<Service>,
        namespace: &Arc<str>,
        labels: &LabelSet,
    ) -> Vec<ObjectKey> {
        let mut matching = Vec::new();
        for (key, value) in labels.iter() {
            let first = NamespacedLabel {
                namespace: Arc::clone(namespace),
                key: Arc::clone(key),
                value: Arc::clone(value),
            };
            let names = self.by_first_label.get(&first);
            for name in names.into_iter().flat_map(CompactSet::iter) {
                let service = services.named(namespace, name);
                if service.is_some_and(|service| labels.is_selected_by(&service.spec.selector)) {
                    matching.push(ObjectKey {
                        namespace: Arc::clone(namespace),
                        name: Arc::clone(name),
                    });
                }
            }
        }
        matching
    }
}

fn first_label(namespace: &Arc<str>, selector: &Labels, interner: &mut Interner) -> Option<NamespacedLabel> {
    let (key, value) = selector.iter().next()?;
    Some(NamespacedLabel {
        namespace: interner.text(namespace),
        key: interner.text(key),
        value: interner.text(value),
    })
}
