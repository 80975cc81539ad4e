//! Encryption at rest: values of configured resources are encrypted before the store writes them, according to
//! upstream's `EncryptionConfiguration` (apiserver.config.k8s.io/v1).
//!
//! `configuration` parses the file, `validation` holds upstream's rules and messages, `provider` encrypts and
//! decrypts, and `rules` selects the providers of a store key. [`Encryption`] is the store's transformer. It also
//! tracks which stored values differ from the current configuration.

mod configuration;
mod metrics;
mod provider;
mod reloading;
mod rules;
mod validation;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use store::{Index, TransformError, Transformer, Value};

pub use configuration::ConfigurationError;
use configuration::EncryptionConfiguration;
use metrics::{Direction, TransformationCounts};
use provider::Form;
pub(crate) use reloading::watch;
use rules::Rules;

/// The store's transformer, which encrypts and decrypts with the current configuration.
pub struct Encryption {
    path: PathBuf,
    rules: ArcSwap<Rules>,
    /// Keys whose stored values are plain or encrypted with an older key.
    stale: RwLock<HashSet<Box<str>>>,
    counts: TransformationCounts,
}

impl Encryption {
    /// Opens a configuration file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is invalid.
    pub fn open(path: &Path) -> Result<Encryption, ConfigurationError> {
        let configuration = EncryptionConfiguration::read(path)?;
        Ok(Encryption {
            path: path.to_owned(),
            rules: ArcSwap::from_pointee(Rules::new(configuration)?),
            stale: RwLock::default(),
            counts: TransformationCounts::default(),
        })
    }

    /// Returns true if a write would store the value of the key in another form.
    pub fn is_stale(&self, key: &str) -> bool {
        let stale = self.stale.read().unwrap_or_else(PoisonError::into_inner);
        stale.contains(key)
    }

    /// Returns true if the configuration has a rule for the key.
    pub fn covers(&self, key: &str) -> bool {
        self.rules.load().rule_for(key).is_some()
    }

    /// Applies the current content of the file. Keys in `index` that a write would now store differently become
    /// stale. On an error, the previous configuration stays.
    fn reload(&self, index: &Index) -> Result<(), ConfigurationError> {
        let rules = Rules::new(EncryptionConfiguration::read(&self.path)?)?;
        let previous = self.rules.load_full();
        let changed: Vec<String> = rules.prefixes_written_differently(&previous);
        // Apply the rules before marking keys: writes in between use the new form.
        self.rules.store(Arc::new(rules));
        for prefix in changed {
            let entries = index.list(&prefix, None, None, None);
            let entries = entries.map(|listing| listing.entries).unwrap_or_default();
            let mut stale = self.stale.write().unwrap_or_else(PoisonError::into_inner);
            stale.extend(entries.iter().map(|entry| Box::from(&*entry.key)));
        }
        Ok(())
    }

    fn set_stale(&self, key: &str, is_stale: bool) {
        if self.is_stale(key) == is_stale {
            return;
        }
        let mut stale = self.stale.write().unwrap_or_else(PoisonError::into_inner);
        if is_stale {
            stale.insert(key.into());
        } else {
            stale.remove(key);
        }
    }
}

impl Transformer for Encryption {
    fn seal(&self, key: &str, value: &Value) -> Result<Value, TransformError> {
        let rules = self.rules.load();
        let Some(rule) = rules.rule_for(key) else {
            return Ok(value.clone());
        };
        let started = Instant::now();
        let result = rule.providers.seal(key, value);
        let prefix = rule.providers.written_prefix();
        self.counts.count(
            rule.resource.as_str(),
            Direction::ToStorage,
            prefix,
            result.is_ok(),
            started.elapsed(),
        );
        let sealed = result.map_err(|reason| failure(key, reason))?;
        self.set_stale(key, false);
        Ok(sealed)
    }

    fn open(&self, key: &str, stored: &Value) -> Result<Value, TransformError> {
        let rules = self.rules.load();
        let Some(rule) = rules.rule_for(key) else {
            return if store::is_sealed(&stored.bytes) {
                Err(failure(key, provider::IDENTITY_READS_ENCRYPTED.to_owned()))
            } else {
                Ok(stored.clone())
            };
        };
        let started = Instant::now();
        let result = rule.providers.open(key, stored);
        let prefix = provider::prefix_of(&stored.bytes);
        self.counts.count(
            rule.resource.as_str(),
            Direction::FromStorage,
            prefix,
            result.is_ok(),
            started.elapsed(),
        );
        let (value, form) = result.map_err(|reason| failure(key, reason))?;
        self.set_stale(key, form == Form::Older);
        Ok(value)
    }

    fn forget(&self, key: &str) {
        self.set_stale(key, false);
    }
}

fn failure(key: &str, reason: String) -> TransformError {
    TransformError {
        key: key.to_owned(),
        reason,
    }
}

/// Decrypts a stored value with a configuration, and encrypts it again; for a fuzz target.
#[cfg(fuzzing)]
pub(crate) fn fuzz(configuration: &[u8], key: &str, stored: bytes::Bytes) {
    let Ok(configuration) = EncryptionConfiguration::parse(configuration) else {
        return;
    };
    let Ok(rules) = Rules::new(configuration) else {
        return;
    };
    let Some(rule) = rules.rule_for(key) else { return };
    let value = Value::sealed(stored);
    if let Ok((opened, _)) = rule.providers.open(key, &value) {
        let sealed = rule.providers.seal(key, &opened).expect("opened value is sealed");
        let again = rule.providers.open(key, &sealed).expect("sealed value is opened");
        assert_eq!(again, (opened, Form::Current));
    }
}
