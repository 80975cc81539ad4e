//! eBPF: an assembler, maps, programs and their links to control groups and interfaces, by bpf(2). No compiler and no object file is
//! needed: a program is assembled when it is loaded.
//!
//! ```
//! use netlink::bpf::{Assembler, Condition, Helper, R0, R1, Width};
//!
//! // Permits a connection unless it is one of TCP (`struct bpf_sock_addr`).
//! let mut program = Assembler::new();
//! let refuse = program.label();
//! program.load(Width::Word, R1, R1, 36);
//! program.jump_if(Condition::Equal, R1, 6, refuse);
//! program.set(R0, 1);
//! program.exit();
//! program.bind(refuse);
//! program.set(R0, 0);
//! program.exit();
//! assert_eq!(program.finish()?.len(), 6);
//! # Ok::<(), netlink::bpf::AssemblyError>(())
//! ```

mod assembler;
mod assembly_error;
mod attachment;
mod error;
mod file_system;
mod map;
mod program;
mod ring;
mod system_call;
mod xdp;

pub use assembler::{
    Assembler, Condition, Helper, Instruction, Label, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, Register,
    Width, WordOperation,
};
pub use assembly_error::AssemblyError;
pub use attachment::Attachment;
pub use error::BpfError;
pub use file_system::{FILE_SYSTEM, is_file_system, mount_file_system};
pub use map::{Map, MapKind, MapShape};
pub use program::{Hook, Program};
pub use ring::Ring;
pub use system_call::namespace_cookie;
pub use xdp::{TestedFrame, XdpAction, XdpAttachment, XdpProgram};
