//! User, groups, capabilities and seccomp filters of a container's program.

use std::io;

use rustix::io::Errno;
use rustix::process::getgroups;
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use seccompiler::BpfProgram;

use super::context::with_context;
use super::protocol::Confinement;
use crate::confinement::capabilities::CapabilityBits;
use crate::confinement::seccomp;

/// ID that setresuid(2) and setresgid(2) take as "no change": the program would run as root.
const ID_UNCHANGED: u32 = u32::MAX;

/// Credentials of a container's program, prepared while the process still has all privileges.
pub(super) struct Credentials {
    filters: Vec<BpfProgram>,
}

impl Credentials {
    /// Compiles the seccomp filters.
    ///
    /// # Errors
    /// Errors of [`crate::confinement::seccomp::Seccomp::filters`].
    pub(super) fn prepare(confinement: &Confinement) -> io::Result<Self> {
        let bits = confinement
            .capabilities
            .map_or(CapabilityBits::ALL, CapabilityBits);
        let filters = confinement.seccomp.filters(bits);
        let filters = filters.map_err(|error| io::Error::other(format!("seccompProfile: {error}")))?;
        Ok(Self { filters })
    }

    /// Drops all privileges that the container does not have. Call this in a process with one thread, just before it
    /// executes the program.
    ///
    /// # Errors
    /// Errors of the kernel. The message names the field of the security context and a remedy.
    pub(super) fn apply(&self, confinement: &Confinement) -> io::Result<()> {
        if let Some(bits) = confinement.capabilities {
            drop_others(CapabilitySet::from_bits_retain(bits))?;
        }
        // With no_new_privs every user may install a filter; without it, the filter needs privileges that are dropped
        // below.
        if !confinement.has_no_new_privileges {
            self.install()?;
        }
        change_user(confinement)?;
        if let Some(bits) = confinement.capabilities {
            limit_to(CapabilitySet::from_bits_retain(bits))
                .map_err(|errno| field_error("capabilities", None, errno))?;
        }
        if confinement.has_no_new_privileges {
            set_no_new_privs(true)?;
            self.install()?;
        }
        Ok(())
    }

    fn install(&self) -> io::Result<()> {
        seccomp::install(&self.filters).map_err(|error| with_context("seccompProfile", &error))
    }
}

fn change_user(confinement: &Confinement) -> io::Result<()> {
    let user_and_group = confinement.user.iter().chain(&confinement.group);
    let mut ids = user_and_group.chain(&confinement.groups);
    if ids.any(|id| *id == ID_UNCHANGED) {
        let message = format!("securityContext: {ID_UNCHANGED} is not a user or group");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let changes_group = confinement.group.is_some() || confinement.user.is_some();
    let groups: Vec<Gid> = confinement
        .groups
        .iter()
        .map(|group| Gid::from_raw(*group))
        .collect();
    // The process has the groups of the agent. A profile of the administrator may reject setgroups(2), so it is called only
    // if they change.
    let has_none = getgroups().is_ok_and(|present| present.is_empty());
    if !groups.is_empty() || !has_none {
        match set_thread_groups(&groups) {
            // An unprivileged user may not change groups.
            Err(Errno::PERM) if groups.is_empty() => {}
            result => result.map_err(|errno| field_error("supplementalGroups", None, errno))?,
        }
    }
    if changes_group {
        let group = confinement.group.unwrap_or(0);
        let gid = Gid::from_raw(group);
        set_thread_res_gid(gid, gid, gid).map_err(|errno| field_error("runAsGroup", Some(group), errno))?;
    }
    if let Some(user) = confinement.user {
        let uid = Uid::from_raw(user);
        set_thread_res_uid(uid, uid, uid).map_err(|errno| field_error("runAsUser", Some(user), errno))?;
    }
    Ok(())
}

/// Removes all other capabilities from the bounding set, so that the next `execve` does not grant them, not even to
/// root.
fn drop_others(retained: CapabilitySet) -> io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if retained.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            // The kernel has no capability with this or a higher number.
            Err(Errno::INVAL) => return Ok(()),
            result => result.map_err(|errno| field_error("capabilities", None, errno))?,
        }
    }
    Ok(())
}

/// Limits the capabilities of this process, which root keeps until the next `execve`. The kernel resolves the working
/// directory and the program with them. A link of `/proc` must not lead to the files of a process with more.
fn limit_to(retained: CapabilitySet) -> Result<(), Errno> {
    let present = capabilities(None)?;
    let kept = present.permitted.intersection(retained);
    // A profile of the administrator may reject capset(2), and another user than root has no capabilities here.
    if present.permitted == kept && present.inheritable.is_empty() {
        return Ok(());
    }
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )
}

/// Returns the error of a field of the security context. The usual cause is an agent that is not root.
fn field_error(field: &str, number: Option<u32>, errno: Errno) -> io::Error {
    let number = number.map(|number| format!(" {number}")).unwrap_or_default();
    let remedy = match errno {
        Errno::INVAL | Errno::PERM => "; an agent that does not run as root can give its Pods no other users",
        _ => "",
    };
    with_context(
        &format!("securityContext {field}{number} cannot be applied{remedy}"),
        &errno.into(),
    )
}
