//! The verb `get` of resources.

use bytes::Bytes;
use store::Revision;

use super::{Resources, check_readable};
use crate::failure::Failure;
use crate::request::query::{Query, version_of_query};
use crate::request::route::Target;

impl Resources {
    /// Reads the object of a path; returns its stored bytes.
    pub(crate) async fn get(&self, target: &Target, query: &Query) -> Result<Bytes, Failure> {
        let oldest = match query.text("resourceVersion") {
            "" => None,
            text => Some(version_of_query(text, false)?),
        };
        self.wait_for(oldest).await?;
        let entry = self.store.index().get(&target.key());
        let entry = entry.ok_or_else(|| Failure::not_found(target.kind, target.name()))?;
        check_readable(&entry)?;
        Ok(entry.value)
    }

    /// Waits until the index has the requested `resourceVersion`. Without one, waits for all acknowledged writes;
    /// with 0, does not wait.
    pub(super) async fn wait_for(&self, oldest: Option<Revision>) -> Result<(), Failure> {
        let index = self.store.index();
        match oldest {
            Some(Revision(0)) => Ok(()),
            Some(oldest) if oldest <= index.revision() => Ok(()),
            _ => {
                let current = self
                    .store
                    .read_barrier()
                    .await
                    .map_err(|error| Failure::of_read(&error))?;
                match oldest {
                    Some(oldest) if oldest > current => Err(Failure::version_too_large(oldest, current)),
                    _ => Ok(()),
                }
            }
        }
    }
}
