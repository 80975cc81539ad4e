//! Implements `deletecollection`: lists the objects and deletes each.

use super::Resources;
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::query::{DeleteOptions, ListOptions};
use crate::request::route::Target;
use crate::verbs::page::Page;

impl Resources {
    /// Deletes the selected objects and returns them as they were. Objects that were deleted concurrently are
    /// skipped. Admission is skipped without a requester, which means the server itself. `reserve` reserves the memory of the
    /// response before the first deletion.
    pub(crate) async fn delete_collection(
        &self,
        target: &Target,
        options: &DeleteOptions,
        selection: &ListOptions,
        requester: Option<&Identity>,
        reserve: impl FnOnce(&Page) -> Result<(), Failure>,
    ) -> Result<Page, Failure> {
        let page = self.list(target, selection).await?;
        reserve(&page)?;
        for entry in &page.entries {
            let one = Target::at_key(target.kind, &entry.key);
            if let Some(requester) = requester {
                let index = self.store.index();
                self.admission.admit_delete(index, &one, requester)?;
                if !options.dry_run {
                    self.count_deletion(&one, requester)?;
                }
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
