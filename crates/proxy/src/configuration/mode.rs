//! Proxy modes: the kernel interfaces that can implement Services.

/// Implementation of Services in the kernel or in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// nftables, by netlink.
    #[default]
    Nftables,
    /// iptables, by iptables-restore, in kube-proxy's chains.
    Iptables,
    /// The rules of nftables, and virtual servers of the kernel that choose endpoints.
    Ipvs,
    /// The rules of nftables, and an eBPF program that chooses endpoints of TCP when a client of the node connects.
    Ebpf,
    /// A relay in this process: it replaces endpoints that do not respond, and endpoints receive its address instead of
    /// the client's.
    Userspace,
}

impl Mode {
    /// All modes, the default first.
    pub const ALL: [Self; 5] = [
        Self::Nftables,
        Self::Iptables,
        Self::Ipvs,
        Self::Ebpf,
        Self::Userspace,
    ];
    /// All names, for messages.
    pub const NAMES: &str = "nftables, iptables, ipvs, ebpf, userspace";

    /// Returns the name that flags, the configuration file and `/proxyMode` use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Ebpf => "ebpf",
            Self::Userspace => "userspace",
        }
    }

    /// Returns the mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
