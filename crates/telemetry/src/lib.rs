//! What components tell about themselves: health and metrics, over a small HTTP server and in Prometheus'
//! text format.

mod histogram;
mod http;
mod text;

pub use crate::http::{Answer, Respond, accept_each, listen, serve};
pub use histogram::Histogram;
pub use text::{Counted, Text};
