//! Connections and HTTP messages: TCP, TLS and HTTP below; bodies of requests, and responses with their
//! encodings, above.

pub(crate) mod compression;
pub(crate) mod connection;
pub(crate) mod forwarded_body;
pub(crate) mod html;
pub(crate) mod listener;
pub(crate) mod long_running;
pub(crate) mod request_body;
pub(crate) mod response;
pub(crate) mod tls;
