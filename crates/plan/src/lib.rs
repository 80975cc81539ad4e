//! The node's decisions: from Services, EndpointSlices and this Node to what must happen to any
//! packet, without I/O. Every dataplane writes this down in its own language; tests send real packets
//! and compare with [`Plan::decide`].
//!
//! Objects go in one by one ([`Plan::apply_service`], [`Plan::apply_slice`] …);
//! [`Plan::take_changes`] brings the decisions up to date and names the Services whose decisions
//! really changed. An event costs what its Service costs, whatever else there is.
//!
//! - `service`, `slice`: objects parsed once into compact records, with what is wrong in them
//! - `choice`: which endpoints are usable (FEATURES EPT)
//! - `claims`: who has a frontend that two Services want
//! - `ports`: records to [`ServicePortPlan`]s
//! - `decide`: one packet
//! - `outline`: what was chosen for each Service port, for people

mod address;
mod choice;
mod claims;
mod decide;
mod fault;
mod intern;
mod outline;
mod plan;
mod ports;
mod service;
mod settings;
mod slice;
mod types;

pub use decide::{Choice, Decision, Packet, Verdict};
pub use fault::Fault;
pub use outline::Outline;
pub use plan::Plan;
pub use settings::{InterfaceName, InterfaceNameError, NodeFacts, NodePortAddresses, PodDetection, Settings};
pub use types::{
    Backend, Changes, Family, Frontend, FrontendKind, HealthCheck, Origin, PortKey, Scheduler,
    ServicePortPlan, Set, Target, Totals, Withdrawn,
};
