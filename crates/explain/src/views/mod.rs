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

pub use endpoint_slice::{Endpoint, EndpointSlice, SERVICE_NAME_LABEL};
pub use endpoints::Endpoints;
pub use event::Event;
pub use fields::{list, text};
pub use network_policy::{Direction, NetworkPolicy, PolicyRule};
pub use node::Node;
pub use pod::{ContainerPort, Pod};
pub use route::{Backend, Route};
pub use service::{Port, Service, Target};
pub use workload::Workload;
