//! What the tests of the endpoint controllers share.

pub(crate) mod fixtures;
