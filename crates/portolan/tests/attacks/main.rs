//! Attacks on the binary under test over the network, one module for each attacker of `docs/security.md`.
//! Each test expects that the attack fails.

mod access;
mod editor;
mod neighbour;
mod node;
mod pod;
#[path = "../support/mod.rs"]
mod support;
#[path = "../multi_node/test_cluster.rs"]
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod test_cluster;
mod wire;
mod without_credentials;
