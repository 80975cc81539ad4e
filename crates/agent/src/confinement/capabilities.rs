//! Linux capabilities of a container, from its security context. Pure.

use serde::{Deserialize, Serialize};

use crate::object::Capabilities;

#[cfg(test)]
mod tests;

/// Names of all capabilities, in the order of their numbers (`linux/capability.h`).
const CAPABILITIES: &str = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP \
     LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE \
     SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME \
     SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG \
     WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE";
/// Capabilities of a container whose Pod requests nothing else (containerd's `defaultUnixCaps` in `oci/spec.go`).
const CAPABILITIES_DEFAULT: &str = "CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP \
     NET_BIND_SERVICE NET_RAW SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP";

/// Error of a name that is not a Linux capability.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("capabilities: expected a capability of Linux, such as NET_ADMIN, found {name:?}")]
pub struct UnknownCapability {
    /// Name in the Pod.
    pub name: String,
}

/// Set of capabilities, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CapabilityBits(pub u64);

impl CapabilityBits {
    /// All capabilities, including those of future kernels.
    pub const ALL: Self = Self(u64::MAX);

    /// Returns the default capabilities with `add` and without `drop`. `ALL` applies before single names.
    ///
    /// # Errors
    /// [`UnknownCapability`] for a name that Linux does not have.
    pub fn of(capabilities: &Capabilities) -> Result<Self, UnknownCapability> {
        let is_all = |name: &String| name.eq_ignore_ascii_case("ALL");
        let mut bits = 0;
        if capabilities.add.iter().any(is_all) {
            bits = u64::MAX;
        } else if !capabilities.drop.iter().any(is_all) {
            for name in CAPABILITIES_DEFAULT.split_whitespace() {
                bits |= bit(name)?;
            }
        }
        for name in capabilities.add.iter().filter(|name| !is_all(name)) {
            bits |= bit(name)?;
        }
        for name in capabilities.drop.iter().filter(|name| !is_all(name)) {
            bits &= !bit(name)?;
        }
        Ok(Self(bits))
    }

    /// Returns true if the set contains the capability, whose name has no prefix `CAP_`.
    pub fn has(self, name: &str) -> bool {
        bit(name).is_ok_and(|bit| self.0 & bit != 0)
    }
}

fn bit(name: &str) -> Result<u64, UnknownCapability> {
    let upper = name.to_ascii_uppercase();
    let bare = upper.strip_prefix("CAP_").unwrap_or(&upper);
    let number = CAPABILITIES.split_whitespace().position(|known| known == bare);
    number.map(|number| 1 << number).ok_or_else(|| UnknownCapability {
        name: name.to_owned(),
    })
}
