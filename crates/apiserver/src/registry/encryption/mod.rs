//! Encryption at rest: values of chosen resources are encrypted before the store writes them, by upstream's
//! `EncryptionConfiguration` (apiserver.config.k8s.io/v1).
//!
//! `configuration` reads the file, `validation` has upstream's rules and messages for it, `provider` encrypts and decrypts,
//! `rules` says which providers a key of the store has. [`Encryption`] is the store's transformer, and knows which stored
//! values are not in the form that the configuration asks for now.

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
pub(crate) use reloading::keep_up;
use rules::Rules;

/// The transformer of a store: encrypts and decrypts by the configuration in force.
pub struct Encryption {
    path: PathBuf,
    in_force: ArcSwap<Rules>,
    /// Keys whose stored values are in another form than a write would give them now: with an older key, or plain.
    stale: RwLock<HashSet<Box<str>>>,
    counts: TransformationCounts,
}

impl Encryption {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`ConfigurationError`] if it cannot be read or used.
    pub fn open(path: &Path) -> Result<Encryption, ConfigurationError> {
        let configuration = EncryptionConfiguration::read(path)?;
        Ok(Encryption {
            path: path.to_owned(),
            in_force: ArcSwap::from_pointee(Rules::new(configuration)?),
            stale: RwLock::default(),
            counts: TransformationCounts::default(),
        })
    }

    /// Returns true if a write would store the value of a key in another form now.
    pub fn is_stale(&self, key: &str) -> bool {
        let stale = self.stale.read().unwrap_or_else(PoisonError::into_inner);
        stale.contains(key)
    }

    /// Returns true if a rule of the configuration matches a key.
    pub fn covers(&self, key: &str) -> bool {
        self.in_force.load().of_key(key).is_some()
    }

    /// Puts the file's present content in force. Values of the keys in `index` that are written otherwise from now on
    /// count as stale. Nothing changes on an error.
    fn reload(&self, index: &Index) -> Result<(), ConfigurationError> {
        let rules = Rules::new(EncryptionConfiguration::read(&self.path)?)?;
        let before = self.in_force.load_full();
        let changed: Vec<String> = rules.written_otherwise_than(&before);
        // In force before keys are marked: a write in between is sealed in the new form.
        self.in_force.store(Arc::new(rules));
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
        match is_stale {
            true => stale.insert(key.into()),
            false => stale.remove(key),
        };
    }
}

impl Transformer for Encryption {
    fn seal(&self, key: &str, value: &Value) -> Result<Value, TransformError> {
        let rules = self.in_force.load();
        let Some(rule) = rules.of_key(key) else {
            return Ok(value.clone());
        };
        let started = Instant::now();
        let sealed = rule.providers.seal(key, value);
        let prefix = rule.providers.written_prefix();
        self.counts.count(
            rule.resource.as_str(),
            Direction::ToStorage,
            prefix,
            sealed.is_ok(),
            started.elapsed(),
        );
        let sealed = sealed.map_err(|reason| failure(key, reason))?;
        self.set_stale(key, false);
        Ok(sealed)
    }

    fn open(&self, key: &str, stored: &Value) -> Result<Value, TransformError> {
        let rules = self.in_force.load();
        let Some(rule) = rules.of_key(key) else {
            return match store::is_sealed(&stored.bytes) {
                true => Err(failure(key, provider::IDENTITY_READS_ENCRYPTED.to_owned())),
                false => Ok(stored.clone()),
            };
        };
        let started = Instant::now();
        let opened = rule.providers.open(key, stored);
        let prefix = provider::prefix_of(&stored.bytes);
        self.counts.count(
            rule.resource.as_str(),
            Direction::FromStorage,
            prefix,
            opened.is_ok(),
            started.elapsed(),
        );
        let (value, form) = opened.map_err(|reason| failure(key, reason))?;
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

/// Encrypts and decrypts by a configuration that is given as text, for a key; for fuzzing.
#[cfg(fuzzing)]
pub(crate) fn fuzz(configuration: &[u8], key: &str, stored: bytes::Bytes) {
    let Ok(configuration) = EncryptionConfiguration::parse(configuration) else {
        return;
    };
    let Ok(rules) = Rules::new(configuration) else {
        return;
    };
    let Some(rule) = rules.of_key(key) else { return };
    let value = Value::sealed(stored);
    if let Ok((opened, _)) = rule.providers.open(key, &value) {
        let sealed = rule
            .providers
            .seal(key, &opened)
            .expect("what is opened can be sealed");
        let again = rule
            .providers
            .open(key, &sealed)
            .expect("what is sealed can be opened");
        assert_eq!(again, (opened, Form::Current));
    }
}
