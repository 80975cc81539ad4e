//! Confinement of containers: capabilities, seccomp filters, sysctls and user namespaces.
//!
//! This file derives the mounts, the user, the capabilities and the filters of a container from its Pod. It is pure,
//! except that it reads the files of seccomp profiles.

pub(crate) mod capabilities;
pub mod seccomp;
pub(crate) mod sysctls;
pub mod user_namespaces;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::containers::environment::{Variables, expand};
use crate::images::image_table::ImageUser;
use crate::object::{
    Capabilities, Container, Pod, PodSecurityContext, SeccompProfile, SecurityContext, VolumeMount,
};
use crate::sandbox::protocol::{Confinement, ID_MAX, Mount};
use crate::volumes::payload::projections;

use crate::volumes::file_owners::{PodUsers, VolumeOwners};
use capabilities::{CapabilityBits, UnknownCapability};
use seccomp::{Profile, Seccomp};
use user_namespaces::ranges::IDS_PER_POD;

#[cfg(test)]
mod tests;

/// Maximum length of a path in the kernel (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4_096;

/// Reason why a container is not started: it waits with reason `CreateContainerConfigError`. To start the
/// container, replace the Pod or follow the remedy of the variant.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfinementError {
    /// The container would run as root although it has `runAsNonRoot`.
    #[error("container has runAsNonRoot and would run as root; set runAsUser")]
    Root,
    /// The user of the image is root, although the container has `runAsNonRoot`.
    #[error("container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})")]
    ImageRoot {
        /// Pod as `name_namespace(uid)`.
        pod: String,
        /// Container name.
        container: String,
    },
    /// The user of the image has a name, so the agent cannot check `runAsNonRoot`. Set `runAsUser`.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root \
         (pod: {pod:?}, container: {container})"
    )]
    ImageUser {
        /// User of the image.
        user: String,
        /// Pod as `name_namespace(uid)`.
        pod: String,
        /// Container name.
        container: String,
    },
    /// A mount names no volume of the Pod.
    #[error("volumeMounts: the Pod has no volume {name:?}")]
    Volume {
        /// Name in the mount.
        name: String,
    },
    /// A path of a mount is not of the expected form.
    #[error("volumeMounts: {path:?} must be {expected}")]
    Path {
        /// Path in the mount.
        path: String,
        /// Expected form.
        expected: &'static str,
    },
    /// Variables in a `subPathExpr` have no value. A change of the label or annotation that they refer to helps, too.
    #[error("volumeMounts: subPathExpr: missing value for {variables}")]
    NoValue {
        /// Names of the variables, separated by commas.
        variables: String,
    },
    /// A capability is unknown.
    #[error(transparent)]
    Capability(#[from] UnknownCapability),
    /// The seccomp profile cannot be loaded. Correct the profile or its file.
    #[error("seccompProfile: {0}")]
    Seccomp(#[from] SeccompError),
    /// The container requests an unmasked `/proc`, which the API allows only in a user namespace of the Pod.
    #[error("`hostUsers` must be false to use `Unmasked`")]
    ProcMount,
    /// The Pod has its own user namespace, but its sandbox has none.
    #[error("hostUsers: false: the sandbox of the Pod has no user namespace")]
    HostUsers,
    /// A user or group is too high.
    #[error("securityContext {field}: expected an ID from 0 to {ID_MAX}, found {id}")]
    HighId {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        id: u32,
    },
    /// A user or group is outside of the Pod's user namespace.
    #[error("securityContext {field}: expected an ID from 0 to 65535 because hostUsers is false, found {id}")]
    Id {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        id: u32,
    },
}

/// Reason why a seccomp filter cannot be built.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SeccompError {
    /// The type is unknown.
    #[error("expected the type Unconfined, RuntimeDefault or Localhost, found {kind:?}")]
    Kind {
        /// Type in the Pod.
        kind: String,
    },
    /// The name of the file is missing, or leads out of the directory of profiles.
    #[error("localhostProfile {name:?} must be a relative path without ..")]
    Name {
        /// Name in the Pod.
        name: String,
    },
    /// The file cannot be read.
    #[error("{path}: {kind}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Kind of the I/O error.
        kind: std::io::ErrorKind,
    },
    /// The file is not a profile, or no filter can be built from it.
    #[error("{path}: {cause}", path = path.display())]
    Profile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect.
        cause: String,
    },
}

/// Returns the confinement of a container.
///
/// `volumes` are the paths of the Pod's volumes, `image_user` is the user of the image, `users` describes the Pod's
/// user namespace. Profiles of type `Localhost` are read from `seccomp_directory`.
///
/// # Errors
/// See [`ConfinementError`].
pub(crate) fn confinement(
    pod: &Pod,
    container: &Container,
    volumes: &BTreeMap<String, PathBuf>,
    environment: &Variables,
    image_user: ImageUser,
    seccomp_directory: &Path,
    users: Option<PodUsers>,
) -> Result<Confinement, ConfinementError> {
    let (pod_context, own) = (&pod.spec.security_context, &container.security_context);
    let is_privileged = own.privileged == Some(true);
    let (user, group) = user_and_group(pod_context, own, image_user)?;
    let mounts = container.volume_mounts.iter();
    let mounts = mounts.map(|mount| mount_of(mount, pod, volumes, environment, users));
    let capabilities = match &own.capabilities {
        _ if is_privileged => None,
        Some(capabilities) => Some(CapabilityBits::of(capabilities)?.0),
        None => Some(CapabilityBits::of(&Capabilities::default())?.0),
    };
    let is_proc_unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    match users {
        None if pod.spec.host_users == Some(false) => return Err(ConfinementError::HostUsers),
        None if is_proc_unmasked && !is_privileged => return Err(ConfinementError::ProcMount),
        None => check_ids(pod_context, own, ID_MAX, |field, id| ConfinementError::HighId {
            field,
            id,
        })?,
        Some(_) => {
            let last = IDS_PER_POD - 1;
            check_ids(pod_context, own, last, |field, id| ConfinementError::Id {
                field,
                id,
            })?;
        }
    }
    let profile = own.seccomp_profile.as_ref();
    let profile = profile.or(pod_context.seccomp_profile.as_ref());
    let supplemental_groups = pod_context.supplemental_groups.iter().copied();
    Ok(Confinement {
        mounts: mounts.collect::<Result<_, _>>()?,
        staging: PathBuf::new(),
        has_read_only_root: own.read_only_root_filesystem == Some(true),
        user,
        group,
        groups: supplemental_groups.chain(pod_context.fs_group).collect(),
        capabilities,
        // The API's default is `true`. Here a Pod must set it explicitly for set-user-ID programs to work.
        has_no_new_privileges: !is_privileged && own.allow_privilege_escalation != Some(true),
        cgroups: Vec::new(),
        is_privileged,
        seccomp: seccomp_of(profile, is_privileged, seccomp_directory)?,
        has_unmasked_proc: is_privileged || is_proc_unmasked,
        users: users.map(|users| users.ids),
        root: None,
        has_own_processes: false,
        has_node_memory: pod.spec.host_ipc,
    })
}

/// Checks `runAsNonRoot` against the user of an image, which applies if the Pod names none.
///
/// # Errors
/// [`ConfinementError::ImageRoot`], [`ConfinementError::ImageUser`].
pub(crate) fn check_image_user(pod: &Pod, container: &Container, user: &str) -> Result<(), ConfinementError> {
    let (pod_context, own) = (&pod.spec.security_context, &container.security_context);
    let must_not_be_root = own.run_as_non_root.or(pod_context.run_as_non_root) == Some(true);
    if !must_not_be_root || own.run_as_user.or(pod_context.run_as_user).is_some() {
        return Ok(());
    }
    let names = || {
        (
            format!(
                "{}_{}({})",
                pod.metadata.name, pod.metadata.namespace, pod.metadata.uid
            ),
            container.name.clone(),
        )
    };
    let user = user.split_once(':').map_or(user, |(user, _)| user);
    match user.parse::<u32>() {
        Ok(0) => {}
        Ok(id) if id <= ID_MAX => return Ok(()),
        Err(_) if user.is_empty() => {}
        Ok(_) | Err(_) => {
            let (pod, container) = names();
            return Err(ConfinementError::ImageUser {
                user: user.to_owned(),
                pod,
                container,
            });
        }
    }
    let (pod, container) = names();
    Err(ConfinementError::ImageRoot { pod, container })
}

/// Returns the user and group of a container. The container takes precedence over its Pod, and the Pod over the image.
fn user_and_group(
    pod_context: &PodSecurityContext,
    own: &SecurityContext,
    image_user: ImageUser,
) -> Result<(Option<u32>, Option<u32>), ConfinementError> {
    let named_user = own.run_as_user.or(pod_context.run_as_user);
    let user_of_image = match image_user {
        ImageUser::Unprivileged(user) if own.privileged != Some(true) && named_user.is_none() => Some(user),
        _ => None,
    };
    let user = named_user.or(user_of_image);
    let must_not_be_root = own.run_as_non_root.or(pod_context.run_as_non_root) == Some(true);
    // The user of an image in the store was checked before.
    let is_unprivileged = matches!(image_user, ImageUser::OnlyMapped | ImageUser::InImage);
    let is_root = user.map_or(!is_unprivileged, |user| user == 0);
    if must_not_be_root && is_root {
        return Err(ConfinementError::Root);
    }
    // The user of an image has a group of the same number.
    let group = own.run_as_group.or(pod_context.run_as_group).or(user_of_image);
    Ok((user, group))
}

/// Checks that no user or group is above `last`. `too_high` returns the error for a field and its value.
fn check_ids(
    pod_context: &PodSecurityContext,
    own: &SecurityContext,
    last: u32,
    too_high: fn(&'static str, u32) -> ConfinementError,
) -> Result<(), ConfinementError> {
    let single = [
        ("runAsUser", own.run_as_user.or(pod_context.run_as_user)),
        ("runAsGroup", own.run_as_group.or(pod_context.run_as_group)),
        ("fsGroup", pod_context.fs_group),
    ];
    let single = single.into_iter().filter_map(|(field, id)| Some((field, id?)));
    let further = pod_context.supplemental_groups.iter();
    let mut all = single.chain(further.map(|id| ("supplementalGroups", *id)));
    match all.find(|(_, id)| *id > last) {
        Some((field, id)) => Err(too_high(field, id)),
        None => Ok(()),
    }
}

/// Returns the filter of a container. As with the kubelet, a privileged container has none, regardless of its profile.
fn seccomp_of(
    profile: Option<&SeccompProfile>,
    is_privileged: bool,
    directory: &Path,
) -> Result<Seccomp, SeccompError> {
    let Some(profile) = profile.filter(|_| !is_privileged) else {
        return Ok(if is_privileged {
            Seccomp::Unconfined
        } else {
            Seccomp::RuntimeDefault
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
                cause: error.to_string(),
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

/// Returns true if a path is absolute or relative, as given, and has no `..`.
fn is_plain(path: &str, is_absolute: bool) -> bool {
    let path = Path::new(path);
    path.is_absolute() == is_absolute && !path.components().any(|part| part == Component::ParentDir)
}

/// Expands `$(VAR)` in a `subPathExpr`. As upstream, each variable must have a value that is not empty: the mount would
/// otherwise show the whole volume.
fn expanded_sub_path(expression: &str, environment: &Variables) -> Result<String, ConfinementError> {
    let mut missing = BTreeSet::new();
    let expanded = expand(expression, PATH_BYTES_MAX, |name| {
        let value = environment.get(name).filter(|value| !value.is_empty());
        if value.is_none() {
            missing.insert(name.to_owned());
        }
        value.map(String::as_str)
    });
    if !missing.is_empty() {
        let variables: Vec<String> = missing.into_iter().collect();
        return Err(ConfinementError::NoValue {
            variables: variables.join(", "),
        });
    }
    expanded.ok_or_else(|| ConfinementError::Path {
        path: expression.to_owned(),
        expected: "at most 4,096 bytes after the expansion of $(VAR)",
    })
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
        expanded_sub_path(&mount.sub_path_expr, environment)?
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
        // Only the agent writes to volumes that it fills (the kubelet's `GetAttributes` of configMap, secret, projected
        // and downwardAPI return `ReadOnly: true`).
        is_read_only: mount.read_only || is_filled,
        is_id_mapped: users.is_some_and(|users| is_of_node || users.volumes == VolumeOwners::IdMapped),
    })
}
