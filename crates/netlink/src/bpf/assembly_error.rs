//! Reasons why the assembler rejects an eBPF program.

/// Maximum number of instructions that the kernel accepts from a process without CAP_BPF, and far more than a program
/// here needs.
pub(super) const INSTRUCTIONS_MAX: usize = 4_096;

/// Failure to assemble a program, which is a defect of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssemblyError {
    /// A jump leads to a label without a place.
    #[error("label {0} of an eBPF program is not placed")]
    Unbound(usize),
    /// A jump is longer than 32,767 instructions, or leads backwards: loops need no verifier before Linux 5.3.
    #[error("the jump at instruction {0} of an eBPF program leads backwards or too far")]
    Jump(usize),
    /// The program has too many instructions.
    #[error("expected at most {INSTRUCTIONS_MAX} instructions in an eBPF program, found {0}")]
    Long(usize),
}
