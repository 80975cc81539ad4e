//! Passwords of peers: those of the configuration, and those of Secrets, which are read periodically.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::object::ObjectKey;
use balancer::serving::secret::{self, Secret};
use client::{Client, ClientError};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::sockets::Key;
use crate::configuration::{Configuration, Password};

/// Time between two reads of a Secret.
const READ_PERIOD: Duration = Duration::from_secs(30);
/// Time between two reads of a Secret that could not be used.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Maximum number of concurrent reads.
const READS_MAX: usize = 8;
/// Type of the Secrets.
const SECRET_TYPE: &str = "kubernetes.io/basic-auth";
/// Entry of the password.
const ENTRY: &str = "password";

/// Passwords of Secrets.
pub(super) struct Passwords {
    client: Client,
    secrets: BTreeMap<ObjectKey, PasswordEntry>,
    reads: JoinSet<(ObjectKey, Result<Secret, ClientError>)>,
}

/// Password of a Secret, with the time of the next read.
struct PasswordEntry {
    key: Option<Result<Key, String>>,
    due: Instant,
    is_reading: bool,
}

impl Passwords {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            secrets: BTreeMap::new(),
            reads: JoinSet::new(),
        }
    }

    /// Keeps the Secrets that peers reference.
    pub(super) fn set_referenced(&mut self, configuration: &Configuration) {
        let passwords = configuration
            .peers
            .values()
            .filter_map(|peer| peer.password.as_ref());
        let referenced: BTreeSet<&ObjectKey> = passwords
            .filter_map(|password| match password {
                Password::Secret(key) => Some(key),
                Password::Given(_) => None,
            })
            .collect();
        self.secrets.retain(|key, _| referenced.contains(key));
        for key in referenced {
            self.secrets.entry(key.clone()).or_insert_with(|| PasswordEntry {
                key: None,
                due: Instant::now(),
                is_reading: false,
            });
        }
    }

    /// Returns the key of a password.
    ///
    /// # Errors
    /// A description of the fault; the empty text while the Secret was not read yet.
    pub(super) fn key(&self, password: &Password) -> Result<Key, String> {
        match password {
            Password::Given(text) => Key::new(text.as_bytes().to_vec())
                .ok_or_else(|| "spec.password must have 1 to 80 bytes".to_owned()),
            Password::Secret(secret) => {
                let entry = self.secrets.get(secret);
                entry
                    .and_then(|entry| entry.key.clone())
                    .unwrap_or_else(|| Err(String::new()))
            }
        }
    }

    /// Reads due Secrets; resolves when one has changed. Cancel safe.
    pub(super) async fn changed(&mut self) {
        loop {
            self.start_reads();
            let idle = self.secrets.values().filter(|entry| !entry.is_reading);
            let due = idle.map(|entry| entry.due).min();
            let has_space = self.reads.len() < READS_MAX;
            let wait = async {
                match due.filter(|_| has_space) {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(Ok((key, result))) = self.reads.join_next() => {
                    if self.finish(&key, result) {
                        return;
                    }
                }
                () = wait => {}
            }
        }
    }

    fn start_reads(&mut self) {
        let now = Instant::now();
        for (key, entry) in &mut self.secrets {
            if entry.is_reading || entry.due > now || self.reads.len() >= READS_MAX {
                continue;
            }
            entry.is_reading = true;
            let (client, key) = (self.client.clone(), key.clone());
            self.reads.spawn(async move {
                let result = secret::read(&client, &key).await;
                (key, result)
            });
        }
    }

    /// Applies the result of a read. Returns true if the key has changed. A known key stays until the Secret is deleted or
    /// replaced: other errors, as of an overloaded API server, say nothing about it.
    fn finish(&mut self, secret: &ObjectKey, result: Result<Secret, ClientError>) -> bool {
        let Some(entry) = self.secrets.get_mut(secret) else {
            return false;
        };
        entry.is_reading = false;
        let key = match result {
            Ok(found) => key_of(secret, &found),
            Err(error) if !error.is_not_found() && matches!(entry.key, Some(Ok(_))) => {
                tracing::debug!(%secret, %error, "Secret not read; the known password stays");
                entry.due = Instant::now() + RETRY_PERIOD;
                return false;
            }
            Err(error) => Err(format!("Secret {secret} cannot be read: {error}")),
        };
        entry.due = Instant::now() + if key.is_ok() { READ_PERIOD } else { RETRY_PERIOD };
        entry.key.replace(key.clone()) != Some(key)
    }
}

fn key_of(name: &ObjectKey, secret: &Secret) -> Result<Key, String> {
    if secret.kind != SECRET_TYPE {
        return Err(format!(
            "Secret {name} is of type {:?}, expected {SECRET_TYPE}",
            secret.kind
        ));
    }
    let bytes = secret
        .bytes(ENTRY)
        .ok_or_else(|| format!("Secret {name} lacks {ENTRY:?}"))?;
    Key::new(bytes).ok_or_else(|| format!("Secret {name}: {ENTRY:?} must have 1 to 80 bytes"))
}
