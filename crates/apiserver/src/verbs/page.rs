//! Page of a collection: the result of a list.

use store::{Entry, Revision};

/// Page of a collection.
#[derive(Debug)]
pub(crate) struct Page {
    /// Objects, ascending by key.
    pub(crate) entries: Vec<Entry>,
    /// Revision of the whole collection.
    pub(crate) revision: Revision,
    /// Token of the next page; `None` on the last page.
    pub(crate) continue_token: Option<String>,
    /// Number of objects behind this page; `None` if it is not known without a scan.
    pub(crate) remaining: Option<usize>,
}
