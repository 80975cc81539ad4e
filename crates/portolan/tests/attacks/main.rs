//! Attacks on the real binary, one module an attacker. Each test plays an attack as the attacker would, over the network, and
//! expects its refusal.

mod access;
mod editor;
#[path = "../machines/lab.rs"]
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod lab;
mod neighbour;
mod nobody;
mod node;
mod pod;
#[path = "../support/mod.rs"]
mod support;
mod wire;
