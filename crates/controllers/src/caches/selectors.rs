//! Selectors of Services, indexed by one of their labels, so that a Pod is matched without a scan of all
//! Services.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use api::object::{Labels, ObjectKey};

use super::interner::LabelSet;
use super::pods::NamespacedLabel;

/// The selectors of all Services.
#[derive(Debug, Default)]
pub(crate) struct Selectors {
    by_service: HashMap<ObjectKey, Labels>,
    by_first_label: HashMap<NamespacedLabel, BTreeSet<ObjectKey>>,
}

impl Selectors {
    /// Sets the selector of a Service; returns the previous one. An empty selector matches nothing.
    pub(crate) fn set(&mut self, service: &ObjectKey, selector: &Labels) -> Option<Labels> {
        let before = self.remove(service);
        if let Some(first) = first_label(&service.namespace, selector) {
            self.by_first_label
                .entry(first)
                .or_default()
                .insert(service.clone());
            self.by_service.insert(service.clone(), selector.clone());
        }
        before
    }

    /// Removes a Service; returns its selector.
    pub(crate) fn remove(&mut self, service: &ObjectKey) -> Option<Labels> {
        let selector = self.by_service.remove(service)?;
        let first = first_label(&service.namespace, &selector)?;
        if let Some(services) = self.by_first_label.get_mut(&first) {
            services.remove(service);
            if services.is_empty() {
                self.by_first_label.remove(&first);
            }
        }
        Some(selector)
    }

    /// Returns the Services of a namespace that select a Pod with these labels.
    pub(crate) fn matching(&self, namespace: &Arc<str>, labels: &LabelSet) -> Vec<ObjectKey> {
        let mut services = Vec::new();
        for (key, value) in labels.iter() {
            let first = NamespacedLabel {
                namespace: Arc::clone(namespace),
                key: Arc::clone(key),
                value: Arc::clone(value),
            };
            for service in self.by_first_label.get(&first).into_iter().flatten() {
                let selector = self.by_service.get(service);
                if selector.is_some_and(|selector| labels.is_selected_by(selector)) {
                    services.push(service.clone());
                }
            }
        }
        services
    }
}

fn first_label(namespace: &Arc<str>, selector: &Labels) -> Option<NamespacedLabel> {
    let (key, value) = selector.iter().next()?;
    Some(NamespacedLabel {
        namespace: Arc::clone(namespace),
        key: key.as_str().into(),
        value: value.as_str().into(),
    })
}
