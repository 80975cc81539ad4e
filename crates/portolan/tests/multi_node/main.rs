//! Clusters of several nodes, each in a network namespace: join, Pod network, removal, failures and load balancing.

mod buckets;
mod echo_server;
mod failover;
mod ingress;
mod joining;
mod load_balancer;
mod servers;
mod test_cluster;
mod upgrading;
