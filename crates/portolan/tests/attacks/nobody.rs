//! A host that reaches the port of the API, without credentials.

mod silent_connections;
