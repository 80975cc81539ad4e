//! `portolan doctor node`, observations through the API, and `portolan trace --live` on nodes in network namespaces, with faults
//! that are planted in the kernel and in processes.

#[path = "../multi_node/lab.rs"]
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod lab;
#[path = "../support/mod.rs"]
mod support;

mod faults;
mod live_trace;
mod machine;
mod through_api;
mod world;

use std::io::Write as _;
use std::net::TcpListener;

/// Environment variable with the address on which [`listener`] listens.
const LISTEN: &str = "DOCTOR_NODE_LISTEN";

/// Program that listens on an address until it is killed, for the other tests.
#[test]
#[ignore = "a program for the other tests"]
fn listener() {
    let Ok(address) = std::env::var(LISTEN) else {
        return;
    };
    let listener = TcpListener::bind(&address).expect("a listener");
    println!("listening on {address}");
    std::io::stdout().flush().expect("standard output");
    for stream in listener.incoming() {
        std::mem::forget(stream);
    }
}
