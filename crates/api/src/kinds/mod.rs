//! The served kinds and their rules. [`kind`] lists the kinds; [`object`] holds the typed views that components read.
//!
//! Each other module has the rules of one kind or group of kinds, as functions on JSON trees. They set defaults,
//! validate objects and updates, and reset the fields that a client cannot set. A rule cites its row of the feature
//! table (`VAL-12`) and uses the wording of upstream's message.

pub mod address_pool;
pub mod announcers;
pub mod apps;
pub mod batch;
pub mod bootstrap_token;
pub mod certificates;
mod condition;
pub mod configuration;
pub mod edge_secret;
pub mod endpoints;
pub mod event;
pub mod ingress;
pub mod kind;
pub mod lease;
pub mod multicluster;
pub mod network;
pub mod object;
pub mod pod;
pub mod pod_security;
mod ports;
pub mod rbac;
pub mod resource_metrics;
pub mod scale;
pub mod service;
