//! The edge's listeners for HTTP, over loopback: bytes in at one end, and what comes out at the other.

mod backend;
mod bandwidth;
mod client;
mod cut_off;
mod draining;
mod faults;
mod forwarding;
mod http2;
mod http2_backends;
mod interim;
mod logging;
mod pooling;
mod refusing;
mod served;
mod status;
mod sticking;
mod tls;
mod upgrading;
