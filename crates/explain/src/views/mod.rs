//! Objects as the rules read them. Invalid fields read as absent.

mod endpoint_slice;
mod endpoints;
mod event;
mod fields;
mod network_policy;
mod node;
mod pod;
mod route;
mod service;
mod workload;

pub(crate) use endpoint_slice::{Endpoint, EndpointSlice, SERVICE_NAME_LABEL};
pub(crate) use endpoints::Endpoints;
pub(crate) use event::Event;
pub(crate) use fields::{list, text};
pub(crate) use network_policy::{Direction, NetworkPolicy, PolicyRule};
pub(crate) use node::Node;
pub(crate) use pod::{ContainerPort, Pod};
pub(crate) use route::{Backend, Route};
pub(crate) use service::{Port, Service, Target};
pub(crate) use workload::Workload;
