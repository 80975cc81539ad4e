//! The user namespace of a Pod with `hostUsers: false`.

use std::sync::PoisonError;

use super::start::SandboxError;
use super::{Context, Worker};
use crate::user_namespaces::owners::PodUsers;
use crate::user_namespaces::ranges::IdRange;
use crate::user_namespaces::{Holder, UserNamespaceError};

impl Worker {
    /// Returns true if the Pod asks for its own user namespace.
    pub(super) fn wants_users(&self) -> bool {
        self.pod.spec.host_users == Some(false)
    }

    /// Creates the user namespace of a Pod with `hostUsers: false`. The Pod keeps its IDs until it ends.
    pub(super) async fn create_user_namespace(&mut self) -> Result<Option<Holder>, SandboxError> {
        if !self.wants_users() {
            return Ok(None);
        }
        if self.pod.spec.host_network {
            return Err(UserNamespaceError::HostNetwork.into());
        }
        let known = self.users;
        let ids = match known {
            Some(users) => users.ids,
            None => {
                let mut ranges = self.context.ranges.lock().unwrap_or_else(PoisonError::into_inner);
                ranges.allocate().map_err(UserNamespaceError::from)?
            }
        };
        let made = self.hold_user_namespace(ids, known).await;
        if made.is_err() && known.is_none() {
            release_ids(&self.context, ids);
        }
        let (holder, users) = made?;
        self.users = Some(users);
        Ok(Some(holder))
    }

    /// Starts the holder of a namespace with these IDs. Owners of volumes stay as the first sandbox found them, because
    /// files may exist.
    async fn hold_user_namespace(
        &self,
        ids: IdRange,
        known: Option<PodUsers>,
    ) -> Result<(Holder, PodUsers), SandboxError> {
        self.directory.create(&self.record())?;
        let directory = self.directory.path().to_owned();
        let hold = move || {
            let holder = Holder::start(ids)?;
            let volumes = match known {
                Some(users) => users.volumes,
                None => holder.volume_owners(&directory)?,
            };
            Ok::<_, UserNamespaceError>((holder, PodUsers { ids, volumes }))
        };
        let held = tokio::task::spawn_blocking(hold).await;
        Ok(held.map_err(|_| SandboxError::Ending)??)
    }
}

/// Releases the host IDs of a Pod.
pub(super) fn release_ids(context: &Context, ids: IdRange) {
    let mut ranges = context.ranges.lock().unwrap_or_else(PoisonError::into_inner);
    ranges.release(ids);
}
