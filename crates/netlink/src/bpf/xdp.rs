//! XDP programs: they decide about the frames of an interface before the kernel allocates a packet.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::assembler::Instruction;
use super::error::BpfError;
use super::program::{LinkCreateAttributes, ProgramForm};
use super::system_call::{Command, bpf, bpf_descriptor};
use crate::route::LinkIndex;

/// `BPF_PROG_TYPE_XDP`.
const PROGRAM_TYPE: u32 = 6;
/// `BPF_XDP`.
const ATTACH_TYPE: u32 = 37;
/// `XDP_FLAGS_DRV_MODE`: the driver of the interface runs the program.
const BY_DRIVER: u32 = 1 << 2;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`: the kernel executes the decisions of the program.
const LIVE_FRAMES: u32 = 1 << 1;
/// Maximum number of bytes that a program adds to a frame.
const ADDED_BYTES_MAX: usize = 256;

/// Decision about a frame (`enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum XdpAction {
    /// The frame is dropped, and a trace point reports an error of the program.
    Aborted = 0,
    /// The frame is dropped.
    Drop = 1,
    /// The kernel handles the frame as without a program.
    Pass = 2,
    /// The frame leaves by the interface by which it came.
    Transmit = 3,
    /// The frame leaves by the interface that [`Helper::Redirect`](super::Helper::Redirect) decided.
    Redirect = 4,
}

/// A loaded XDP program.
#[derive(Debug)]
pub struct XdpProgram {
    descriptor: OwnedFd,
}

/// Attachment of a program to an interface. It ends with its last descriptor.
#[derive(Debug)]
pub struct XdpAttachment {
    _descriptor: OwnedFd,
}

/// Result of a program for one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestedFrame {
    /// Result of the program, an [`XdpAction`].
    pub result: u32,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// Mean duration of a run in nanoseconds.
    pub nanoseconds: u32,
}

/// Attributes of `BPF_PROG_TEST_RUN`.
#[repr(C)]
#[derive(Default)]
struct TestAttributes {
    program: u32,
    result: u32,
    frame_bytes: u32,
    output_bytes: u32,
    frame: u64,
    output: u64,
    repeat: u32,
    nanoseconds: u32,
    context_bytes: u32,
    context_output_bytes: u32,
    context: u64,
    context_output: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    _padding: u32,
}

impl XdpProgram {
    /// Loads a program. The kernel verifies that it ends and accesses only its own memory and the frame.
    ///
    /// # Errors
    ///
    /// [`BpfError::Rejected`] with the verifier's log, or [`BpfError::NotPermitted`].
    pub fn load(name: &'static str, instructions: &[Instruction]) -> Result<Self, BpfError> {
        let form = ProgramForm {
            name,
            program_type: PROGRAM_TYPE,
            attach_type: ATTACH_TYPE,
        };
        let descriptor = form.load(instructions)?;
        Ok(Self { descriptor })
    }

    /// Attaches the program to an interface of the network namespace of the calling thread. The driver of the interface
    /// runs it.
    ///
    /// # Errors
    ///
    /// [`BpfError::Unsupported`] if the driver runs no programs, and [`BpfError::System`] with `EBUSY` if the interface
    /// has another program.
    pub fn attach(&self, interface: LinkIndex) -> Result<XdpAttachment, BpfError> {
        let mut attributes = LinkCreateAttributes {
            program: self.descriptor.as_raw_fd() as u32,
            target: interface.0,
            attach_type: ATTACH_TYPE,
            flags: BY_DRIVER,
        };
        // SAFETY: the attributes contain no pointer, and the command returns a descriptor.
        let descriptor = unsafe {
            bpf_descriptor(
                Command::LinkCreate,
                "attaching an eBPF program to an interface",
                &mut attributes,
            )
        }?;
        Ok(XdpAttachment {
            _descriptor: descriptor,
        })
    }

    /// Runs the program `repeat` times on a frame, one after the other, without effects outside of the frame
    /// (`BPF_PROG_TEST_RUN`).
    ///
    /// # Errors
    ///
    /// [`BpfError`] without capabilities, or for a frame that is shorter than an Ethernet header.
    pub fn test(&self, frame: &[u8], repeat: u32) -> Result<TestedFrame, BpfError> {
        let mut output = vec![0; frame.len() + ADDED_BYTES_MAX];
        let mut attributes = TestAttributes {
            program: self.descriptor.as_raw_fd() as u32,
            frame_bytes: frame.len() as u32,
            output_bytes: output.len() as u32,
            frame: frame.as_ptr() as u64,
            output: output.as_mut_ptr() as u64,
            repeat,
            ..TestAttributes::default()
        };
        // SAFETY: the kernel reads `frame_bytes` bytes of the frame and writes at most `output_bytes` bytes to the output.
        // Both outlive the call.
        unsafe { bpf(Command::TestRun, "running an eBPF program", &mut attributes) }?;
        output.truncate(attributes.output_bytes as usize);
        Ok(TestedFrame {
            result: attributes.result,
            frame: output,
            nanoseconds: attributes.nanoseconds,
        })
    }

    /// Runs the program on `count` copies of a frame and executes its decisions, as for frames of a network card
    /// (Linux 5.18). A copy may be one that the program changed before.
    ///
    /// # Errors
    ///
    /// [`BpfError`] without capabilities or kernel support.
    pub fn send(&self, frame: &[u8], count: u32) -> Result<(), BpfError> {
        let mut attributes = TestAttributes {
            program: self.descriptor.as_raw_fd() as u32,
            frame_bytes: frame.len() as u32,
            frame: frame.as_ptr() as u64,
            repeat: count,
            flags: LIVE_FRAMES,
            ..TestAttributes::default()
        };
        // SAFETY: the kernel only reads `frame_bytes` bytes of the frame, which outlives the call.
        unsafe {
            bpf(
                Command::TestRun,
                "sending frames by an eBPF program",
                &mut attributes,
            )
        }
        .map(drop)
    }
}

impl AsFd for XdpProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests;
