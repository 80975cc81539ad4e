//! The node's decisions: from Services, EndpointSlices and this Node to what must happen to any
//! packet, without I/O. Every dataplane writes this down in its own language; tests send real packets
//! and compare with [`Plan::decide`].

mod types;

pub use types::{
    Backend, Changes, Family, Frontend, FrontendKind, Origin, PortKey, ServicePortPlan, Set, Target,
};
