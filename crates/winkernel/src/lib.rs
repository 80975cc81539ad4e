//! Kernelspace mode of Windows: a [`Plan`](plan::Plan) as endpoints and load balancers of the Host Networking Service
//! (HNS). Names, flags and JSON are those of kube-proxy (WIN-01).
//!
//! The crate is pure except for `windows`, which compiles on Windows only. The crate has not run on Windows yet. No
//! subcommand uses it, because the other crates of the binary need Linux.
//!
//! - `schema`: JSON of the Host Compute Network API (HCN)
//! - `guid`, `mac`, `features`: identifiers, MAC addresses of remote endpoints, features of an HNS version
//! - `settings`, `network`: configuration of kube-proxy, and the HNS network that it names
//! - `endpoints`: endpoints of HNS by address
//! - `balancer`, `member_choice`, `flags`, `desired`: load balancers and endpoints of a plan
//! - `operations`: differences between desired and observed load balancers
//! - `reconcile`: one pass over HNS, through [`HostNetworkService`]
//! - `windows`: calls of `computenetwork.dll` and `vmcompute.dll`

mod balancer;
mod desired;
mod endpoints;
mod features;
mod flags;
mod guid;
mod mac;
mod member_choice;
mod network;
mod operations;
mod reconcile;
pub mod schema;
mod service;
mod settings;
#[cfg(test)]
mod tests;
#[cfg(windows)]
pub mod windows;

pub use balancer::{Balancer, BalancerKey, BalancerKind};
pub use desired::{Desired, NewEndpoint, Planner, preserves_destination};
pub use endpoints::EndpointIndex;
pub use features::Features;
pub use guid::{Guid, GuidError};
pub use mac::{MacAddress, MacAddressError};
pub use member_choice::{Fault, Member};
pub use network::{HnsNetwork, NetworkKind};
pub use operations::{Operation, ResolvedLoadBalancer, operations};
pub use reconcile::{Applied, Failure, ReconcileError, Reconciler};
pub use service::{HnsError, HostNetworkService};
pub use settings::{Settings, SettingsError};
