//! A minimal API server for Services: applies the rules in their order, on a real store.

use api::service;
use api::tree::{child, set, text};
use serde_json::{Value, json};
use store::{Expectation, SqliteOptions, SqliteStore, Store, Transaction, Write};
use tempfile::TempDir;

use crate::registry::service::{Allocation, AllocatorSettings, Allocators, Failure};

/// A response: the object and the number of warnings, or the status code and the causes.
pub(super) type Response = Result<(Value, usize), (u16, Vec<(String, String)>)>;

pub(super) struct Server {
    pub(super) store: SqliteStore,
    pub(super) allocators: Allocators,
    runtime: tokio::runtime::Runtime,
    _directory: TempDir,
}

impl Server {
    pub(super) fn new(ranges: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = SqliteStore::open(directory.path(), SqliteOptions::default()).expect("a store");
        let allocators = Allocators::new(store.index(), config(ranges)).expect("allocators");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        Self {
            store,
            allocators,
            runtime,
            _directory: directory,
        }
    }

    /// Returns the allocators as a restarted server would load them.
    pub(super) fn restarted(&self, ranges: &[&str]) -> Allocators {
        Allocators::new(self.store.index(), config(ranges)).expect("allocators")
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Value> {
        let entry = self.store.index().get(&key(namespace, name))?;
        Some(serde_json::from_slice(&entry.value).expect("JSON"))
    }

    pub(super) fn create(&self, namespace: &str, mut object: Value, is_dry_run: bool) -> Response {
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        set(&mut object["metadata"], "namespace", namespace);
        let prefix = text(child(&object, "metadata"), "generateName").to_owned();
        if !prefix.is_empty() && text(child(&object, "metadata"), "name").is_empty() {
            set(&mut object["metadata"], "name", format!("{prefix}x7k2p"));
        }
        service::default_on_write(&mut object);
        let allocation = self
            .allocators
            .create(self.store.index(), &mut object, is_dry_run)
            .map_err(refused)?;
        service::prepare_create(&mut object);
        invalid(service::validate(&object))?;
        if self
            .get(namespace, text(child(&object, "metadata"), "name"))
            .is_some()
        {
            return Err((409, Vec::new()));
        }
        Ok(self.finish(namespace, object, allocation, is_dry_run))
    }

    pub(super) fn update(&self, namespace: &str, name: &str, mut new: Value) -> Response {
        let old = self.get(namespace, name).ok_or((404, Vec::new()))?;
        self.keep_identity(&mut new, &old);
        service::default_on_write(&mut new);
        let allocation = self
            .allocators
            .update(self.store.index(), &old, &mut new, false)
            .map_err(refused)?;
        service::prepare_update(&mut new, &old);
        invalid(service::validate_update(&new, &old))?;
        Ok(self.finish(namespace, new, allocation, false))
    }

    pub(super) fn update_status(&self, namespace: &str, name: &str, mut new: Value) -> Response {
        let old = self.get(namespace, name).ok_or((404, Vec::new()))?;
        self.keep_identity(&mut new, &old);
        service::default_on_write(&mut new);
        service::prepare_status_update(&mut new, &old);
        invalid(service::validate_status_update(&new, &old))?;
        self.put(namespace, &new, Transaction::default());
        Ok((new, 0))
    }

    pub(super) fn delete(&self, namespace: &str, name: &str) -> Response {
        let old = self.get(namespace, name).ok_or((404, Vec::new()))?;
        let mut allocation = self.allocators.delete(self.store.index(), &old, false);
        let mut writes = std::mem::take(&mut allocation.writes);
        writes.push(Write::Delete {
            key: key(namespace, name).into(),
            last: None,
        });
        self.commit(Transaction {
            expectations: Vec::new(),
            writes,
        });
        allocation.commit();
        Ok((old, 0))
    }

    pub(super) fn keys(&self, prefix: &str) -> Vec<String> {
        let listing = self
            .store
            .index()
            .list(prefix, None, None, None)
            .expect("a JSON list");
        listing
            .entries
            .iter()
            .map(|entry| {
                entry
                    .key
                    .strip_prefix(prefix)
                    .expect("a key with the prefix")
                    .to_owned()
            })
            .collect()
    }

    pub(super) fn commit(&self, transaction: Transaction) {
        self.runtime
            .block_on(self.store.commit(transaction))
            .expect("a commit");
    }

    fn finish(
        &self,
        namespace: &str,
        mut object: Value,
        mut allocation: Allocation,
        is_dry_run: bool,
    ) -> (Value, usize) {
        service::default_on_read(&mut object, self.allocators.families().primary);
        let warnings = service::warnings(&object).len();
        if !is_dry_run {
            let transaction = Transaction {
                expectations: std::mem::take(&mut allocation.expectations),
                writes: std::mem::take(&mut allocation.writes),
            };
            self.put(namespace, &object, transaction);
        }
        allocation.commit();
        (object, warnings)
    }

    fn put(&self, namespace: &str, object: &Value, mut transaction: Transaction) {
        let (bytes, revision_at) = api::encode::encode(object);
        let value = store::Value {
            bytes: bytes.into(),
            revision_at: Some(revision_at),
        };
        let name = text(child(object, "metadata"), "name");
        transaction
            .writes
            .push(Write::Put(key(namespace, name).into(), value));
        self.commit(transaction);
    }

    fn keep_identity(&self, new: &mut Value, old: &Value) {
        for field in ["uid", "creationTimestamp", "namespace"] {
            if let Some(value) = old["metadata"].get(field) {
                new["metadata"][field] = value.clone();
            }
        }
    }
}

pub(super) fn config(ranges: &[&str]) -> AllocatorSettings {
    AllocatorSettings {
        cluster_ip_ranges: ranges
            .iter()
            .map(|range| range.parse().expect("a CIDR"))
            .collect(),
        node_port_range: 30_000..=32_767,
    }
}

/// Returns the keys that an allocation expects to be absent.
pub(super) fn expected_keys(allocation: &Allocation) -> Vec<String> {
    let is_absent = |expectation: &Expectation| *expectation == Expectation::Absent;
    assert!(
        allocation
            .expectations
            .iter()
            .all(|(_, expectation)| is_absent(expectation))
    );
    allocation
        .expectations
        .iter()
        .map(|(key, _)| key.to_string())
        .collect()
}

fn key(namespace: &str, name: &str) -> String {
    format!("/services/{namespace}/{name}")
}

fn invalid(errors: Vec<api::field::FieldError>) -> Result<(), (u16, Vec<(String, String)>)> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(refused(Failure::Invalid(errors)))
    }
}

fn refused(failure: Failure) -> (u16, Vec<(String, String)>) {
    match failure {
        Failure::Invalid(errors) => {
            let mut causes: Vec<(String, String)> = errors
                .iter()
                .map(|error| (error.reason.as_str().to_owned(), error.path.to_string()))
                .collect();
            causes.sort();
            (422, causes)
        }
        Failure::Internal(_) | Failure::Unclassified(_) => (500, Vec::new()),
    }
}
