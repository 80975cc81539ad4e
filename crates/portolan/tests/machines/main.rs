//! Several machines, each a network namespace: they join, their Pods reach each other, they leave and die; and they balance
//! load.

mod balanced;
mod buckets;
mod frozen;
mod greeter;
mod joining;
mod lab;
mod servers;
mod upgrading;
