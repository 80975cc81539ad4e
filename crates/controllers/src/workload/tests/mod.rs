//! Model that the tests of the workload controllers share.

pub(crate) mod model;
