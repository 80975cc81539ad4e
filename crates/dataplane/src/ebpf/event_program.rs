//! The part of a program that reports a connection to the reader of events. Without a request, it reads one element of
//! a map.

use netlink::bpf::{Assembler, Condition, Helper, R0, R1, R2, R3, R4, R6, R7, R10, Width};

use super::events::{
    CONTROL_GROUP_OFFSET, ENDPOINT_OFFSET, EVENT_BYTES, FRONTEND_OFFSET, NAMESPACE_OFFSET, OUTCOME_OFFSET,
    SOCKET_OFFSET, TIME_OFFSET,
};
use super::frame::{ENDPOINT, EVENTS, FRONTEND, double_words, look_up, set_stack_pointer};

/// Place of the event in the stack frame.
const EVENT: i16 = EVENTS - EVENT_BYTES as i16;
/// Place of the key of the maps with one element.
const ONLY_KEY: i16 = EVENT - 8;

/// File descriptors of the maps for events.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventDescriptors {
    /// [`EventShapes::events`](super::layout::EventShapes::events).
    pub events: i32,
    /// [`EventShapes::requests`](super::layout::EventShapes::requests).
    pub requests: i32,
    /// [`EventShapes::losses`](super::layout::EventShapes::losses).
    pub losses: i32,
}

/// Result of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Outcome {
    /// The endpoint is in the stack frame.
    Chosen = 0,
    /// The Service has no endpoint.
    Refused = 1,
}

/// Appends an event if a reader requests events. The context is in R6; this overwrites R0 to R5 and R7.
pub(super) fn report(program: &mut Assembler, maps: EventDescriptors, outcome: Outcome) {
    let done = program.label();
    program.store_value(Width::Double, R10, ONLY_KEY, 0);
    look_up(program, maps.requests, ONLY_KEY);
    program.jump_if(Condition::Equal, R0, 0, done);
    program.load(Width::Double, R7, R0, 0);
    program.jump_if(Condition::Equal, R7, 0, done);
    program.call(Helper::NanosecondsSinceBoot);
    program.jump_if_register(Condition::Greater, R0, R7, done);

    program.store(Width::Double, R10, EVENT + TIME_OFFSET as i16, R0);
    for (helper, offset) in [
        (Helper::SocketCookie, SOCKET_OFFSET),
        (Helper::NamespaceCookie, NAMESPACE_OFFSET),
        (Helper::ControlGroup, CONTROL_GROUP_OFFSET),
    ] {
        program.copy(R1, R6);
        program.call(helper);
        program.store(Width::Double, R10, EVENT + offset as i16, R0);
    }
    for offset in double_words() {
        program.load(Width::Double, R1, R10, FRONTEND + offset);
        program.store(Width::Double, R10, EVENT + FRONTEND_OFFSET as i16 + offset, R1);
        let endpoint = EVENT + ENDPOINT_OFFSET as i16 + offset;
        match outcome {
            Outcome::Chosen => {
                program.load(Width::Double, R1, R10, ENDPOINT + offset);
                program.store(Width::Double, R10, endpoint, R1);
            }
            Outcome::Refused => program.store_value(Width::Double, R10, endpoint, 0),
        }
    }
    let at = EVENT + OUTCOME_OFFSET as i16;
    program.store_value(Width::Double, R10, at, outcome as i32);
    program.set_map_descriptor(R1, maps.events);
    set_stack_pointer(program, R2, EVENT);
    program.set(R3, EVENT_BYTES as i32);
    program.set(R4, 0);
    program.call(Helper::Append);
    program.jump_if(Condition::Equal, R0, 0, done);

    look_up(program, maps.losses, ONLY_KEY);
    program.jump_if(Condition::Equal, R0, 0, done);
    program.load(Width::Double, R1, R0, 0);
    program.add(R1, 1);
    program.store(Width::Double, R0, 0, R1);
    program.bind(done);
}
