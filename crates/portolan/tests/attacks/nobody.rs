//! A host that reaches the port of the API, without credentials.

mod http2_floods;
mod silent_connections;
