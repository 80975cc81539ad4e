//! Plans that the tests of the data planes share.

pub(crate) mod test_plans;
