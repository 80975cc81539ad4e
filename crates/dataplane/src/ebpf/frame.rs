//! Stack frame of the programs, and the instructions that use it.

use netlink::bpf::{Assembler, Helper, R1, R2, R10, Register};

use super::layout::SOCKET_BYTES;

/// Place of the frontend. Frontend and endpoint are the value of a connection.
pub(super) const FRONTEND: i16 = -48;
/// Place of the endpoint.
pub(super) const ENDPOINT: i16 = -24;
/// Place of the key of an endpoint.
pub(super) const ENDPOINT_KEY: i16 = -56;
/// Place of the number of the socket.
pub(super) const COOKIE: i16 = -64;
/// Place of the number of a counter.
pub(super) const COUNTER: i16 = -72;
/// First of the places of events, below those above.
pub(super) const EVENTS: i16 = COUNTER;

/// Looks up the key at a place in the stack frame. R0 is a pointer to the value, or 0.
pub(super) fn look_up(program: &mut Assembler, map: i32, key: i16) {
    program.set_map_descriptor(R1, map);
    set_stack_pointer(program, R2, key);
    program.call(Helper::Lookup);
}

/// Sets a register to the address of a place in the stack frame.
pub(super) fn set_stack_pointer(program: &mut Assembler, register: Register, place: i16) {
    program.copy(register, R10);
    program.add(register, place.into());
}

/// Returns the offsets of the 64-bit parts of an address with port.
pub(super) fn double_words() -> impl Iterator<Item = i16> {
    (0..SOCKET_BYTES as i16).step_by(8)
}
