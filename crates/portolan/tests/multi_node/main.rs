//! Clusters of several nodes, each in a network namespace: join, Pod network, removal, failures and load balancing.

mod buckets;
mod failover;
mod greeter;
mod ingress;
mod joining;
mod lab;
mod load_balancer;
mod servers;
mod upgrading;
