//! What `portolan up` says of its parts, in a file for `portolan status`, and the lock by which there is one `up` for a
//! data directory.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::super::Failure;

const LOCK: &str = "up.lock";
const REPORT: &str = "up.json";
/// How long a process that was killed may hold the lock: the kernel closes its sockets first, some of which wait for others.
const DYING_PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two tries to get the lock from it.
const DYING_PAUSE: Duration = Duration::from_millis(20);
/// SIGKILL in the sets of signals of proc_pid_status(5).
const KILL_BIT: u64 = 1 << 8;

/// How all parts are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The process.
    pub pid: u32,
    /// Where the administrator's kubeconfig is.
    pub kubeconfig: PathBuf,
    /// The name of the machine's Node; "" as long as it is not known.
    #[serde(default)]
    pub node_name: String,
    /// The parts by name.
    pub parts: BTreeMap<String, Part>,
}

/// How a part is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Whether it runs, or waits to be started anew.
    pub is_running: bool,
    /// Since when that is so, in seconds since 1970.
    pub since_seconds: u64,
    /// How often it was started anew.
    pub restarts: u32,
    /// Why it ended last.
    pub reason: Option<String>,
}

/// Holds the data directory, and writes how the parts are.
#[derive(Debug)]
pub struct Board {
    directory: PathBuf,
    report: Mutex<Report>,
    /// Held for as long as this process lives.
    _lock: File,
}

impl Board {
    /// Takes the data directory, unless another `up` has it.
    pub fn open(directory: &Path, kubeconfig: &Path) -> Result<Self, Failure> {
        // What is in it is for its owner alone.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let path = directory.join(LOCK);
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let mut lock = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        let deadline = Instant::now() + DYING_PATIENCE;
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut pid = String::new();
            lock.rewind()
                .and_then(|()| lock.read_to_string(&mut pid))
                .map_err(failed)?;
            if is_dying(pid.trim()) && Instant::now() < deadline {
                std::thread::sleep(DYING_PAUSE);
                continue;
            }
            return Err(format!(
                "portolan is running already with --data-dir {}, as process {}; see portolan status",
                directory.display(),
                pid.trim()
            )
            .into());
        }
        let pid = std::process::id();
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{pid}"))
            .map_err(failed)?;
        Ok(Self {
            directory: directory.to_owned(),
            report: Mutex::new(Report {
                pid,
                kubeconfig: kubeconfig.to_owned(),
                node_name: String::new(),
                parts: BTreeMap::new(),
            }),
            _lock: lock,
        })
    }

    /// The machine is this Node of the cluster.
    pub fn is_node(&self, name: &str) {
        self.change(|report| name.clone_into(&mut report.node_name));
    }

    /// A part has been started.
    pub fn started(&self, name: &str) {
        self.change(|report| {
            let before = report.parts.get(name);
            let part = Part {
                is_running: true,
                since_seconds: now_seconds(),
                restarts: before.map_or(0, |part| part.restarts + 1),
                reason: before.and_then(|part| part.reason.clone()),
            };
            report.parts.insert(name.to_owned(), part);
        });
    }

    /// A part has ended, and waits to be started anew.
    pub fn ended(&self, name: &str, reason: &str) {
        self.change(|report| {
            if let Some(part) = report.parts.get_mut(name) {
                part.is_running = false;
                part.since_seconds = now_seconds();
                part.reason = Some(reason.to_owned());
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Report)) {
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut report);
        let unfinished = self.directory.join(format!(".{REPORT}"));
        let written = serde_json::to_vec(&*report)
            .map_err(io::Error::from)
            .and_then(|json| fs::write(&unfinished, json))
            .and_then(|()| fs::rename(&unfinished, self.directory.join(REPORT)));
        if let Err(error) = written {
            tracing::warn!(%error, "portolan status will not hear of the parts");
        }
    }
}

/// What the `up` of a data directory says; nothing if none runs.
pub fn read(directory: &Path) -> Result<Option<Report>, Failure> {
    let path = directory.join(LOCK);
    let lock = match File::open(&path) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    };
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_ok() {
        return Ok(None);
    }
    let path = directory.join(REPORT);
    let json = match fs::read(&path) {
        Ok(json) => json,
        // It has just begun.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(Report::default())),
        Err(error) => return Err(format!("{}: {error}", path.display()).into()),
    };
    let report = serde_json::from_slice(&json).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Some(report))
}

/// Whether a process is about to be gone: killed, a zombie, or not there at all (proc_pid_status(5)).
fn is_dying(pid: &str) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    };
    let is_killed = |set: Option<String>| {
        let set = set.and_then(|set| u64::from_str_radix(&set, 16).ok());
        set.is_some_and(|set| set & KILL_BIT != 0)
    };
    field("State:").is_some_and(|state| state.starts_with(['Z', 'X']))
        || is_killed(field("SigPnd:"))
        || is_killed(field("ShdPnd:"))
}

/// Seconds since 1970.
pub fn now_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_secs())
}
