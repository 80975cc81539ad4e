//! Owners of the files in volumes: `fsGroup` of the Pod, and the host IDs of a Pod with a user namespace.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Gid, Uid, fchown};
use serde::{Deserialize, Serialize};

use crate::confinement::user_namespaces::ranges::IdRange;

/// State of a Pod's user namespace that the agent keeps on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodUsers {
    /// Host IDs of the Pod.
    pub ids: IdRange,
    /// Owners of the files in volumes that the agent creates.
    pub volumes: VolumeOwners,
}

/// Owners of the files in volumes that the agent creates. A `hostPath` volume is always mounted ID-mapped, or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeOwners {
    /// The same IDs as without a user namespace; the mounts are ID-mapped.
    IdMapped,
    /// Host IDs of the Pod's range; the kernel or the file system has no ID-mapped mounts.
    Range,
}

/// Owners of files that the agent writes into a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    /// `fsGroup` of the Pod.
    pub group: Option<u32>,
    /// Range whose IDs own the files. Without a range, root of the host owns them.
    pub range: Option<IdRange>,
}

impl Owners {
    /// Returns the owners for a Pod with these users and this `fsGroup`.
    pub fn of(users: Option<PodUsers>, group: Option<u32>) -> Self {
        let range_owned = users.filter(|users| users.volumes == VolumeOwners::Range);
        Self {
            group,
            range: range_owned.map(|users| users.ids),
        }
    }

    /// Changes the owner of a file or directory.
    ///
    /// # Errors
    /// `InvalidInput` if `fsGroup` is not in the range, and those of `fchown(2)`.
    pub fn apply(self, file: impl AsFd) -> io::Result<()> {
        let (user, group) = match self.range {
            None => (None, self.group),
            Some(range) => {
                let group = range.host_id(self.group.unwrap_or(0));
                (
                    Some(range.first()),
                    Some(group.ok_or(io::ErrorKind::InvalidInput)?),
                )
            }
        };
        if user.is_none() && group.is_none() {
            return Ok(());
        }
        Ok(fchown(file, user.map(Uid::from_raw), group.map(Gid::from_raw))?)
    }
}
