//! The user and the rights of a container's program.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, Gid, Uid, remove_capability_from_bounding_set, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use seccompiler::BpfProgram;

use super::launch::in_words;
use super::protocol::Confinement;
use crate::capabilities::CapabilityBits;
use crate::seccomp;

/// What a container's program is to be left with, made ready before the process has less than all.
pub(super) struct Rights {
    filters: Vec<BpfProgram>,
}

impl Rights {
    /// Compiles the filters.
    ///
    /// # Errors
    /// Filters of [`crate::seccomp::Seccomp::filters`].
    pub fn of(confinement: &Confinement) -> io::Result<Self> {
        let bits = confinement
            .capabilities
            .map_or(CapabilityBits::ALL, CapabilityBits);
        let filters = confinement.seccomp.filters(bits);
        let filters = filters.map_err(|error| io::Error::other(format!("seccompProfile: {error}")))?;
        Ok(Self { filters })
    }

    /// Gives up what the container is not to have. To be called by a process with one thread, shortly before it
    /// executes the program.
    ///
    /// # Errors
    /// Errors of the kernel, with a remedy.
    pub fn reduce(&self, confinement: &Confinement) -> io::Result<()> {
        if let Some(kept) = confinement.capabilities {
            keep_only(CapabilitySet::from_bits_retain(kept))?;
        }
        // With no_new_privs anybody may install a filter. Without, it takes the rights that are given up below.
        if !confinement.has_no_new_privileges {
            self.install()?;
        }
        change_user(confinement)?;
        if confinement.has_no_new_privileges {
            set_no_new_privs(true)?;
            self.install()?;
        }
        Ok(())
    }

    fn install(&self) -> io::Result<()> {
        seccomp::install(&self.filters).map_err(|error| in_words("seccompProfile", &error))
    }
}

fn change_user(confinement: &Confinement) -> io::Result<()> {
    let names_group = confinement.group.is_some() || confinement.user.is_some();
    if names_group || !confinement.groups.is_empty() {
        let groups: Vec<Gid> = confinement
            .groups
            .iter()
            .map(|group| Gid::from_raw(*group))
            .collect();
        match set_thread_groups(&groups) {
            // An ordinary user may not, and has given up none by that.
            Err(Errno::PERM) if groups.is_empty() => {}
            result => result.map_err(|errno| refused("supplementalGroups", None, errno))?,
        }
    }
    if names_group {
        let group = confinement.group.unwrap_or(0);
        let gid = Gid::from_raw(group);
        set_thread_res_gid(gid, gid, gid).map_err(|errno| refused("runAsGroup", Some(group), errno))?;
    }
    if let Some(user) = confinement.user {
        let uid = Uid::from_raw(user);
        set_thread_res_uid(uid, uid, uid).map_err(|errno| refused("runAsUser", Some(user), errno))?;
    }
    Ok(())
}

/// What is not in the bounding set is not had after the next exec, by root neither.
fn keep_only(kept: CapabilitySet) -> io::Result<()> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if kept.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            // The kernel has no such capability, nor any after it.
            Err(Errno::INVAL) => return Ok(()),
            result => result.map_err(|errno| refused("capabilities", None, errno))?,
        }
    }
    Ok(())
}

/// The usual reason is that this user may not: the message says what to do.
fn refused(field: &str, number: Option<u32>, errno: Errno) -> io::Error {
    let number = number.map(|number| format!(" {number}")).unwrap_or_default();
    let advice = match errno {
        Errno::INVAL | Errno::PERM => "; an agent that does not run as root can give its Pods no other users",
        _ => "",
    };
    in_words(
        &format!("securityContext {field}{number} cannot be applied{advice}"),
        &errno.into(),
    )
}
