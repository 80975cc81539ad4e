//! eBPF programs for control groups.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::assembler::Instruction;
use super::error::BpfError;
use super::map::object_name;
use super::system_call::{Command, bpf_descriptor};

/// License of the programs. They call no helper that needs a license compatible with the GPL.
const LICENSE: &std::ffi::CStr = c"Apache-2.0";
/// Size of the verifier's log.
const LOG_BYTES: usize = 256 << 10;
/// Length of the end of the verifier's log in an error: the last instructions and the reason.
const LOG_SHOWN_BYTES: usize = 400;

/// Place at which the kernel runs a program for the processes of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// connect(2) of IPv4 sockets.
    Connect4,
    /// connect(2) of IPv6 sockets, which may lead to IPv4 addresses as `::ffff:…`.
    Connect6,
    /// getpeername(2) of IPv4 sockets.
    PeerName4,
    /// getpeername(2) of IPv6 sockets.
    PeerName6,
    /// The end of a socket.
    Release,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Self; 5] = [
        Self::Release,
        Self::PeerName4,
        Self::PeerName6,
        Self::Connect4,
        Self::Connect6,
    ];

    /// Returns the name, for tools and pins.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect4 => "connect4",
            Self::Connect6 => "connect6",
            Self::PeerName4 => "getpeername4",
            Self::PeerName6 => "getpeername6",
            Self::Release => "sock_release",
        }
    }

    /// Returns the type of programs (`enum bpf_prog_type`).
    fn program_type(self) -> u32 {
        const CGROUP_SOCK: u32 = 9;
        const CGROUP_SOCK_ADDR: u32 = 18;
        match self {
            Self::Release => CGROUP_SOCK,
            _ => CGROUP_SOCK_ADDR,
        }
    }

    /// Returns the type of attachments (`enum bpf_attach_type`).
    pub(super) fn attach_type(self) -> u32 {
        match self {
            Self::Connect4 => 10,
            Self::Connect6 => 11,
            Self::PeerName4 => 29,
            Self::PeerName6 => 30,
            Self::Release => 34,
        }
    }
}

/// Attributes of `BPF_PROG_LOAD`.
#[repr(C)]
struct LoadAttributes {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface_index: u32,
    attach_type: u32,
}

/// A loaded program.
#[derive(Debug)]
pub struct Program {
    descriptor: OwnedFd,
    hook: Hook,
}

impl Program {
    /// Loads a program. The kernel verifies that it ends and accesses only its own memory.
    ///
    /// # Errors
    ///
    /// [`BpfError::Rejected`] with the verifier's log, or [`BpfError::NotPermitted`].
    pub fn load(hook: Hook, instructions: &[Instruction]) -> Result<Self, BpfError> {
        let form = ProgramForm {
            name: hook.name(),
            program_type: hook.program_type(),
            attach_type: hook.attach_type(),
        };
        let descriptor = form.load(instructions)?;
        Ok(Self { descriptor, hook })
    }

    /// Returns the hook.
    pub fn hook(&self) -> Hook {
        self.hook
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Properties of a program besides its instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramForm {
    /// Name for tools and errors.
    pub(super) name: &'static str,
    /// `enum bpf_prog_type`.
    pub(super) program_type: u32,
    /// `enum bpf_attach_type`.
    pub(super) attach_type: u32,
}

impl ProgramForm {
    /// Loads a program of this form.
    pub(super) fn load(self, instructions: &[Instruction]) -> Result<OwnedFd, BpfError> {
        match self.load_with_log(instructions, &mut []) {
            // The log costs time, so it is requested only for a program that is rejected.
            Err(error @ (BpfError::System { .. } | BpfError::NotPermitted { .. })) => {
                let mut log = vec![0; LOG_BYTES];
                match self.load_with_log(instructions, &mut log) {
                    Ok(descriptor) => Ok(descriptor),
                    Err(_) => Err(self.with_log(error, &log)),
                }
            }
            result => result,
        }
    }

    fn load_with_log(self, instructions: &[Instruction], log: &mut [u8]) -> Result<OwnedFd, BpfError> {
        let mut attributes = LoadAttributes {
            program_type: self.program_type,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_bytes: log.len() as u32,
            log: if log.is_empty() {
                0
            } else {
                log.as_mut_ptr() as u64
            },
            kernel_version: 0,
            flags: 0,
            name: object_name(self.name),
            interface_index: 0,
            attach_type: self.attach_type,
        };
        // SAFETY: instructions and license outlive the call, which only reads them; it writes at most `log_bytes` bytes
        // to the log. The command returns a descriptor.
        unsafe { bpf_descriptor(Command::ProgramLoad, "loading an eBPF program", &mut attributes) }
    }

    /// Returns the error of a load with the verifier's reason. Without a log, the verifier did not run.
    fn with_log(self, error: BpfError, log: &[u8]) -> BpfError {
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let text = text.trim();
        let begin = text.len().saturating_sub(LOG_SHOWN_BYTES);
        let begin = (begin..=text.len()).find(|at| text.is_char_boundary(*at));
        let shown = text.get(begin.unwrap_or_default()..).unwrap_or_default();
        let source = match error {
            error if shown.is_empty() => return error,
            BpfError::System { source, .. } => source,
            BpfError::NotPermitted { .. } => std::io::Error::from_raw_os_error(libc::EACCES),
            error => return error,
        };
        BpfError::Rejected {
            program: self.name,
            log: shown.replace('\n', "; "),
            source,
        }
    }
}

/// Attributes of `BPF_LINK_CREATE`.
#[repr(C)]
pub(super) struct LinkCreateAttributes {
    pub(super) program: u32,
    /// Descriptor or index.
    pub(super) target: u32,
    pub(super) attach_type: u32,
    pub(super) flags: u32,
}

impl Program {
    /// Attaches the program to a control group and its descendants, beside the programs of others.
    pub(super) fn attach(&self, control_group: BorrowedFd<'_>) -> Result<OwnedFd, BpfError> {
        let mut attributes = LinkCreateAttributes {
            program: self.descriptor.as_raw_fd() as u32,
            target: control_group.as_raw_fd() as u32,
            attach_type: self.hook.attach_type(),
            flags: 0,
        };
        // SAFETY: the attributes contain no pointer, and the command returns a descriptor.
        unsafe {
            bpf_descriptor(
                Command::LinkCreate,
                "attaching an eBPF program to a control group",
                &mut attributes,
            )
        }
    }
}
