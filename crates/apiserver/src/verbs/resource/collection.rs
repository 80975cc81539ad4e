//! Deletecollection: a list, and a delete of each.

use super::Resources;
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::query::{DeleteOptions, ListOptions};
use crate::request::route::Target;
use crate::verbs::page::Page;

impl Resources {
    /// Deletes the selected objects, and gives them as they were. Those that somebody else removes meanwhile do not
    /// count as errors. Without a requester the server deletes of its own accord.
    pub(crate) async fn delete_collection(
        &self,
        target: &Target,
        options: &DeleteOptions,
        selection: &ListOptions,
        requester: Option<&Identity>,
    ) -> Result<Page, Failure> {
        let page = self.list(target, selection).await?;
        for entry in &page.entries {
            let one = Target::at_key(target.kind, &entry.key);
            if let Some(requester) = requester {
                let index = self.store.index();
                self.admission.admit_delete(index, &one, requester)?;
            }
            match self.delete_object(&one, options).await {
                Ok(_) => {}
                Err(failure) if failure.code() == http::StatusCode::NOT_FOUND => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(page)
    }
}
