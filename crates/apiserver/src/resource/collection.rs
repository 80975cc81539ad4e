//! Deletecollection: a list, and a delete of each.

use super::Resources;
use super::list::Page;
use crate::failure::Failure;
use crate::query::{DeleteOptions, ListOptions};
use crate::route::Target;

impl Resources {
    /// Deletes the selected objects, and gives them as they were. Those that somebody else removes meanwhile do not
    /// count as errors.
    pub(crate) async fn delete_collection(
        &self,
        target: &Target,
        options: &DeleteOptions,
        selection: &ListOptions,
    ) -> Result<Page, Failure> {
        let page = self.list(target, selection).await?;
        for entry in &page.entries {
            let mut segments = entry.key.rsplit('/');
            let (name, namespace) = (segments.next(), segments.next());
            let one = Target {
                kind: target.kind,
                namespace: namespace.filter(|_| target.kind.namespaced).map(str::to_owned),
                name: name.map(str::to_owned),
                subresource: None,
                is_watch_path: false,
            };
            match self.delete_object(&one, options).await {
                Ok(_) => {}
                Err(failure) if failure.code() == http::StatusCode::NOT_FOUND => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(page)
    }
}
