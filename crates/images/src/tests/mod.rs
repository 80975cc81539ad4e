//! Images that the tests of the crate share.

pub(crate) mod test_images;
