//! Selection of providers for a resource.

use std::collections::HashMap;

use api::kind;

use super::configuration::{ConfigurationError, EncryptionConfiguration, GroupResource};
use super::provider::Providers;

/// The rules in force, by the keys of the store.
pub(super) struct Rules {
    /// By what the keys of a resource begin with: `/secrets/`, `/apps/deployments/`.
    by_prefix: HashMap<String, Rule>,
}

/// Rule for the values of a resource.
pub(super) struct Rule {
    /// As metrics call it: `secrets`, `deployments.apps`.
    pub(super) resource: String,
    pub(super) providers: Providers,
}

impl Rules {
    /// The rules of a configuration for all resources that the store has.
    ///
    /// # Errors
    /// [`ConfigurationError::Masked`] if a rule can never count, in upstream's words.
    pub(super) fn new(configuration: EncryptionConfiguration) -> Result<Rules, ConfigurationError> {
        let mut by_resource: HashMap<GroupResource, Providers> = HashMap::new();
        for element in configuration.elements {
            for resource in element.resources {
                let masks = [GroupResource::all_of(&resource.group), GroupResource::all()];
                if let Some(mask) = masks.iter().find(|mask| by_resource.contains_key(mask)) {
                    return Err(ConfigurationError::Masked {
                        resource: resource.to_string(),
                        by: mask.to_string(),
                    });
                }
                let providers = by_resource.entry(resource).or_default();
                providers.0.extend(element.providers.iter().cloned());
            }
        }
        let stored = kind::all().iter().filter(|kind| kind.is_stored_form());
        let rules = stored.filter_map(|kind| {
            let exact = GroupResource {
                group: kind.group.to_owned(),
                resource: kind.plural.to_owned(),
            };
            let candidates = [exact, GroupResource::all_of(kind.group), GroupResource::all()];
            let providers = candidates
                .iter()
                .find_map(|candidate| by_resource.get(candidate))?;
            let rule = Rule {
                resource: kind.qualified_plural(),
                providers: providers.clone(),
            };
            Some((kind.store_prefix(None), rule))
        });
        Ok(Rules {
            by_prefix: rules.collect(),
        })
    }

    /// The rule for a key of the store, if there is one.
    pub(super) fn of_key(&self, key: &str) -> Option<&Rule> {
        // Of `/secrets/default/a` these are `/secrets/` and `/secrets/default/`.
        let ends = key.match_indices('/').map(|(at, _)| at + 1).skip(1).take(2);
        ends.filter_map(|end| key.get(..end))
            .find_map(|prefix| self.by_prefix.get(prefix))
    }

    /// What the keys begin with whose values are written in another form than by other rules.
    pub(super) fn written_otherwise_than(&self, before: &Rules) -> Vec<String> {
        let none = Providers::default();
        let of =
            |rules: &Rules, prefix: &String| rules.by_prefix.get(prefix).map(|rule| rule.providers.clone());
        let prefixes = self.by_prefix.keys().chain(before.by_prefix.keys());
        let mut changed: Vec<String> = prefixes
            .filter(|prefix| {
                let now = of(self, prefix).unwrap_or_else(|| none.clone());
                !now.write_like(&of(before, prefix).unwrap_or_else(|| none.clone()))
            })
            .cloned()
            .collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}
