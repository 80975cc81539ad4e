//! The links that addresses are announced on.

use netlink::route::{Connection, Link, LinkIndex, RouteError};

use super::frame::HardwareAddress;

#[cfg(test)]
mod tests;

/// Links that lead to Pods or nowhere, by the beginnings of their names: our own agent's, and those that MetalLB leaves out.
const PASSED_OVER: [&str; 14] = [
    "pod",
    "portolan",
    "docker",
    "cbr",
    "dummy",
    "virbr",
    "lxcbr",
    "veth",
    "cali",
    "tunl",
    "flannel",
    "kube-",
    "cni",
    "nodelocaldns",
];

/// Which links are used.
#[derive(Clone, Debug, Default)]
pub struct LinkSelection {
    /// Names, or beginnings of names with a `*` behind. None: every link with an address that reaches beyond it, but
    /// for those whose names say that they lead to Pods.
    pub names: Vec<String>,
}

/// A link that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) link: LinkIndex,
    pub(super) name: String,
    pub(super) hardware: HardwareAddress,
}

impl LinkSelection {
    /// The links of this machine that are used now.
    pub(super) fn find(&self) -> Result<Vec<Port>, RouteError> {
        let mut connection = Connection::open()?;
        let addresses = connection.addresses()?;
        let is_addressed = |link: LinkIndex| {
            addresses
                .iter()
                .any(|address| address.link == link && address.is_global())
        };
        Ok(self.choose(connection.links()?, is_addressed))
    }

    fn choose(&self, links: Vec<Link>, is_addressed: impl Fn(LinkIndex) -> bool) -> Vec<Port> {
        let usable = links.into_iter().filter(|link| link.is_up && !link.is_loopback);
        usable
            .filter(|link| {
                if self.names.is_empty() {
                    let is_passed_over = PASSED_OVER.iter().any(|start| link.name.starts_with(start));
                    return !is_passed_over && link.master.is_none() && is_addressed(link.index);
                }
                self.names.iter().any(|name| match name.strip_suffix('*') {
                    Some(start) => link.name.starts_with(start),
                    None => link.name == *name,
                })
            })
            .filter_map(|link| {
                Some(Port {
                    link: link.index,
                    hardware: link.ethernet?,
                    name: link.name,
                })
            })
            .collect()
    }
}
