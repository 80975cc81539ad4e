//! User namespace of a Pod with `hostUsers: false`.

use super::PodContext;
use super::sandbox::{PodSandbox, SandboxError};
use crate::confinement::user_namespaces::ranges::IdRange;
use crate::confinement::user_namespaces::{Holder, UserNamespaceError};
use crate::volumes::file_owners::PodUsers;

impl PodContext {
    /// Returns true if the Pod has its own user namespace.
    pub(super) fn has_user_namespace(&self) -> bool {
        self.pod.spec.host_users == Some(false)
    }
}

impl PodSandbox {
    /// Creates the user namespace of a Pod with `hostUsers: false`. The Pod keeps its host IDs until it ends.
    ///
    /// # Errors
    /// [`SandboxError::Users`] if no host IDs are free or the kernel refuses, [`SandboxError::State`] if the record of
    /// the Pod cannot be written.
    pub(super) async fn create_user_namespace(
        &mut self,
        context: &PodContext,
    ) -> Result<Option<Holder>, SandboxError> {
        if !context.has_user_namespace() {
            return Ok(None);
        }
        if context.pod.spec.host_network {
            return Err(UserNamespaceError::HostNetwork.into());
        }
        let previous = self.users;
        let ids = match previous {
            Some(users) => users.ids,
            None => {
                let allocated = context.agent.id_ranges().allocate();
                allocated.map_err(UserNamespaceError::from)?
            }
        };
        let created = self.start_holder(context, ids, previous).await;
        if created.is_err() && previous.is_none() {
            context.agent.id_ranges().release(ids);
        }
        let (holder, users) = created?;
        self.users = Some(users);
        Ok(Some(holder))
    }

    /// Starts the process that holds a namespace with these IDs. The owners of volumes stay as the first sandbox found
    /// them, because files may exist.
    async fn start_holder(
        &self,
        context: &PodContext,
        ids: IdRange,
        previous: Option<PodUsers>,
    ) -> Result<(Holder, PodUsers), SandboxError> {
        context.directory.create(&self.record(context))?;
        let directory = context.directory.path().to_owned();
        let start = move || {
            let holder = Holder::start(ids)?;
            let volumes = match previous {
                Some(users) => users.volumes,
                None => holder.volume_owners(&directory)?,
            };
            Ok::<_, UserNamespaceError>((holder, PodUsers { ids, volumes }))
        };
        let started = tokio::task::spawn_blocking(start).await;
        Ok(started.map_err(|_| SandboxError::Shutdown)??)
    }
}
