//! Several machines, each a network namespace: they join, their Pods reach each other, they leave and die.

mod joining;
mod lab;
mod servers;
