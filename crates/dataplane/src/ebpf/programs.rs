//! The eBPF programs. They run in the process of the client, with `struct bpf_sock_addr` of `linux/bpf.h` as context.
//!
//! The kernel may reuse a deleted element of a map at once, while a program reads it. A program therefore reads the
//! frontend again after it has read the endpoint. An unchanged [`PackedGeneration`](super::layout::PackedGeneration)
//! proves that frontend and endpoint belong together. Endpoints of a generation are deleted only after the frontend
//! has another one.

use netlink::bpf::{
    Assembler, AssemblyError, Condition, Helper, Hook, Instruction, Label, R0, R1, R2, R3, R4, R6, R7, R8,
    R10, Register, Width,
};

use super::event_program::{EventDescriptors, Outcome, report};
use super::frame::{
    COOKIE, COUNTER, ENDPOINT, ENDPOINT_KEY, FRONTEND, double_words, look_up, set_stack_pointer,
};
use super::layout::{COUNT_BITS, COUNTER_OFFSET, ENDPOINTS_MAX, PORT_OFFSET, SOCKET_BYTES};

// Offsets in `struct bpf_sock_addr`.
const USER_IP4: i16 = 4;
const USER_IP6: i16 = 8;
const USER_PORT: i16 = 24;
const SOCKET_TYPE: i16 = 32;
const SOCKET_PROTOCOL: i16 = 36;
// Offsets in `struct bpf_sock`.
const RELEASED_TYPE: i16 = 8;
const RELEASED_PROTOCOL: i16 = 12;

/// Offset of the counter of refused connections; accepted ones precede it.
const REFUSED_OFFSET: i16 = 8;
/// Result that permits the system call.
const PERMIT: i32 = 1;
/// Result that refuses it.
const REFUSE: i32 = 0;
/// Attempts to read a frontend that changes meanwhile. After the last one the packets take the nftables rules.
const ATTEMPTS: usize = 3;

/// File descriptors of the maps.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapDescriptors {
    /// [`Shapes::frontends`](super::layout::Shapes::frontends).
    pub frontends: i32,
    /// [`Shapes::endpoints`](super::layout::Shapes::endpoints).
    pub endpoints: i32,
    /// [`Shapes::connections`](super::layout::Shapes::connections).
    pub connections: i32,
    /// [`Shapes::counters`](super::layout::Shapes::counters).
    pub counters: i32,
    /// Maps for events; `None` if the kernel has no rings, or the program may not report.
    pub events: Option<EventDescriptors>,
}

/// Variants of the programs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    /// Cookie of the only network namespace whose clients are served; `None` for all.
    pub only_namespace: Option<u64>,
    /// True if the kernel has `bpf_set_retval`. Otherwise there are no frontends without endpoints.
    pub can_refuse: bool,
}

/// Family of the addresses in the context.
#[derive(Clone, Copy)]
enum Addresses {
    V4,
    V6,
}

/// Returns the program of a hook.
///
/// # Errors
///
/// [`AssemblyError`], which is a defect.
pub(super) fn program(
    hook: Hook,
    maps: MapDescriptors,
    variant: Variant,
) -> Result<Vec<Instruction>, AssemblyError> {
    match hook {
        Hook::Connect4 => connect(Addresses::V4, maps, variant),
        Hook::Connect6 => connect(Addresses::V6, maps, variant),
        Hook::PeerName4 => peer_name(Addresses::V4, maps),
        Hook::PeerName6 => peer_name(Addresses::V6, maps),
        Hook::Release => release(maps),
    }
}

/// Replaces the address of a frontend by that of an endpoint when a TCP socket connects.
fn connect(
    addresses: Addresses,
    maps: MapDescriptors,
    variant: Variant,
) -> Result<Vec<Instruction>, AssemblyError> {
    let mut program = Assembler::new();
    let (permit, refuse, chosen) = (program.label(), program.label(), program.label());
    program.copy(R6, R1);
    require_tcp(&mut program, SOCKET_TYPE, SOCKET_PROTOCOL, permit);
    if let Some(cookie) = variant.only_namespace {
        program.copy(R1, R6);
        program.call(Helper::NamespaceCookie);
        program.set_wide(R1, cookie);
        program.jump_if_register(Condition::NotEqual, R0, R1, permit);
    }
    read_address(&mut program, addresses, FRONTEND);
    for _ in 0..ATTEMPTS {
        choose(&mut program, maps, permit, refuse, chosen);
    }
    program.jump(permit);

    program.bind(chosen);
    record(&mut program, maps, permit);
    count(&mut program, maps, 0);
    if let Some(events) = maps.events {
        report(&mut program, events, Outcome::Chosen);
    }
    write_address(&mut program, addresses, ENDPOINT);
    program.bind(permit);
    program.set(R0, PERMIT);
    program.exit();

    program.bind(refuse);
    if variant.can_refuse {
        count(&mut program, maps, REFUSED_OFFSET);
        if let Some(events) = maps.events {
            report(&mut program, events, Outcome::Refused);
        }
        program.set(R1, -libc::ECONNREFUSED);
        program.call(Helper::SetResult);
    }
    program.set(R0, REFUSE);
    program.exit();
    program.finish()
}

/// Continues only for TCP sockets; the context is in R6.
fn require_tcp(program: &mut Assembler, socket_type: i16, protocol: i16, otherwise: Label) {
    program.load(Width::Word, R1, R6, socket_type);
    program.jump_if(Condition::NotEqual, R1, libc::SOCK_STREAM, otherwise);
    program.load(Width::Word, R1, R6, protocol);
    program.jump_if(Condition::NotEqual, R1, libc::IPPROTO_TCP, otherwise);
}

/// One attempt: reads the frontend, chooses an endpoint at random, and checks that the frontend is still the same.
/// Goes on if it is not.
fn choose(program: &mut Assembler, maps: MapDescriptors, permit: Label, refuse: Label, chosen: Label) {
    let (check, changed) = (program.label(), program.label());
    let (packed, endpoint_count) = (R7, R8);
    look_up(program, maps.frontends, FRONTEND);
    program.jump_if(Condition::Equal, R0, 0, permit);
    program.load(Width::Double, packed, R0, 0);
    program.load(Width::Word, R1, R0, COUNTER_OFFSET as i16);
    program.store(Width::Word, R10, COUNTER, R1);
    program.copy(endpoint_count, packed);
    program.and(endpoint_count, ENDPOINTS_MAX as i32);
    program.jump_if(Condition::Equal, endpoint_count, 0, check);

    program.call(Helper::Random);
    program.modulo(R0, endpoint_count);
    program.copy(R1, packed);
    program.shift_right(R1, COUNT_BITS as i32);
    program.shift_left(R1, COUNT_BITS as i32);
    program.or(R1, R0);
    program.store(Width::Double, R10, ENDPOINT_KEY, R1);
    look_up(program, maps.endpoints, ENDPOINT_KEY);
    program.jump_if(Condition::Equal, R0, 0, changed);
    copy_socket(program, R0, 0, ENDPOINT);

    program.bind(check);
    look_up(program, maps.frontends, FRONTEND);
    program.jump_if(Condition::Equal, R0, 0, changed);
    program.load(Width::Double, R1, R0, 0);
    program.jump_if_register(Condition::NotEqual, R1, packed, changed);
    program.jump_if(Condition::Equal, endpoint_count, 0, refuse);
    program.jump(chosen);
    program.bind(changed);
}

/// Records frontend and endpoint of the socket. Without room the packets take the nftables rules.
fn record(program: &mut Assembler, maps: MapDescriptors, no_room: Label) {
    program.copy(R1, R6);
    program.call(Helper::SocketCookie);
    program.store(Width::Double, R10, COOKIE, R0);
    program.set_map_descriptor(R1, maps.connections);
    set_stack_pointer(program, R2, COOKIE);
    set_stack_pointer(program, R3, FRONTEND);
    program.set(R4, 0);
    program.call(Helper::Update);
    program.jump_if(Condition::NotEqual, R0, 0, no_room);
}

/// Adds one to a counter of this CPU.
fn count(program: &mut Assembler, maps: MapDescriptors, offset: i16) {
    let absent = program.label();
    look_up(program, maps.counters, COUNTER);
    program.jump_if(Condition::Equal, R0, 0, absent);
    program.load(Width::Double, R1, R0, offset);
    program.add(R1, 1);
    program.store(Width::Double, R0, offset, R1);
    program.bind(absent);
}

/// Replaces the address of the endpoint by that of the frontend when a program requests the peer of its socket. Some
/// clients, as those of Ceph, compare the peer with the address to which they connected.
fn peer_name(addresses: Addresses, maps: MapDescriptors) -> Result<Vec<Instruction>, AssemblyError> {
    let mut program = Assembler::new();
    let permit = program.label();
    program.copy(R6, R1);
    program.call(Helper::SocketCookie);
    program.store(Width::Double, R10, COOKIE, R0);
    look_up(&mut program, maps.connections, COOKIE);
    program.jump_if(Condition::Equal, R0, 0, permit);
    program.copy(R7, R0);
    // A socket may have connected elsewhere since.
    read_address(&mut program, addresses, ENDPOINT);
    for offset in double_words() {
        program.load(Width::Double, R1, R7, SOCKET_BYTES as i16 + offset);
        program.load(Width::Double, R2, R10, ENDPOINT + offset);
        program.jump_if_register(Condition::NotEqual, R1, R2, permit);
    }
    copy_socket(&mut program, R7, 0, FRONTEND);
    write_address(&mut program, addresses, FRONTEND);
    program.bind(permit);
    program.set(R0, PERMIT);
    program.exit();
    program.finish()
}

/// Removes the connection of a socket that ends; the context is `struct bpf_sock`.
fn release(maps: MapDescriptors) -> Result<Vec<Instruction>, AssemblyError> {
    let mut program = Assembler::new();
    let permit = program.label();
    program.copy(R6, R1);
    require_tcp(&mut program, RELEASED_TYPE, RELEASED_PROTOCOL, permit);
    program.copy(R1, R6);
    program.call(Helper::SocketCookie);
    program.store(Width::Double, R10, COOKIE, R0);
    program.set_map_descriptor(R1, maps.connections);
    set_stack_pointer(&mut program, R2, COOKIE);
    program.call(Helper::Delete);
    program.bind(permit);
    program.set(R0, PERMIT);
    program.exit();
    program.finish()
}

/// Copies the address of the context, which is in R6, to the stack frame.
fn read_address(program: &mut Assembler, addresses: Addresses, place: i16) {
    match addresses {
        Addresses::V4 => {
            const MAPPED: i32 = i32::from_ne_bytes([0, 0, 0xff, 0xff]);
            program.store_value(Width::Double, R10, place, 0);
            program.store_value(Width::Word, R10, place + 8, MAPPED);
            program.load(Width::Word, R1, R6, USER_IP4);
            program.store(Width::Word, R10, place + 12, R1);
        }
        Addresses::V6 => {
            for offset in [0, 4, 8, 12] {
                program.load(Width::Word, R1, R6, USER_IP6 + offset);
                program.store(Width::Word, R10, place + offset, R1);
            }
        }
    }
    let port = place + PORT_OFFSET as i16;
    program.load(Width::Word, R1, R6, USER_PORT);
    program.store(Width::Half, R10, port, R1);
    program.store_value(Width::Half, R10, port + 2, 0);
    program.store_value(Width::Word, R10, port + 4, 0);
}

/// Copies an address from the stack frame to the context.
fn write_address(program: &mut Assembler, addresses: Addresses, place: i16) {
    match addresses {
        Addresses::V4 => {
            program.load(Width::Word, R1, R10, place + 12);
            program.store(Width::Word, R6, USER_IP4, R1);
        }
        Addresses::V6 => {
            for offset in [0, 4, 8, 12] {
                program.load(Width::Word, R1, R10, place + offset);
                program.store(Width::Word, R6, USER_IP6 + offset, R1);
            }
        }
    }
    program.load(Width::Half, R1, R10, place + PORT_OFFSET as i16);
    program.store(Width::Word, R6, USER_PORT, R1);
}

/// Copies an address with port to the stack frame.
fn copy_socket(program: &mut Assembler, from: Register, from_offset: i16, place: i16) {
    for offset in double_words() {
        program.load(Width::Double, R1, from, from_offset + offset);
        program.store(Width::Double, R10, place + offset, R1);
    }
}

#[cfg(test)]
mod tests;
