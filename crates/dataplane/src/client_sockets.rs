//! TCP sockets of clients whose endpoints eBPF chose in `connect()`. Connection tracking does not record their Service.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use netlink::bpf::BpfError;
use netlink::route::RouteError;
use netlink::socket_diagnostics::SocketDiagnosticsError;

/// A connected TCP socket of a client on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSocket {
    /// Number of the socket, never reused.
    pub cookie: u64,
    /// Address and port to which the client connected.
    pub frontend: SocketAddr,
    /// Endpoint that was chosen.
    pub endpoint: SocketAddr,
}

/// Receiver of the number of destroyed sockets.
pub type Destroyed = Box<dyn FnOnce(usize) + Send>;

/// Reasons why sockets of clients are not read or not destroyed.
#[derive(Debug, thiserror::Error)]
pub enum ClientSocketError {
    /// The map with the connections cannot be read. A retry helps if memory was short.
    #[error(transparent)]
    Map(#[from] BpfError),
    /// The kernel does not list or destroy sockets.
    #[error(transparent)]
    Diagnostics(#[from] SocketDiagnosticsError),
    /// A network namespace cannot be entered: CAP_SYS_ADMIN is missing. A retry does not help.
    #[error("{0}; CAP_SYS_ADMIN is needed for the sockets of Pods (run as root, or grant it)")]
    Namespace(#[from] RouteError),
    /// A process of the control group is in another PID namespace. A retry does not help.
    #[error(
        "processes of {path} are not visible; run the proxy in the PID namespace of the host (hostPID), or with \
         --ebpf-pods=false"
    )]
    HiddenProcess {
        /// Path of the control group.
        path: PathBuf,
    },
    /// The network namespace of a process cannot be read. A retry helps if the reason is temporary.
    #[error(
        "cannot open the network namespace of thread {thread}: {source}; CAP_SYS_PTRACE is needed for those of other users"
    )]
    Thread {
        /// Thread ID.
        thread: u32,
        /// Error of the system call.
        source: io::Error,
    },
    /// The control group cannot be read. A retry helps if it changed meanwhile.
    #[error("cannot read the control group {path}: {source}")]
    ControlGroup {
        /// Path of the control group.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The thread that destroys sockets cannot be started. A retry helps if threads or memory were short.
    #[error("cannot start the thread that destroys sockets: {0}")]
    Start(#[source] io::Error),
    /// The thread that destroys sockets has exited, which is a defect.
    #[error("the thread that destroys sockets has exited; restart the proxy")]
    Ended,
    /// There are more control groups than are read. A retry helps after some are removed.
    #[error("the control group has more than {0} descendants; name a smaller one with --ebpf-cgroup")]
    ControlGroups(usize),
}
