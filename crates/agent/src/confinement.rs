//! What a container sees and may do, from what its Pod says. Pure.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::environment::{Variables, expand};
use crate::object::{Capabilities, Container, Pod, VolumeMount};
use crate::sandbox::protocol::{Confinement, Mount};

#[cfg(test)]
mod tests;

/// All capabilities, by their bits (`linux/capability.h`).
const CAPABILITIES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];
/// What container runtimes leave to root in a container that adds and drops some.
const CAPABILITIES_DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "NET_RAW",
    "SYS_CHROOT",
    "MKNOD",
    "AUDIT_WRITE",
    "SETFCAP",
];

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
    #[error("capabilities: {name:?} is not one that Linux has")]
    Capability {
        /// Its name.
        name: String,
    },
}

/// The confinement of a container whose Pod's volumes are at `volumes`.
pub fn confinement(
    pod: &Pod,
    container: &Container,
    volumes: &BTreeMap<String, PathBuf>,
    environment: &Variables,
) -> Result<Confinement, ConfinementError> {
    let (of_pod, own) = (&pod.spec.security_context, &container.security_context);
    let user = own.run_as_user.or(of_pod.run_as_user);
    let must_not_be_root = own.run_as_non_root.or(of_pod.run_as_non_root) == Some(true);
    if must_not_be_root && user.unwrap_or(0) == 0 {
        return Err(ConfinementError::Root);
    }
    let mounts = container.volume_mounts.iter();
    let mounts = mounts.map(|mount| mount_of(mount, volumes, environment));
    let is_privileged = own.privileged == Some(true);
    let capabilities = own.capabilities.as_ref().filter(|_| !is_privileged);
    Ok(Confinement {
        mounts: mounts.collect::<Result<_, _>>()?,
        staging: PathBuf::new(),
        has_read_only_root: own.read_only_root_filesystem == Some(true),
        user,
        group: own.run_as_group.or(of_pod.run_as_group),
        groups: of_pod
            .supplemental_groups
            .iter()
            .copied()
            .chain(of_pod.fs_group)
            .collect(),
        capabilities: capabilities.map(kept).transpose()?,
        has_no_new_privileges: own.allow_privilege_escalation == Some(false),
        cgroups: Vec::new(),
    })
}

fn mount_of(
    mount: &VolumeMount,
    volumes: &BTreeMap<String, PathBuf>,
    environment: &Variables,
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
    let is_plain = |path: &str, is_absolute: bool| {
        let path = Path::new(path);
        path.is_absolute() == is_absolute && !path.components().any(|part| part == Component::ParentDir)
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
    Ok(Mount {
        source: source.clone(),
        sub_path: sub_path.into(),
        target: PathBuf::from(&mount.mount_path),
        is_read_only: mount.read_only,
    })
}

/// The bits of the capabilities that are left.
fn kept(capabilities: &Capabilities) -> Result<u64, ConfinementError> {
    let is_all = |name: &String| name.eq_ignore_ascii_case("ALL");
    let mut kept = 0;
    if capabilities.add.iter().any(is_all) {
        kept = u64::MAX;
    } else if !capabilities.drop.iter().any(is_all) {
        for name in CAPABILITIES_DEFAULT {
            kept |= bit(name)?;
        }
    }
    for name in capabilities.add.iter().filter(|name| !is_all(name)) {
        kept |= bit(name)?;
    }
    for name in capabilities.drop.iter().filter(|name| !is_all(name)) {
        kept &= !bit(name)?;
    }
    Ok(kept)
}

fn bit(name: &str) -> Result<u64, ConfinementError> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
    let place = CAPABILITIES.iter().position(|known| *known == bare);
    place
        .map(|place| 1 << place)
        .ok_or_else(|| ConfinementError::Capability {
            name: name.to_owned(),
        })
}
