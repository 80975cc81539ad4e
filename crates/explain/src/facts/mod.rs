//! Facts that several rules derive from objects and observations.
//!
//! - [`observed_node`], [`probes`], [`listeners`]: the observation of a node, its probes and its listeners
//! - [`service_plan`]: decisions of a node's plan about a Service
//! - [`pod_state`], [`loopback`], [`leader_election`]: reasons why Pods do not run, or do not serve at their addresses
//! - [`pools`], [`address_request`]: address pools, and the addresses that a Service requests
//! - [`references`], [`similar_names`]: names of Services in the configuration of clients, and names that resemble them

pub(crate) mod address_request;
pub(crate) mod leader_election;
pub(crate) mod listeners;
pub(crate) mod loopback;
pub(crate) mod observed_node;
pub(crate) mod pod_state;
pub(crate) mod pools;
pub(crate) mod probes;
pub(crate) mod references;
pub(crate) mod service_plan;
pub(crate) mod similar_names;
