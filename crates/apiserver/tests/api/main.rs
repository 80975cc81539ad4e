//! The API over HTTPS, against a whole server with a store on disk.

mod address_pools;
mod audit;
mod authentication;
mod authorization;
mod deletes;
mod events;
mod forms;
mod harness;
mod ingresses;
mod limits;
mod lists;
mod namespaces;
mod pod_security;
mod proxy;
mod repairs;
mod resource_metrics;
mod robustness;
mod server_side_apply;
mod service_accounts;
mod services;
mod start;
mod upstream_edges;
mod watches;
mod workloads;
mod writes;
