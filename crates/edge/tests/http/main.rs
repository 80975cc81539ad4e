//! HTTP listeners of the edge over loopback: bytes in at one end, and bytes out at the other.

mod backend;
mod bandwidth;
mod client;
mod cut_off;
mod draining;
mod faults;
mod forwarding;
mod http2;
mod http2_backends;
mod informational;
mod logging;
mod pooling;
mod refusing;
mod routing;
mod served;
mod status;
mod sticking;
mod tls;
mod upgrading;
