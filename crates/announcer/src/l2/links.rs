//! The links that addresses are announced on.

use std::sync::Arc;

use api::address_pool::LinkPattern;
use netlink::route::{Address, Connection, Link, LinkIndex, RouteError};
use ring::digest::{SHA256, digest};

use crate::election::capabilities::LinksId;
use crate::l2::frame::HardwareAddress;

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

/// Which links are used where nobody says anything else.
#[derive(Clone, Debug, Default)]
pub struct LinkSelection {
    /// The links. None: every link with an address that reaches beyond it, but for those whose names say that they lead to
    /// Pods.
    pub names: Vec<LinkPattern>,
}

/// A link of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) link: LinkIndex,
    pub(crate) name: String,
    pub(crate) hardware: HardwareAddress,
    pub(crate) uses: Uses,
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uses {
    /// It is among those that are used where nobody says anything else.
    pub(crate) is_selected: bool,
    /// Pools name it.
    pub(crate) is_named: bool,
}

impl Uses {
    /// Whether addresses are announced on it at all. It leads to the network in any case.
    pub(crate) fn are_any(self) -> bool {
        self.is_selected || self.is_named
    }
}

/// The links that an address is announced on: those that are used anyway, or, if pools that have it name links, those that
/// each of them names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressLinks(Vec<Arc<[LinkPattern]>>);

impl AddressLinks {
    /// What several pools name; those that name none say nothing.
    pub fn of<'p>(pools: impl IntoIterator<Item = &'p Arc<[LinkPattern]>>) -> Self {
        let naming = pools.into_iter().filter(|links| !links.is_empty());
        Self(naming.cloned().collect())
    }

    /// Whether the address is announced on a link.
    pub(crate) fn have(&self, port: &Port) -> bool {
        if self.0.is_empty() {
            return port.uses.is_selected;
        }
        self.0.iter().all(|names| is_among(names, &port.name))
    }

    /// Their number, the same on all machines; none if they are those that are used anyway.
    pub fn id(&self) -> Option<LinksId> {
        if self.0.is_empty() {
            return None;
        }
        let lists = self.0.iter().map(|names| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            names.join(",")
        });
        let mut lists: Vec<String> = lists.collect();
        lists.sort_unstable();
        let hash = digest(&SHA256, lists.join(";").as_bytes());
        let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
        Some(LinksId(u64::from_be_bytes(first)))
    }
}

impl LinkSelection {
    /// The links of this machine that lead to the network, and those that pools name; and all addresses that links have.
    pub(crate) fn find(&self, named: &[LinkPattern]) -> Result<(Vec<Port>, Vec<Address>), RouteError> {
        let mut connection = Connection::open()?;
        let addresses = connection.addresses()?;
        let is_addressed = |link: LinkIndex| {
            addresses
                .iter()
                .any(|address| address.link == link && address.is_global())
        };
        let ports = self.choose(named, connection.links()?, is_addressed);
        Ok((ports, addresses))
    }

    fn choose(
        &self,
        named: &[LinkPattern],
        links: Vec<Link>,
        is_addressed: impl Fn(LinkIndex) -> bool,
    ) -> Vec<Port> {
        let usable = links.into_iter().filter(|link| link.is_up && !link.is_loopback);
        let ports = usable.filter_map(|link| {
            let is_passed_over = PASSED_OVER.iter().any(|start| link.name.starts_with(start));
            let is_of_network = !is_passed_over && link.master.is_none() && is_addressed(link.index);
            let uses = Uses {
                is_selected: match self.names.is_empty() {
                    true => is_of_network,
                    false => is_among(&self.names, &link.name),
                },
                is_named: is_among(named, &link.name),
            };
            let port = Port {
                link: link.index,
                hardware: link.ethernet?,
                name: link.name,
                uses,
            };
            (is_of_network || uses.are_any()).then_some(port)
        });
        ports.collect()
    }
}

fn is_among(names: &[LinkPattern], link: &str) -> bool {
    names.iter().any(|name| name.matches(link))
}
