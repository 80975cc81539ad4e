//! What a container sees and may do, from what its Pod says. Pure, but for the files of seccomp profiles.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::capabilities::{CapabilityBits, UnknownCapability};
use crate::environment::{Variables, expand};
use crate::images::ImageUser;
use crate::object::{
    Capabilities, Container, Pod, PodSecurityContext, SeccompProfile, SecurityContext, VolumeMount,
};
use crate::sandbox::protocol::{Confinement, Mount};
use crate::seccomp::{Profile, Seccomp};
use crate::user_namespaces::owners::{PodUsers, VolumeOwners};
use crate::user_namespaces::ranges::IDS_PER_POD;
use crate::volumes::payload::projections;

#[cfg(test)]
mod tests;

/// Why a container is not started: it waits with reason `CreateContainerConfigError`. Only another Pod helps.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfinementError {
    /// It must not be root, and would be.
    #[error("container has runAsNonRoot and would run as root; set runAsUser")]
    Root,
    /// It mounts what is no volume of the Pod.
    #[error("volumeMounts: the Pod has no volume {name:?}")]
    Volume {
        /// The name.
        name: String,
    },
    /// A path that must be absolute and without `..`, or relative and without `..`.
    #[error("volumeMounts: {path:?} must be {expected}")]
    Path {
        /// The path.
        path: String,
        /// What it must be.
        expected: &'static str,
    },
    /// There is no such capability.
    #[error(transparent)]
    Capability(#[from] UnknownCapability),
    /// The seccomp profile cannot be loaded. Correct the profile or its file.
    #[error("seccompProfile: {0}")]
    Seccomp(#[from] SeccompError),
    /// The container requests an unmasked `/proc`, which upstream allows only in a user namespace of the Pod.
    #[error("`hostUsers` must be false to use `Unmasked`")]
    ProcMount,
    /// The Pod asks for its own user namespace, but its sandbox has none.
    #[error("hostUsers: false: the sandbox of the Pod has no user namespace")]
    HostUsers,
    /// The user namespace of the Pod does not have this user or group.
    #[error("securityContext {field}: expected an ID from 0 to 65535 because hostUsers is false, got {id}")]
    Id {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        id: u32,
    },
}

/// Reason for which a seccomp filter cannot be built.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeccompError {
    /// Upstream knows three types.
    #[error("type {kind:?} is none of Unconfined, RuntimeDefault, Localhost")]
    Kind {
        /// Type that was found.
        kind: String,
    },
    /// The name of a file leads out of the directory of profiles, or there is none.
    #[error("localhostProfile {name:?} must be a relative path without ..")]
    Name {
        /// The name.
        name: String,
    },
    /// The file cannot be read.
    #[error("{path}: {kind}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// The file is no profile that can be put in force.
    #[error("{path}: {why}", path = path.display())]
    Profile {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// The confinement of a container whose Pod's volumes are at `volumes`, of an image with that user. Profiles of type Localhost are read from
/// `seccomp_directory`. `users` describes the user namespace of the Pod.
///
/// # Errors
/// See [`ConfinementError`].
pub fn confinement(
    pod: &Pod,
    container: &Container,
    volumes: &BTreeMap<String, PathBuf>,
    environment: &Variables,
    image_user: ImageUser,
    seccomp_directory: &Path,
    users: Option<PodUsers>,
) -> Result<Confinement, ConfinementError> {
    let (of_pod, own) = (&pod.spec.security_context, &container.security_context);
    let is_privileged = own.privileged == Some(true);
    let named_user = own.run_as_user.or(of_pod.run_as_user);
    let own_user = match image_user {
        ImageUser::Ordinary(user) if !is_privileged && named_user.is_none() => Some(user),
        _ => None,
    };
    let user = named_user.or(own_user);
    let must_not_be_root = own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true);
    let is_root = user.map_or(image_user != ImageUser::Only, |user| user == 0);
    if must_not_be_root && is_root {
        return Err(ConfinementError::Root);
    }
    let mounts = container.volume_mounts.iter();
    let mounts = mounts.map(|mount| mount_of(mount, pod, volumes, environment, users));
    let bits = match &own.capabilities {
        _ if is_privileged => CapabilityBits::ALL,
        Some(capabilities) => CapabilityBits::of(capabilities)?,
        None => CapabilityBits::of(&Capabilities::default())?,
    };
    let is_proc_unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    match users {
        None if pod.spec.host_users == Some(false) => return Err(ConfinementError::HostUsers),
        None if is_proc_unmasked && !is_privileged => return Err(ConfinementError::ProcMount),
        None => {}
        Some(_) => check_ids(of_pod, own)?,
    }
    let profile = own.seccomp_profile.as_ref();
    let profile = profile.or(of_pod.seccomp_profile.as_ref());
    Ok(Confinement {
        mounts: mounts.collect::<Result<_, _>>()?,
        staging: PathBuf::new(),
        has_read_only_root: own.read_only_root_filesystem == Some(true),
        user,
        // An image's own user has a group of the same number.
        group: own.run_as_group.or(of_pod.run_as_group).or(own_user),
        groups: of_pod
            .supplemental_groups
            .iter()
            .copied()
            .chain(of_pod.fs_group)
            .collect(),
        capabilities: (!is_privileged).then_some(bits.0),
        // Upstream's default is to allow: a Pod here has to say that it wants set-user-ID programs to work.
        has_no_new_privileges: !is_privileged && own.allow_privilege_escalation != Some(true),
        cgroups: Vec::new(),
        is_privileged,
        seccomp: seccomp_of(profile, is_privileged, seccomp_directory)?,
        has_unmasked_proc: is_privileged || is_proc_unmasked,
        users: users.map(|users| users.ids),
    })
}

/// Checks that the user namespace has all users and groups.
fn check_ids(of_pod: &PodSecurityContext, own: &SecurityContext) -> Result<(), ConfinementError> {
    let single = [
        ("runAsUser", own.run_as_user.or(of_pod.run_as_user)),
        ("runAsGroup", own.run_as_group.or(of_pod.run_as_group)),
        ("fsGroup", of_pod.fs_group),
    ];
    let single = single.into_iter().filter_map(|(field, id)| Some((field, id?)));
    let further = of_pod.supplemental_groups.iter();
    let mut all = single.chain(further.map(|id| ("supplementalGroups", *id)));
    match all.find(|(_, id)| *id >= IDS_PER_POD) {
        Some((field, id)) => Err(ConfinementError::Id { field, id }),
        None => Ok(()),
    }
}

/// Which filter a container has. As upstream, a privileged one has none, whatever it asks for.
fn seccomp_of(
    profile: Option<&SeccompProfile>,
    is_privileged: bool,
    directory: &Path,
) -> Result<Seccomp, SeccompError> {
    let Some(profile) = profile.filter(|_| !is_privileged) else {
        return Ok(match is_privileged {
            true => Seccomp::Unconfined,
            false => Seccomp::RuntimeDefault,
        });
    };
    match (profile.kind.as_str(), &profile.localhost_profile) {
        ("Unconfined", _) => Ok(Seccomp::Unconfined),
        ("RuntimeDefault" | "", _) => Ok(Seccomp::RuntimeDefault),
        ("Localhost", Some(name)) if is_plain(name, false) && !name.is_empty() => {
            let path = directory.join(name);
            let json = std::fs::read(&path).map_err(|source| SeccompError::File {
                path: path.clone(),
                kind: source.kind(),
            })?;
            let profile = Profile::parse(&json).and_then(|profile| profile.filters().map(|_| profile));
            let profile = profile.map_err(|error| SeccompError::Profile {
                path,
                why: error.to_string(),
            })?;
            Ok(Seccomp::Localhost(profile))
        }
        ("Localhost", name) => Err(SeccompError::Name {
            name: name.clone().unwrap_or_default(),
        }),
        (kind, _) => Err(SeccompError::Kind {
            kind: kind.to_owned(),
        }),
    }
}

/// Whether a path is absolute, or relative, as it should be, and without `..`.
fn is_plain(path: &str, is_absolute: bool) -> bool {
    let path = Path::new(path);
    path.is_absolute() == is_absolute && !path.components().any(|part| part == Component::ParentDir)
}

fn mount_of(
    mount: &VolumeMount,
    pod: &Pod,
    volumes: &BTreeMap<String, PathBuf>,
    environment: &Variables,
    users: Option<PodUsers>,
) -> Result<Mount, ConfinementError> {
    let source = volumes.get(&mount.name).ok_or_else(|| ConfinementError::Volume {
        name: mount.name.clone(),
    })?;
    let sub_path = if mount.sub_path_expr.is_empty() {
        mount.sub_path.clone()
    } else {
        expand(&mount.sub_path_expr, |name| {
            environment.get(name).map(String::as_str)
        })
    };
    if !is_plain(&sub_path, false) {
        return Err(ConfinementError::Path {
            path: sub_path,
            expected: "a relative path without ..",
        });
    }
    if !is_plain(&mount.mount_path, true) || mount.mount_path.trim_matches('/').is_empty() {
        return Err(ConfinementError::Path {
            path: mount.mount_path.clone(),
            expected: "an absolute path without .., and not the root",
        });
    }
    let volume = pod.spec.volumes.iter().find(|volume| volume.name == mount.name);
    let is_filled = volume.is_some_and(|volume| projections(volume).is_some());
    let is_of_node = volume.is_some_and(|volume| volume.host_path.is_some());
    Ok(Mount {
        source: source.clone(),
        sub_path: sub_path.into(),
        target: PathBuf::from(&mount.mount_path),
        // The agent alone writes to volumes that it fills (kubelet's `GetAttributes` of configMap, secret, projected
        // and downwardAPI say `ReadOnly: true`).
        is_read_only: mount.read_only || is_filled,
        is_id_mapped: users.is_some_and(|users| is_of_node || users.volumes == VolumeOwners::IdMapped),
    })
}
