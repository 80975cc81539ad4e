//! Fixtures of the tests of the endpoint controllers.

pub(crate) mod fixtures;
