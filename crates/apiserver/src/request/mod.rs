//! A request as data: path, query and accepted media types, parsed once.

pub(crate) mod negotiation;
pub(crate) mod query;
pub(crate) mod route;
