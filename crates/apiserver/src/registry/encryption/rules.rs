//! Selection of providers by store key.

use std::collections::HashMap;

use api::kind;

use super::configuration::{ConfigurationError, EncryptionConfiguration, GroupResource};
use super::provider::Providers;

/// Encryption rules by store key.
pub(super) struct Rules {
    /// Rules by the key prefix of a resource: `/secrets/`, `/apps/deployments/`.
    by_prefix: HashMap<String, Rule>,
}

/// Encryption rule of one resource.
pub(super) struct Rule {
    /// Resource name in metrics: `secrets`, `deployments.apps`.
    pub(super) resource: String,
    pub(super) providers: Providers,
}

impl Rules {
    /// Resolves a configuration to the resources of the store.
    ///
    /// # Errors
    /// [`ConfigurationError::Masked`] if a rule can never apply.
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

    /// Returns the rule for a store key.
    pub(super) fn rule_for(&self, key: &str) -> Option<&Rule> {
        // The candidates for `/secrets/default/a` are `/secrets/` and `/secrets/default/`.
        let ends = key.match_indices('/').map(|(index, _)| index + 1).skip(1).take(2);
        ends.filter_map(|end| key.get(..end))
            .find_map(|prefix| self.by_prefix.get(prefix))
    }

    /// Returns the key prefixes whose values the previous rules write in another form.
    pub(super) fn prefixes_written_differently(&self, previous: &Rules) -> Vec<String> {
        let none = Providers::default();
        let providers_of =
            |rules: &Rules, prefix: &String| rules.by_prefix.get(prefix).map(|rule| rule.providers.clone());
        let prefixes = self.by_prefix.keys().chain(previous.by_prefix.keys());
        let mut changed: Vec<String> = prefixes
            .filter(|prefix| {
                let current = providers_of(self, prefix).unwrap_or_else(|| none.clone());
                !current.writes_like(&providers_of(previous, prefix).unwrap_or_else(|| none.clone()))
            })
            .cloned()
            .collect();
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}
