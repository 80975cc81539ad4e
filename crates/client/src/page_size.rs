//! Number of objects in a page of a list.

use crate::error::ClientError;

/// Bytes of a page up to which the next one may have more objects.
const GROWTH_BYTES_MAX: usize = 8 << 20;

/// Number of objects that a client requests in a page of a list.
///
/// A response is bounded in size. Large objects need smaller pages. Otherwise a user who stores several hundred of them
/// makes all lists of the kind fail, for the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    objects: usize,
    objects_max: usize,
}

impl PageSize {
    /// Starts with pages of this many objects, which is also the maximum.
    pub fn new(objects_max: usize) -> Self {
        Self {
            objects: objects_max,
            objects_max,
        }
    }

    /// Returns the number of objects to request: the parameter `limit`.
    pub fn objects(self) -> usize {
        self.objects
    }

    /// Reduces the size after a page that was too large. Returns true if the same page is to be requested again.
    #[must_use]
    pub fn shrink(&mut self, error: &ClientError) -> bool {
        let can_shrink = matches!(error, ClientError::TooLarge { .. }) && self.objects > 1;
        if can_shrink {
            self.objects = (self.objects / 4).max(1);
        }
        can_shrink
    }

    /// Enlarges the size after a small page.
    pub fn grow(&mut self, page_bytes: usize) {
        if page_bytes <= GROWTH_BYTES_MAX {
            self.objects = self.objects.saturating_mul(2).min(self.objects_max);
        }
    }
}

#[cfg(test)]
mod tests;
