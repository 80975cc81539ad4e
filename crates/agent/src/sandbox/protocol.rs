//! Protocol between agent and sandbox: one JSON value for each line, over a Unix socket. A newer agent connects to
//! sandboxes of an older one, so names on the wire stay.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::confinement::seccomp::Seccomp;
use crate::confinement::user_namespaces::ranges::IdRange;
use crate::object::rfc3339;

/// Longest line: environment and command of a container at the limits of the kernel.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// Highest user and group of a container, as in the Pod API. The kernel takes `u32::MAX` as "no change", so that the
/// program would run as root.
pub const ID_MAX: u32 = 0x7fff_ffff;

/// Program of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Whole environment.
    pub environment: BTreeMap<String, String>,
    /// Working directory; "" for the root directory.
    pub directory: String,
    /// Confinement of the program.
    #[serde(default)]
    pub confinement: Confinement,
    /// True if the program closes its standard input when it serves. It has started then, otherwise on `execve`.
    #[serde(default)]
    pub closes_stdin_when_serving: bool,
    /// Standard streams of a container. A command that is executed in it has others.
    #[serde(default)]
    pub streams: StandardStreams,
    /// Running container whose PID namespace a container shares, in place of one of its own.
    #[serde(default)]
    pub processes_of: Option<String>,
}

/// Standard streams of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandardStreams {
    /// True if sessions may write to the standard input. It is empty otherwise.
    pub has_input: bool,
    /// True if the standard input ends with the first session that writes to it.
    pub is_input_for_one: bool,
    /// True if the streams are a terminal.
    pub has_terminal: bool,
}

/// Confinement of a container's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Mounts of volumes.
    pub mounts: Vec<Mount>,
    /// Empty directory. Sandboxes before 0.2 create a root there.
    pub staging: PathBuf,
    /// True if only volumes are writable.
    pub has_read_only_root: bool,
    /// User ID.
    pub user: Option<u32>,
    /// Group ID; 0 if only a user is set.
    pub group: Option<u32>,
    /// Supplementary group IDs.
    pub groups: Vec<u32>,
    /// Capabilities as bits; `None` for all.
    pub capabilities: Option<u64>,
    /// True if set-user-ID programs grant no privileges.
    pub has_no_new_privileges: bool,
    /// Directories of the control groups that the program joins.
    pub cgroups: Vec<PathBuf>,
    /// True if the container has the devices of the node and may change its files.
    #[serde(default)]
    pub is_privileged: bool,
    /// Seccomp filter of the container.
    #[serde(default)]
    pub seccomp: Seccomp,
    /// True if paths in `/proc` and `/sys` that describe the host are visible.
    #[serde(default)]
    pub has_unmasked_proc: bool,
    /// Host IDs of the Pod's user namespace; `None` for a Pod that shares the users of the host.
    #[serde(default)]
    pub users: Option<IdRange>,
    /// Root file system from an image; `None` for the files of the node.
    #[serde(default)]
    pub root: Option<ImageRoot>,
    /// True if the first process of the container has the PID 1, and sees the processes of its container only.
    #[serde(default)]
    pub has_own_processes: bool,
    /// True if `/dev/shm` is that of the node, as for a Pod that shares its IPC namespace.
    #[serde(default)]
    pub has_node_memory: bool,
}

impl Confinement {
    /// Returns true if the container sees its own control groups only. A privileged container sees those of the node,
    /// as with containerd, unless its Pod has a user namespace.
    pub fn has_own_control_groups(&self) -> bool {
        !self.is_privileged || self.users.is_some()
    }
}

/// Root file system of a container from an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRoot {
    /// Directories of the layers in the image store, lowest first.
    pub layers: Vec<PathBuf>,
    /// Empty directory for the writable layer.
    pub writable: PathBuf,
    /// True if the layers have overlay attributes in the namespace `user` and not `trusted`.
    pub has_user_attributes: bool,
    /// Directories that exist when the program starts.
    pub directories: Vec<PathBuf>,
    /// `USER` of the image: name or number, with an optional group. "" for root. `runAsUser` takes precedence.
    pub user: String,
    /// True if the user's groups in the image's `/etc/group` are added to the supplementary groups.
    pub merges_groups: bool,
}

/// Mount of a volume in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Path of the volume on the node.
    pub source: PathBuf,
    /// Path within the volume; "" for all of it.
    pub sub_path: PathBuf,
    /// Mount path in the container.
    pub target: PathBuf,
    /// True if the container cannot write to the volume.
    pub is_read_only: bool,
    /// True if the mount is ID-mapped by the Pod's user namespace.
    #[serde(default)]
    pub is_id_mapped: bool,
}

/// Request of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number of the request, which its response repeats.
    pub id: u64,
    /// Action to take.
    pub action: Action,
}

/// Action of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Start a container, which must not run.
    Start {
        /// Container name.
        name: String,
        /// Program of the container.
        program: Box<Program>,
        /// Path of its log.
        log: PathBuf,
    },
    /// Send a signal to the first process of a container, or to its process group.
    Signal {
        /// Container name.
        name: String,
        /// Number of the signal.
        signal: i32,
        /// True if the signal goes to the process group.
        group: bool,
    },
    /// Execute a command in a running container until it exits.
    Execute {
        /// Container whose environment, directory and user the command has.
        container: String,
        /// The program and its arguments.
        command: Vec<String>,
        /// Milliseconds after which the command is killed.
        timeout_ms: u64,
    },
}

/// Message of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// First message: the state of the sandbox.
    Hello {
        /// All containers that were started, by name.
        containers: BTreeMap<String, ContainerState>,
    },
    /// Response to a request.
    Answer {
        /// Number of the request.
        id: u64,
        /// Outcome of the request.
        outcome: Outcome,
    },
    /// Exit of a container.
    Ended {
        /// Container name.
        name: String,
        /// Exit of its first process.
        exit: Exit,
    },
}

impl Message {
    /// Encodes the message as one line.
    ///
    /// # Errors
    /// Errors of the encoding.
    pub fn encode(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// State of a container in the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// The container runs.
    Running {
        /// Start time.
        #[serde(with = "rfc3339")]
        started_at: Timestamp,
    },
    /// The container has exited.
    Ended(Exit),
}

/// Exit of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit status, or 128 plus the number of the signal.
    pub code: i32,
    /// Signal that killed the process.
    pub signal: Option<i32>,
    /// Start time.
    #[serde(with = "rfc3339")]
    pub started_at: Timestamp,
    /// Exit time.
    #[serde(with = "rfc3339")]
    pub finished_at: Timestamp,
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The action is done.
    Done,
    /// The executed command has exited.
    Exited {
        /// Exit of the command.
        exit: Exit,
        /// Beginning of its output.
        output: String,
    },
    /// The executed command timed out and was killed.
    TimedOut {
        /// Beginning of its output.
        output: String,
    },
    /// The action failed.
    Failed {
        /// Description of the failure.
        message: String,
    },
}
