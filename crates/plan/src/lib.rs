//! Plan of a node: the decisions about all packets, derived from Services, EndpointSlices and the Node. The crate
//! performs no I/O. Data planes implement the plan; tests send real packets and compare the results with
//! [`Plan::decide`].
//!
//! Objects are applied one by one ([`Plan::apply_service`], [`Plan::apply_slice`] …). [`Plan::take_changes`] updates
//! the decisions and returns the Services whose decisions changed. The cost of an event depends on its Service only,
//! not on the number of Services.
//!
//! - `service`, `slice`: compact records of objects, with their faults
//! - `choice`: endpoint choice (EPT rules)
//! - `claims`: ownership of frontends that several Services claim
//! - `ports`: decisions for each Service port as [`ServicePortPlan`]s: frontends, endpoint sets, masquerading
//! - `port_ranges`: the annotation for port ranges
//! - `pings`: answers to echo requests
//! - `decide`: decision about a packet
//! - `departed_endpoints`: endpoints that left without termination
//! - `outline`: endpoint choice of each Service port, for terminals and comparisons
//!
//! ```
//! use plan::{Plan, Settings};
//!
//! let mut plan = Plan::new(Settings {
//!     node_name: "node-a".to_owned(),
//!     ..Settings::default()
//! });
//! let changes = plan.take_changes();
//! assert!(changes.needs_full_write && plan.services().next().is_none());
//! ```

mod address;
mod choice;
mod claims;
mod decide;
mod departed_endpoints;
mod fault;
mod interner;
mod limits;
mod outline;
mod pings;
mod plan;
mod port_ranges;
mod ports;
mod service;
mod settings;
mod slice;
mod types;

pub use decide::{Choice, Decision, Packet, PingDecision, Verdict};
pub use departed_endpoints::DepartedEndpoint;
pub use fault::Fault;
pub use outline::Outline;
pub use plan::Plan;
pub use port_ranges::{PORT_RANGES_ANNOTATION, PORT_RANGES_MAX, PortRange, PortRanges};
pub use service::TWO_TIER_ANNOTATION;
pub use settings::{InterfaceName, InterfaceNameError, NodeFacts, NodePortAddresses, PodDetection, Settings};
pub use types::{
    Backend, Changes, EndpointSet, Family, Frontend, FrontendKind, HealthCheck, IpvsScheduler, Origin,
    PingPlan, PortKey, Scheduler, ServicePortPlan, ServingNode, Target, Totals, WithdrawnFrontend,
};
