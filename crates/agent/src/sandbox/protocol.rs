//! What agent and sandbox say to each other: one JSON value a line, over a Unix socket.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rfc3339;
use crate::seccomp::Seccomp;
use crate::user_namespaces::ranges::IdRange;

/// Longest line: a container's whole environment and command, as large as the kernel takes them.
pub const LINE_BYTES_MAX: usize = 4 << 20;

/// A program to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// All of its environment.
    pub environment: BTreeMap<String, String>,
    /// Where it starts; "" for the root directory.
    pub directory: String,
    /// What it sees and may do.
    #[serde(default)]
    pub confinement: Confinement,
}

/// What a program sees and may do, where that is not what all of its Pod do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Volumes.
    pub mounts: Vec<Mount>,
    /// An empty directory. Sandboxes of before 0.2 make a root of their own there.
    pub staging: PathBuf,
    /// Whether it can write to volumes only.
    pub has_read_only_root: bool,
    /// Its user.
    pub user: Option<u32>,
    /// Its group; 0 if only a user is given.
    pub group: Option<u32>,
    /// Its further groups.
    pub groups: Vec<u32>,
    /// The capabilities that root keeps, by their bits; all if there are none here.
    pub capabilities: Option<u64>,
    /// Whether programs with set-user-ID give it nothing.
    pub has_no_new_privileges: bool,
    /// The control groups that it joins, by their directories.
    pub cgroups: Vec<PathBuf>,
    /// Whether it has the node's devices and may change the node's files.
    #[serde(default)]
    pub is_privileged: bool,
    /// Seccomp filter of the container.
    #[serde(default)]
    pub seccomp: Seccomp,
    /// Whether it sees those files of `/proc` and `/sys` that tell about the machine.
    #[serde(default)]
    pub has_unmasked_proc: bool,
    /// Host IDs of the Pod's user namespace; `None` for a Pod that shares the users of the host.
    #[serde(default)]
    pub users: Option<IdRange>,
}

/// A volume in a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// The volume's directory or file on the node.
    pub source: PathBuf,
    /// What of it; "" for all.
    pub sub_path: PathBuf,
    /// Where in the container.
    pub target: PathBuf,
    /// Whether the container can only read it.
    pub is_read_only: bool,
    /// True if the mount is ID-mapped by the Pod's user namespace.
    #[serde(default)]
    pub is_id_mapped: bool,
}

/// From the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Comes back with the answer.
    pub id: u64,
    /// Action to take.
    pub action: Action,
}

/// What the agent asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Start a container. It must not run already.
    Start {
        /// Name.
        name: String,
        /// Its program.
        program: Box<Program>,
        /// Where its output goes.
        log: PathBuf,
    },
    /// Send a signal to a container's first process, or to its whole process group.
    Signal {
        /// Name.
        name: String,
        /// The signal's number.
        signal: i32,
        /// Whether to all of the group.
        group: bool,
    },
    /// Run a command in a running container until it ends, and say how.
    Execute {
        /// Whose environment, directory and user the command has.
        container: String,
        /// The program and its arguments.
        command: Vec<String>,
        /// After this many milliseconds it is killed.
        timeout_ms: u64,
    },
}

/// From the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The first message: what there is.
    Hello {
        /// All containers that were ever started, by name.
        containers: BTreeMap<String, ContainerState>,
    },
    /// The answer to a request.
    Answer {
        /// The request's id.
        id: u64,
        /// What came of it.
        outcome: Outcome,
    },
    /// A container has ended.
    Ended {
        /// Name.
        name: String,
        /// How.
        exit: Exit,
    },
}

/// A container as the sandbox knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerState {
    /// It runs.
    Running {
        /// Since when.
        #[serde(with = "rfc3339")]
        started_at: Timestamp,
    },
    /// It has ended.
    Ended(Exit),
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit status, or 128 plus the signal.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// When it was started.
    #[serde(with = "rfc3339")]
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(with = "rfc3339")]
    pub finished_at: Timestamp,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It was done.
    Done,
    /// The command that was executed has ended.
    Exited {
        /// How.
        exit: Exit,
        /// The beginning of what it printed.
        output: String,
    },
    /// It took too long and was killed.
    TimedOut {
        /// The beginning of what it printed.
        output: String,
    },
    /// It was not done.
    Failed {
        /// Why.
        message: String,
    },
}
