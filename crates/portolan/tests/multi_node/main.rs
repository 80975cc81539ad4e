//! Clusters of several nodes, each in a network namespace: join, Pod network, removal, failures and load balancing.

mod balanced;
mod buckets;
mod frozen;
mod greeter;
mod ingress;
mod joining;
mod lab;
mod servers;
mod upgrading;
