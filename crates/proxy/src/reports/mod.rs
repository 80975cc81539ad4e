//! Reports of the proxy about its own state, and about Services.
//!
//! - [`faults`], [`events`]: faults of Services; Events about Services and the Node
//! - [`metrics`]: metrics under the names of kube-proxy
//! - [`traffic`]: connections and bytes of each Service, read from connection tracking on request
//! - [`debug_pages`]: pages `/statusz` and `/flagz`

pub(crate) mod debug_pages;
pub(crate) mod events;
pub(crate) mod faults;
pub(crate) mod metrics;
pub(crate) mod traffic;
