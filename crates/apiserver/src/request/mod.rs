//! A request as data: path, query and accepted media types, parsed once into a [`request_info::RequestInfo`].
//!
//! Access control and the verbs use this data, and do not parse the URL again.

pub(crate) mod negotiation;
pub(crate) mod query;
pub(crate) mod request_info;
pub(crate) mod route;
pub(crate) mod verb;
