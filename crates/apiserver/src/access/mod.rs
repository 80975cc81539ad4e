//! Access to the API: authentication, rate and concurrency limits, authorization, and the audit log.

pub(crate) mod audit;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod filter;
pub(crate) mod flow_control;
