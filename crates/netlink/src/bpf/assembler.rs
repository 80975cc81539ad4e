//! Assembler for eBPF instructions (`linux/bpf.h`, RFC 9669).

use std::os::fd::AsRawFd;

use super::assembly_error::{AssemblyError, INSTRUCTIONS_MAX};
use super::map::Map;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register(u8);

/// Result of a helper, and of the program.
pub const R0: Register = Register(0);
/// First argument of a helper; the context when a program begins. A call of a helper clears the registers R0 to R5.
pub const R1: Register = Register(1);
/// Second argument of a helper.
pub const R2: Register = Register(2);
/// Third argument of a helper.
pub const R3: Register = Register(3);
/// Fourth argument of a helper.
pub const R4: Register = Register(4);
/// Fifth argument of a helper.
pub const R5: Register = Register(5);
/// A register that calls of helpers keep.
pub const R6: Register = Register(6);
/// A register that calls of helpers keep.
pub const R7: Register = Register(7);
/// A register that calls of helpers keep.
pub const R8: Register = Register(8);
/// A register that calls of helpers keep.
pub const R9: Register = Register(9);
/// End of the stack frame of 512 bytes; read-only.
pub const R10: Register = Register(10);

/// Size of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 8 bits.
    Byte,
    /// 16 bits.
    Half,
    /// 32 bits.
    Word,
    /// 64 bits.
    Double,
}

impl Width {
    fn code(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

/// Condition of a jump, for 64 bits without sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Both are equal.
    Equal,
    /// The operands differ.
    NotEqual,
    /// The left operand is greater.
    Greater,
}

impl Condition {
    fn code(self) -> u8 {
        match self {
            Self::Equal => 0x10,
            Self::NotEqual => 0x50,
            Self::Greater => 0x20,
        }
    }
}

/// Operation of 32 bits on two registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WordOperation {
    /// `destination += source`.
    Add = 0x00,
    /// `destination -= source`.
    Subtract = 0x10,
    /// `destination |= source`.
    Or = 0x40,
    /// `destination &= source`.
    And = 0x50,
    /// `destination ^= source`.
    ExclusiveOr = 0xa0,
    /// `destination = source`.
    Copy = 0xb0,
}

/// A helper function of the kernel. None of these needs a license that is compatible with the GPL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// `bpf_map_lookup_elem(map, key)`: pointer to the value, or 0.
    Lookup = 1,
    /// `bpf_map_update_elem(map, key, value, flags)`: 0 or a negative error.
    Update = 2,
    /// `bpf_map_delete_elem(map, key)`: 0 or a negative error.
    Delete = 3,
    /// `bpf_get_prandom_u32()`.
    Random = 7,
    /// `bpf_redirect(link, flags)`: `XDP_REDIRECT`; the frame leaves by the link with this index.
    Redirect = 23,
    /// `bpf_xdp_adjust_head(context, bytes)`: moves the start of a frame; 0 or a negative error. Pointers into the frame
    /// become invalid.
    AdjustHead = 44,
    /// `bpf_get_socket_cookie(context)`: number of the socket, never reused.
    SocketCookie = 46,
    /// `bpf_get_current_cgroup_id()`: inode number of the control group of the calling process.
    ControlGroup = 80,
    /// `bpf_get_netns_cookie(context)`: number of the network namespace, never reused.
    NamespaceCookie = 122,
    /// `bpf_ktime_get_boot_ns()`: nanoseconds since boot, suspend included (Linux 5.8).
    NanosecondsSinceBoot = 125,
    /// `bpf_ringbuf_output(ring, record, size, flags)`: 0, or a negative error if the ring is full (Linux 5.8).
    Append = 130,
    /// `bpf_set_retval(error)`: error of the system call if the program refuses it (Linux 5.18).
    SetResult = 187,
}

/// One encoded instruction (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    /// Destination in the low half of the byte on little-endian hosts, in the high one on others.
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    fn new(code: u8, destination: Register, source: Register, offset: i16, immediate: i32) -> Self {
        let registers = if cfg!(target_endian = "little") {
            destination.0 | source.0 << 4
        } else {
            destination.0 << 4 | source.0
        };
        Self {
            code,
            registers,
            offset,
            immediate,
        }
    }

    /// Returns the bytes in memory, for interpreters.
    pub fn to_bytes(self) -> [u8; 8] {
        let [low, high] = self.offset.to_ne_bytes();
        let [a, b, c, d] = self.immediate.to_ne_bytes();
        [self.code, self.registers, low, high, a, b, c, d]
    }
}

/// A place in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program in the making. Each method appends one instruction.
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Places of labels.
    places: Vec<Option<usize>>,
    /// Instructions that jump, with their labels.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    const NONE: Register = Register(0);

    /// Creates an empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a label, which gets its place by [`Assembler::bind`].
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places a label before the next instruction.
    pub fn bind(&mut self, label: Label) {
        let next = self.instructions.len();
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(next);
        }
    }

    /// `destination = *(base + offset)`.
    pub fn load(&mut self, width: Width, destination: Register, base: Register, offset: i16) {
        self.push(0x61 | width.code(), destination, base, offset, 0);
    }

    /// `*(base + offset) = source`.
    pub fn store(&mut self, width: Width, base: Register, offset: i16, source: Register) {
        self.push(0x63 | width.code(), base, source, offset, 0);
    }

    /// `*(base + offset) = value`, with the sign of the value.
    pub fn store_value(&mut self, width: Width, base: Register, offset: i16, value: i32) {
        self.push(0x62 | width.code(), base, Self::NONE, offset, value);
    }

    /// `destination = source`.
    pub fn copy(&mut self, destination: Register, source: Register) {
        self.push(0xbf, destination, source, 0, 0);
    }

    /// `destination = value`, with the sign of the value.
    pub fn set(&mut self, destination: Register, value: i32) {
        self.push(0xb7, destination, Self::NONE, 0, value);
    }

    /// `destination = value`, in two instructions.
    pub fn set_wide(&mut self, destination: Register, value: u64) {
        self.push(0x18, destination, Self::NONE, 0, value as u32 as i32);
        self.push(0, Self::NONE, Self::NONE, 0, (value >> 32) as u32 as i32);
    }

    /// `destination = map`, in two instructions: the first argument of helpers for maps.
    pub fn set_map(&mut self, destination: Register, map: &Map) {
        self.set_map_descriptor(destination, map.as_raw_fd());
    }

    /// `destination = map` with this file descriptor.
    pub fn set_map_descriptor(&mut self, destination: Register, descriptor: i32) {
        const PSEUDO_MAP_FD: Register = Register(1);
        self.push(0x18, destination, PSEUDO_MAP_FD, 0, descriptor);
        self.push(0, Self::NONE, Self::NONE, 0, 0);
    }

    /// `destination += value`.
    pub fn add(&mut self, destination: Register, value: i32) {
        self.push(0x07, destination, Self::NONE, 0, value);
    }

    /// `destination += source`.
    pub fn add_register(&mut self, destination: Register, source: Register) {
        self.push(0x0f, destination, source, 0, 0);
    }

    /// `destination *= value`, with the sign of the value.
    pub fn multiply(&mut self, destination: Register, value: i32) {
        self.push(0x27, destination, Self::NONE, 0, value);
    }

    /// `destination &= value`, with the sign of the value.
    pub fn and(&mut self, destination: Register, value: i32) {
        self.push(0x57, destination, Self::NONE, 0, value);
    }

    /// `destination |= source`.
    pub fn or(&mut self, destination: Register, source: Register) {
        self.push(0x4f, destination, source, 0, 0);
    }

    /// `destination <<= bits`.
    pub fn shift_left(&mut self, destination: Register, bits: i32) {
        self.push(0x67, destination, Self::NONE, 0, bits);
    }

    /// `destination >>= bits`, without sign.
    pub fn shift_right(&mut self, destination: Register, bits: i32) {
        self.push(0x77, destination, Self::NONE, 0, bits);
    }

    /// `destination %= source`, for 32 bits without sign.
    pub fn modulo(&mut self, destination: Register, source: Register) {
        self.push(0x9c, destination, source, 0, 0);
    }

    /// Does an operation of 32 bits on two registers. The upper half of the destination becomes 0.
    pub fn word(&mut self, operation: WordOperation, destination: Register, source: Register) {
        self.push(0x0c | operation as u8, destination, source, 0, 0);
    }

    /// Rotates 32 bits to the left, from 1 to 31, in five instructions: `destination` gets the rotated `source`, and
    /// `scratch` is overwritten.
    pub fn rotate(&mut self, destination: Register, source: Register, bits: i32, scratch: Register) {
        const SHIFT_LEFT: u8 = 0x64;
        const SHIFT_RIGHT: u8 = 0x74;
        self.word(WordOperation::Copy, destination, source);
        self.word(WordOperation::Copy, scratch, source);
        self.push(SHIFT_LEFT, destination, Self::NONE, 0, bits);
        self.push(SHIFT_RIGHT, scratch, Self::NONE, 0, 32 - bits);
        self.word(WordOperation::Or, destination, scratch);
    }

    /// Converts the low 16 bits of a register between the byte order of the host and that of the network. The other bits
    /// become 0.
    pub fn half_to_network(&mut self, register: Register) {
        self.push(0xdc, register, Self::NONE, 0, 16);
    }

    /// Calls a helper. Its result is in R0.
    pub fn call(&mut self, helper: Helper) {
        self.push(0x85, Self::NONE, Self::NONE, 0, helper as i32);
    }

    /// Jumps to a label.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x05, Self::NONE, Self::NONE, 0, 0);
    }

    /// Jumps if a register compares to a value, with the sign of the value.
    pub fn jump_if(&mut self, condition: Condition, register: Register, value: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x05 | condition.code(), register, Self::NONE, 0, value);
    }

    /// Jumps if two registers compare.
    pub fn jump_if_register(&mut self, condition: Condition, left: Register, right: Register, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(0x0d | condition.code(), left, right, 0, 0);
    }

    /// Ends the program with the result in R0.
    pub fn exit(&mut self) {
        self.push(0x95, Self::NONE, Self::NONE, 0, 0);
    }

    /// Resolves the labels and returns the program.
    ///
    /// # Errors
    ///
    /// [`AssemblyError`] if a label is not placed, a jump leads backwards, or the program is too long.
    pub fn finish(mut self) -> Result<Vec<Instruction>, AssemblyError> {
        if self.instructions.len() > INSTRUCTIONS_MAX {
            return Err(AssemblyError::Long(self.instructions.len()));
        }
        for (at, label) in &self.jumps {
            let place = self.places.get(label.0).copied().flatten();
            let place = place.ok_or(AssemblyError::Unbound(label.0))?;
            let distance = place.checked_sub(at + 1).ok_or(AssemblyError::Jump(*at))?;
            if let Some(instruction) = self.instructions.get_mut(*at) {
                instruction.offset = distance.try_into().map_err(|_| AssemblyError::Jump(*at))?;
            }
        }
        Ok(self.instructions)
    }

    fn push(&mut self, code: u8, destination: Register, source: Register, offset: i16, immediate: i32) {
        let instruction = Instruction::new(code, destination, source, offset, immediate);
        self.instructions.push(instruction);
    }
}

#[cfg(test)]
mod tests;
