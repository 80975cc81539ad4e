//! Selection of the links that addresses are announced on.

use std::sync::Arc;

use api::address_pool::LinkPattern;
use netlink::route::{Address, Connection, Link, LinkIndex, RouteError};
use ring::digest::{SHA256, digest};

use crate::election::capabilities::LinkSetId;
use crate::l2::frame::HardwareAddress;

#[cfg(test)]
mod tests;

/// Name prefixes of links to Pods and of virtual links: those of Portolan's agent, and those that MetalLB excludes.
const EXCLUDED_PREFIXES: [&str; 14] = [
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

/// Default links, for addresses whose AddressPools name none.
#[derive(Clone, Debug, Default)]
pub struct LinkSelection {
    /// Patterns of link names. If empty, all links with a global address except links to Pods.
    pub names: Vec<LinkPattern>,
}

/// Link of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NetworkLink {
    pub(crate) index: LinkIndex,
    pub(crate) name: String,
    pub(crate) hardware: HardwareAddress,
    pub(crate) uses: LinkUses,
}

/// Uses of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkUses {
    /// True for default links.
    pub(crate) is_default: bool,
    /// True if an AddressPool names it.
    pub(crate) is_in_pool: bool,
}

impl LinkUses {
    /// Returns true if addresses may be announced on the link.
    pub(crate) fn is_announcing(self) -> bool {
        self.is_default || self.is_in_pool
    }
}

/// Links of an address: those that all of its AddressPools name, or the default links if no pool names any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressLinks(Vec<Arc<[LinkPattern]>>);

impl AddressLinks {
    /// Combines the links of AddressPools. Pools without links do not restrict the result.
    pub(crate) fn of<'p>(pools: impl IntoIterator<Item = &'p Arc<[LinkPattern]>>) -> Self {
        let naming = pools.into_iter().filter(|links| !links.is_empty());
        Self(naming.cloned().collect())
    }

    /// Returns true if the address is announced on a link.
    pub(crate) fn contain(&self, link: &NetworkLink) -> bool {
        if self.0.is_empty() {
            return link.uses.is_default;
        }
        self.0.iter().all(|names| matches_any(names, &link.name))
    }

    /// Returns the identifier of the link set, equal on all nodes; `None` for the default links.
    pub(crate) fn id(&self) -> Option<LinkSetId> {
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
        Some(LinkSetId(u64::from_be_bytes(first)))
    }
}

impl LinkSelection {
    /// Lists the network links of this node, the links that match `pool_links`, and the addresses of all links.
    ///
    /// # Errors
    /// Returns an error if the kernel does not list links or addresses.
    pub(crate) fn list(
        &self,
        pool_links: &[LinkPattern],
    ) -> Result<(Vec<NetworkLink>, Vec<Address>), RouteError> {
        let mut connection = Connection::open()?;
        let addresses = connection.addresses()?;
        let is_addressed = |link: LinkIndex| {
            addresses
                .iter()
                .any(|address| address.link == link && address.is_global())
        };
        let links = self.choose(pool_links, connection.links()?, is_addressed);
        Ok((links, addresses))
    }

    fn choose(
        &self,
        pool_links: &[LinkPattern],
        links: Vec<Link>,
        is_addressed: impl Fn(LinkIndex) -> bool,
    ) -> Vec<NetworkLink> {
        let usable = links.into_iter().filter(|link| link.is_up && !link.is_loopback);
        let chosen = usable.filter_map(|link| {
            let is_excluded = EXCLUDED_PREFIXES.iter().any(|start| link.name.starts_with(start));
            let is_of_network = !is_excluded && link.master.is_none() && is_addressed(link.index);
            let uses = LinkUses {
                is_default: if self.names.is_empty() {
                    is_of_network
                } else {
                    matches_any(&self.names, &link.name)
                },
                is_in_pool: matches_any(pool_links, &link.name),
            };
            let link = NetworkLink {
                index: link.index,
                hardware: link.ethernet?,
                name: link.name,
                uses,
            };
            (is_of_network || uses.is_announcing()).then_some(link)
        });
        chosen.collect()
    }
}

fn matches_any(names: &[LinkPattern], link: &str) -> bool {
    names.iter().any(|name| name.matches(link))
}
