//! Attacks on the binary under test over the network, one module for each attacker of `docs/security.md`.
//! Each test expects that the attack fails.

mod access;
mod editor;
#[path = "../multi_node/lab.rs"]
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod lab;
mod neighbour;
mod node;
mod pod;
#[path = "../support/mod.rs"]
mod support;
mod wire;
mod without_credentials;
