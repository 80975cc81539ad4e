//! Namespaces whose Pods may use images that were pulled with credentials (KEP-2535, with its policy
//! `NeverVerifyPreloadedImages`).
//!
//! The registry has permitted the pull to the credentials of one namespace. Pods of other namespaces pull such an image
//! with their own credentials, also with `imagePullPolicy: IfNotPresent`. All Pods may use an image without an entry: it was
//! loaded by an administrator, or pulled without credentials. If entries are lost, only the namespaces that pull an image
//! from then on may use it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::images::{Digest, Reference};
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// Entries of the node, in memory and in a file.
#[derive(Debug)]
pub(crate) struct ImageAccess {
    path: PathBuf,
    entries: Mutex<Entries>,
}

/// Content of the file: images that were pulled with credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Entries {
    /// Namespaces by the digest of the image.
    namespaces: BTreeMap<String, BTreeSet<String>>,
    /// Names of images whose pull with credentials has not ended. The store can have such an image already.
    #[serde(default)]
    pending: BTreeSet<String>,
    /// True if entries are lost. An image without an entry can be one that was pulled with credentials.
    #[serde(default)]
    is_incomplete: bool,
}

/// Successful pull.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuccessfulPull<'a> {
    /// Digest of the image.
    pub digest: &'a Digest,
    /// Digest of the image that had the name before; `None` without one.
    pub before: Option<&'a Digest>,
    /// True if the credentials of the namespace were for the registry.
    pub has_credentials: bool,
}

impl ImageAccess {
    /// Reads the entries of an earlier agent. If that fails, they are incomplete until an administrator removes the file.
    pub(crate) fn open(path: PathBuf) -> Self {
        let entries = match fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Entries::default()),
            Err(error) => Err(error),
        };
        let entries = entries.unwrap_or_else(|error| {
            tracing::error!(
                path = %path.display(), %error,
                "entries of pulled images not read; each namespace pulls its images again until the file is removed"
            );
            Entries {
                is_incomplete: true,
                ..Entries::default()
            }
        });
        Self {
            path,
            entries: Mutex::new(entries),
        }
    }

    /// Returns true if Pods of a namespace may use an image of the store without a pull.
    pub(crate) fn permits(&self, namespace: &str, reference: &Reference, digest: &Digest) -> bool {
        let entries = self.lock();
        match entries.namespaces.get(&digest.to_string()) {
            Some(namespaces) => namespaces.contains(namespace),
            None => !entries.is_incomplete && !entries.pending.contains(&reference.to_string()),
        }
    }

    /// Records the start of a pull with credentials under a name that the store does not have.
    pub(crate) fn begin(&self, reference: &Reference) {
        let mut entries = self.lock();
        entries.pending.insert(reference.to_string());
        self.write(&entries);
    }

    /// Records the end of a pull; `pulled` is `None` if it failed. Removes the entries of digests that are not in `present`:
    /// the store has removed their images. If `present` is `None`, all entries stay.
    pub(crate) fn finish(
        &self,
        namespace: &str,
        reference: &Reference,
        pulled: Option<SuccessfulPull<'_>>,
        present: Option<&BTreeSet<String>>,
    ) {
        let mut entries = self.lock();
        let before = entries.clone();
        entries.pending.remove(&reference.to_string());
        if let Some(pulled) = pulled {
            if let Some(present) = present {
                entries.namespaces.retain(|digest, _| present.contains(digest));
            }
            entries.record(namespace, pulled);
        }
        if *entries != before {
            self.write(&entries);
        }
    }

    /// Writes the entries. They stay in memory after a failure.
    fn write(&self, entries: &Entries) {
        if let Err(error) = self.try_write(entries) {
            tracing::error!(path = %self.path.display(), %error, "entries of pulled images not written; retrying with the next pull");
        }
    }

    fn try_write(&self, entries: &Entries) -> io::Result<()> {
        let temporary = self.path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec(entries)?)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn record(&mut self, namespace: &str, pulled: SuccessfulPull<'_>) {
        let digest = pulled.digest.to_string();
        if !pulled.has_credentials && !self.is_incomplete {
            self.namespaces.remove(&digest);
            return;
        }
        // All Pods could use the image before.
        let had_entry = self.is_incomplete || self.namespaces.contains_key(&digest);
        let was_free = pulled.before == Some(pulled.digest) && !had_entry;
        if !was_free {
            self.namespaces
                .entry(digest)
                .or_default()
                .insert(namespace.to_owned());
        }
    }
}
