//! Sessions with BIRD, FRR and GoBGP in a network of namespaces, with an API server and an assigner.

mod bird;
mod bird_sessions;
mod fixture;
mod frr;
mod frr_sessions;
mod gobgp;
mod gobgp_sessions;
mod router;
#[path = "../../../balancer/tests/support/mod.rs"]
mod support;
mod vrf_sessions;
