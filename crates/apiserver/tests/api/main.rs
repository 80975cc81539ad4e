//! The API over HTTPS, against a whole server with a store on disk.

mod address_pools;
mod applies;
mod audit;
mod authentication;
mod authorization;
mod deletes;
mod events;
mod forms;
mod harness;
mod limits;
mod lists;
mod namespaces;
mod pod_security;
mod proxy;
mod repairs;
mod robustness;
mod service_accounts;
mod services;
mod start;
mod watches;
mod workloads;
mod writes;
