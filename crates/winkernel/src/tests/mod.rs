//! Host and plans that the tests of the crate share.

pub(crate) mod fake_host;
pub(crate) mod test_plans;
