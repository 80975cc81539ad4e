//! Merge of a cluster into the kubeconfig of a user. Entries of other clusters are not changed.
//!
//! Entries of this module have an extension. An entry of the same name without it is not replaced and not removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::FileError;

#[cfg(test)]
mod tests;

/// Default name of the merged context.
pub(crate) const CONTEXT: &str = "portolan";
/// Lists of a kubeconfig, and the field of their entries.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];
/// Extension of entries of this module.
const EXTENSION: &str = "portolan.dev/kubeconfig";
/// Time for which another program may hold the lock; kubectl holds it for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two attempts to take the lock.
const LOCK_RETRY_PERIOD: Duration = Duration::from_millis(50);

/// Failed change of a kubeconfig, which is unchanged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MergeError {
    /// The file cannot be read, written or locked.
    #[error("{0}")]
    File(#[from] FileError),
    /// The file is not a kubeconfig.
    #[error("{}: expected a kubeconfig: {reason}", path.display())]
    Invalid {
        /// Path of the file.
        path: PathBuf,
        /// Violation of the format.
        reason: String,
    },
    /// The name belongs to an entry of another program.
    #[error("{list} has an entry {name:?} of another program; choose another name with --context")]
    NameInUse {
        /// List of the entry.
        list: &'static str,
        /// Name of the entry.
        name: String,
    },
    /// Another program holds the lock.
    #[error("{} exists, so another program may be changing the kubeconfig; remove the file if no such program runs", path.display())]
    Locked {
        /// Path of the lock.
        path: PathBuf,
    },
    /// The environment does not name the user's kubeconfig.
    #[error("no kubeconfig: $HOME is not set; name a file")]
    NoHome,
    /// The administrator's kubeconfig does not exist.
    #[error(
        "{} does not exist; is portolan up running? If it has a flag --write-kubeconfig, name that file with --from",
        path.display()
    )]
    NoAdministrator {
        /// Path of the administrator's kubeconfig.
        path: PathBuf,
    },
}

/// Returns the path of a user's kubeconfig: the configured one, or the default of `kubectl`.
///
/// # Errors
///
/// [`MergeError::NoHome`] if there is no default.
pub(crate) fn user_file(given: Option<&PathBuf>) -> Result<PathBuf, MergeError> {
    given.cloned().or_else(default_file).ok_or(MergeError::NoHome)
}

/// Merges an administrator's kubeconfig into another one.
///
/// # Errors
///
/// [`MergeError`]; the other kubeconfig is then unchanged.
pub(crate) fn merge_administrator(
    from: &Path,
    into: &Path,
    context: &str,
    keeps_current: bool,
) -> Result<(), MergeError> {
    if !from.exists() {
        return Err(MergeError::NoAdministrator {
            path: from.to_owned(),
        });
    }
    merge_file(from, into, context, keeps_current)
}

/// Returns the path of the kubeconfig that `kubectl` reads by default.
pub(crate) fn default_file() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(|home| PathBuf::from(home).join(".kube/config"))
}

/// Merges the cluster of one file into another file, as a context. It becomes the current context unless
/// `keeps_current`.
fn merge_file(from: &Path, into: &Path, name: &str, keeps_current: bool) -> Result<(), MergeError> {
    let source = read(from)?.unwrap_or_default();
    change_locked_file(into, |existing| {
        let mut merged = merge(existing, &source, name)?;
        if !keeps_current {
            merged["current-context"] = name.into();
        }
        Ok(merged)
    })
}

/// Removes a merged context from a file, and returns true if there was one.
///
/// # Errors
///
/// [`MergeError`]; the file is then unchanged.
pub(crate) fn remove_from_file(file: &Path, name: &str) -> Result<bool, MergeError> {
    if !file.exists() {
        return Ok(false);
    }
    let mut was_removed = false;
    change_locked_file(file, |mut existing| {
        was_removed = remove(&mut existing, name);
        Ok(existing)
    })?;
    Ok(was_removed)
}

/// Returns a kubeconfig with the current cluster, user and context of another one added. Pure.
fn merge(mut into: Value, from: &Value, name: &str) -> Result<Value, MergeError> {
    if !into.is_object() {
        into = json!({"apiVersion": "v1", "kind": "Config", "preferences": {}});
    }
    let current = from["current-context"].as_str().unwrap_or_default();
    let context = entry(from, "contexts", current).map_or(&Value::Null, |entry| &entry["context"]);
    for (list, field) in LISTS {
        let content = match field {
            "context" => json!({"cluster": name, "user": name}),
            field => {
                let named = context[field].as_str().unwrap_or_default();
                let content = entry(from, list, named).map(|entry| &entry[field]);
                content
                    .filter(|content| content.is_object())
                    .cloned()
                    .unwrap_or_default()
            }
        };
        let mut merged = json!({"name": name, field: content});
        merged[field]["extensions"] = json!([{"name": EXTENSION, "extension": {}}]);
        if !into[list].is_array() {
            into[list] = json!([]);
        }
        let Some(entries) = into[list].as_array_mut() else {
            continue;
        };
        match entries.iter_mut().find(|entry| entry["name"] == name) {
            Some(existing) if is_merged(existing, field) => *existing = merged,
            Some(_) => {
                return Err(MergeError::NameInUse {
                    list,
                    name: name.to_owned(),
                });
            }
            None => entries.push(merged),
        }
    }
    Ok(into)
}

/// Removes the merged entries of a name, and returns true if there were any. Pure.
fn remove(from: &mut Value, name: &str) -> bool {
    let mut was_removed = false;
    for (list, field) in LISTS {
        if let Some(entries) = from[list].as_array_mut() {
            let before = entries.len();
            entries.retain(|entry| entry["name"] != name || !is_merged(entry, field));
            was_removed |= entries.len() != before;
        }
    }
    if was_removed && from["current-context"] == name {
        from["current-context"] = "".into();
    }
    was_removed
}

fn entry<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let mut entries = config[list].as_array()?.iter();
    entries.find(|entry| entry["name"] == name)
}

fn is_merged(entry: &Value, field: &str) -> bool {
    let extensions = entry[field]["extensions"].as_array();
    extensions
        .into_iter()
        .flatten()
        .any(|extension| extension["name"] == EXTENSION)
}

fn read(path: &Path) -> Result<Option<Value>, MergeError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(FileError::at(path)(source).into()),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let invalid = |reason: String| MergeError::Invalid {
        path: path.to_owned(),
        reason,
    };
    // The text around the fault can contain a token or a key.
    let parsed = serde_saphyr::from_str(&text);
    let value: Value = parsed.map_err(|error| invalid(error.without_snippet().to_string()))?;
    if !value.is_object() {
        return Err(invalid("found no mapping".to_owned()));
    }
    Ok(Some(value))
}

/// Reads, changes and writes a file while it is locked in the way of kubectl.
fn change_locked_file(
    path: &Path,
    change: impl FnOnce(Value) -> Result<Value, MergeError>,
) -> Result<(), MergeError> {
    // Writing replaces the file. The path is resolved first, so that a symbolic link is not replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(FileError::at(directory))?;
    }
    let _lock = KubeconfigLock::take(&path)?;
    let owner = fs::metadata(&path)
        .ok()
        .map(|metadata| (metadata.uid(), metadata.gid()));
    let changed = change(read(&path)?.unwrap_or_default())?;
    let text = serde_saphyr::to_string(&changed).map_err(|error| MergeError::Invalid {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    apiserver::kubeconfig::write_text(&path, &text).map_err(FileError::at(&path))?;
    // Root may change the file of another user, who must still be able to read it.
    if let Some((user, group)) = owner
        && rustix::process::geteuid().is_root()
    {
        give_to(&path, user, group).map_err(FileError::at(&path))?;
    }
    Ok(())
}

/// Changes the owner of a file. Links are not followed: the user may own the directory, and could replace the file by
/// a link to one of root.
fn give_to(path: &Path, user: u32, group: u32) -> io::Result<()> {
    lchown(path, Some(user), Some(group))
}

/// Lock file of a kubeconfig, as kubectl has it.
struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    fn take(path: &Path) -> Result<Self, MergeError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match File::options().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(FileError::at(&lock)(error).into());
                }
                Err(_) if Instant::now() > deadline => return Err(MergeError::Locked { path: lock }),
                Err(_) => std::thread::sleep(LOCK_RETRY_PERIOD),
            }
        }
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "kubeconfig lock not removed");
        }
    }
}
