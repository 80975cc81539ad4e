//! Errors of bpf(2), with the missing capability or kernel feature.

use std::io;

use super::assembly_error::AssemblyError;

/// Failure of an eBPF operation.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// Capabilities are missing, or a lockdown of the kernel forbids bpf(2). A retry does not help.
    #[error(
        "{operation} is not permitted: CAP_BPF and CAP_NET_ADMIN in the first user namespace are needed (run as root, or grant \
         them), and no kernel lockdown"
    )]
    NotPermitted {
        /// The operation.
        operation: &'static str,
    },
    /// The kernel lacks bpf(2), or the part of it. A retry does not help.
    #[error(
        "{operation}: the kernel does not support it ({source}); Linux 5.10 with CONFIG_CGROUP_BPF is needed"
    )]
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
    /// The verifier of the kernel rejects a program. A retry does not help.
    #[error("the kernel's verifier rejects the program {program} ({source}): {log}")]
    Rejected {
        /// Name of the program.
        program: &'static str,
        /// End of the verifier's log.
        log: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// A map has no room for another element. A retry helps after elements were deleted.
    #[error("{operation}: the map is full")]
    Full {
        /// The operation.
        operation: &'static str,
    },
    /// A program cannot be assembled, which is a defect.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// Another error of a system call. A retry helps if memory was short.
    #[error("{operation}: {source}")]
    System {
        /// The operation.
        operation: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl BpfError {
    /// Classifies the error of a system call.
    pub(super) fn of(operation: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { operation },
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => Self::Unsupported { operation, source },
            Some(libc::E2BIG) => Self::Full { operation },
            _ => Self::System { operation, source },
        }
    }

    /// Returns true if the object or element does not exist.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::System { source, .. } if source.raw_os_error() == Some(libc::ENOENT))
    }
}
