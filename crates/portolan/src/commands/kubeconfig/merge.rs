//! Another cluster in a kubeconfig that a person has: what is there of others stays as it is.
//!
//! Entries made here carry an extension by which they are known again; an entry of the same name without it is
//! somebody else's, and is neither replaced nor removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[cfg(test)]
mod tests;

/// The lists of a kubeconfig, and the field of their entries.
const LISTS: [(&str, &str); 3] = [
    ("clusters", "cluster"),
    ("users", "user"),
    ("contexts", "context"),
];
/// The extension of entries that are ours.
const EXTENSION: &str = "portolan.dev/kubeconfig";
/// How long somebody else may hold the file: kubectl does for some milliseconds.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether the file is free.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// Why a kubeconfig is not changed. It is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The file cannot be read, written or locked.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: io::Error,
    },
    /// It is no kubeconfig.
    #[error("{path}: expected a kubeconfig: {detail}", path = path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
    /// The name is somebody else's.
    #[error("{list} has an entry {name:?} that is not Portolan's; choose another name with --context")]
    Taken {
        /// Which list.
        list: &'static str,
        /// The name.
        name: String,
    },
    /// Somebody holds the file.
    #[error("{path} is there: another program changes the file; remove it if none does", path = path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
}

/// The kubeconfig that `kubectl` reads if nothing else is said.
pub fn default_file() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(|home| PathBuf::from(home).join(".kube/config"))
}

/// Puts the cluster of the kubeconfig `from` into the file `into`, under a name, which becomes its current context
/// unless that one is to be kept.
pub fn merge_file(from: &Path, into: &Path, name: &str, keeps_current: bool) -> Result<(), MergeError> {
    let source = read(from)?.unwrap_or_default();
    change(into, |present| {
        let mut merged = merge(present, &source, name)?;
        if !keeps_current {
            merged["current-context"] = name.into();
        }
        Ok(merged)
    })
}

/// Takes what was put there under a name out of a file; whether there was anything.
pub fn remove_from_file(file: &Path, name: &str) -> Result<bool, MergeError> {
    if !file.exists() {
        return Ok(false);
    }
    let mut was_there = false;
    change(file, |mut present| {
        was_there = remove(&mut present, name);
        Ok(present)
    })?;
    Ok(was_there)
}

/// A kubeconfig with the current cluster, user and context of another one in it. Pure.
pub fn merge(mut into: Value, from: &Value, name: &str) -> Result<Value, MergeError> {
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
        let mut ours = json!({"name": name, field: content});
        ours[field]["extensions"] = json!([{"name": EXTENSION, "extension": {}}]);
        if !into[list].is_array() {
            into[list] = json!([]);
        }
        let Some(entries) = into[list].as_array_mut() else {
            continue;
        };
        match entries.iter_mut().find(|entry| entry["name"] == name) {
            Some(present) if is_ours(present, field) => *present = ours,
            Some(_) => {
                return Err(MergeError::Taken {
                    list,
                    name: name.to_owned(),
                });
            }
            None => entries.push(ours),
        }
    }
    Ok(into)
}

/// Takes our entries of that name out; whether there were any. Pure.
pub fn remove(from: &mut Value, name: &str) -> bool {
    let mut was_there = false;
    for (list, field) in LISTS {
        if let Some(entries) = from[list].as_array_mut() {
            let before = entries.len();
            entries.retain(|entry| entry["name"] != name || !is_ours(entry, field));
            was_there |= entries.len() != before;
        }
    }
    if was_there && from["current-context"] == name {
        from["current-context"] = "".into();
    }
    was_there
}

fn entry<'a>(config: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    let mut entries = config[list].as_array()?.iter();
    entries.find(|entry| entry["name"] == name)
}

fn is_ours(entry: &Value, field: &str) -> bool {
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
        Err(source) => return Err(failed(path, source)),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let form = |detail: String| MergeError::Form {
        path: path.to_owned(),
        detail,
    };
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| form(error.to_string()))?;
    if !value.is_object() {
        return Err(form("it is no mapping".to_owned()));
    }
    Ok(Some(value))
}

/// Reads, changes and writes a file while no other program does, as kubectl locks it.
fn change(path: &Path, change: impl FnOnce(Value) -> Result<Value, MergeError>) -> Result<(), MergeError> {
    // What is renamed over a link would take the link's place.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
    }
    let _lock = Lock::take(&path)?;
    let owner = fs::metadata(&path)
        .ok()
        .map(|metadata| (metadata.uid(), metadata.gid()));
    let changed = change(read(&path)?.unwrap_or_default())?;
    let text = serde_saphyr::to_string(&changed).map_err(|error| MergeError::Form {
        path: path.clone(),
        detail: error.to_string(),
    })?;
    apiserver::kubeconfig::write_text(&path, &text).map_err(|source| failed(&path, source))?;
    // Root may have been asked to change the file of somebody else, who is to read it still.
    match owner {
        Some((user, group)) if rustix::process::geteuid().is_root() => {
            chown(&path, Some(user), Some(group)).map_err(|source| failed(&path, source))
        }
        _ => Ok(()),
    }
}

fn failed(path: &Path, source: io::Error) -> MergeError {
    MergeError::File {
        path: path.to_owned(),
        source,
    }
}

/// The file by which kubectl and others know that somebody changes a kubeconfig.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, MergeError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            match File::options().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(&lock, error));
                }
                Err(_) if Instant::now() > deadline => return Err(MergeError::Locked { path: lock }),
                Err(_) => std::thread::sleep(LOCK_PAUSE),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "the lock of a kubeconfig stays");
        }
    }
}
