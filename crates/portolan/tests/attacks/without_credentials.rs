//! Attacks of a client of the API server without credentials.

mod http2_floods;
mod silent_connections;
