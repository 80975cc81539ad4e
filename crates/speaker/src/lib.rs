//! Announcing of load balancer IPs by BGP: the sessions of a node, configured by BGPPeers and BGPAdvertisements.
//!
//! | Module | Contents |
//! |---|---|
//! | [`configuration`] | BGPPeers, BGPAdvertisements, Communities and BFDProfiles of MetalLB and of Portolan |
//! | `routes` | routes of this node to each peer, from the objects of the cluster; no clock, no I/O |
//! | `metallb_status` | status objects of MetalLB |
//! | [`run()`] | event loop, sessions over TCP, BFD over UDP |
//! | [`report`] | metrics and status |
//!
//! The crate [`bgp`] contains the protocol. Each session is a task, so a slow or hostile peer delays only itself.

pub mod configuration;
mod metallb_status;
pub mod report;
mod routes;
mod run;

pub use report::{Metrics, Status};
pub use run::{Settings, SpeakerError, run};
