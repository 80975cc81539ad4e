//! HTTP listeners of the edge over loopback: bytes in at one end, and bytes out at the other.

mod backend;
mod bandwidth;
mod client;
mod draining;
mod faults;
mod forwarding;
mod http2;
mod http2_backends;
mod informational;
mod interruptions;
mod logging;
mod pooling;
mod rejections;
mod routing;
mod served;
mod session_affinity;
mod status;
mod tls;
mod upgrades;
