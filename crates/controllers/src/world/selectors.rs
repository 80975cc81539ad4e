//! Selectors by one of their labels: which Services choose a Pod, without asking each.

use std::collections::{BTreeSet, HashMap};

use api::object::{Labels, ObjectKey};

/// The selectors of all Services.
#[derive(Default)]
pub struct Selectors {
    by_service: HashMap<ObjectKey, Labels>,
    by_first_label: HashMap<(String, String), BTreeSet<ObjectKey>>,
}

impl Selectors {
    /// Sets a Service's selector; an empty one chooses nothing.
    pub fn set(&mut self, service: &ObjectKey, selector: &Labels) {
        self.remove(service);
        if let Some(first) = first_label(&service.namespace, selector) {
            self.by_first_label
                .entry(first)
                .or_default()
                .insert(service.clone());
            self.by_service.insert(service.clone(), selector.clone());
        }
    }

    /// Removes a Service.
    pub fn remove(&mut self, service: &ObjectKey) {
        let Some(selector) = self.by_service.remove(service) else {
            return;
        };
        let Some(first) = first_label(&service.namespace, &selector) else {
            return;
        };
        if let Some(services) = self.by_first_label.get_mut(&first) {
            services.remove(service);
            if services.is_empty() {
                self.by_first_label.remove(&first);
            }
        }
    }

    /// The Services of a namespace that choose a Pod with these labels.
    pub fn matching(&self, namespace: &str, labels: &Labels) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        for (key, value) in labels {
            let label = (namespace.to_owned(), format!("{key}={value}"));
            for service in self.by_first_label.get(&label).into_iter().flatten() {
                if self
                    .by_service
                    .get(service)
                    .is_some_and(|selector| chooses(selector, labels))
                {
                    found.push(service.clone());
                }
            }
        }
        found
    }
}

/// Whether all labels of the selector are there.
pub(super) fn chooses(selector: &Labels, labels: &Labels) -> bool {
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

fn first_label(namespace: &str, selector: &Labels) -> Option<(String, String)> {
    let (key, value) = selector.iter().next()?;
    Some((namespace.to_owned(), format!("{key}={value}")))
}
