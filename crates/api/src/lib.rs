//! The pure core of the Kubernetes API as Portolan serves it: kinds, field errors, defaulting,
//! validation, selectors, patches and printing. No sockets, no clock, no runtime.
//!
//! The stored truth of an object is its JSON tree ([`serde_json::Value`]): [`decode`] brings a client's text into the
//! shape of the [`schema`], and from there on no field is lost. The structs in [`object`] are lean views that read
//! only what a component needs.

pub mod address_pool;
pub mod announcers;
pub mod apply;
pub mod apps;
pub mod bootstrap_token;
pub mod certificates;
pub mod configuration;
pub mod decode;
pub mod discovery;
pub mod edge_secret;
pub mod encode;
pub mod endpoints;
pub mod event;
pub mod field;
pub mod ip;
pub mod kind;
pub mod metadata;
pub mod names;
pub mod network;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod pod;
pub mod pod_security;
mod ports;
pub mod protobuf;
pub mod rbac;
pub mod scale;
pub mod schema;
pub mod selector;
pub mod service;
pub mod table;
pub mod tree;
