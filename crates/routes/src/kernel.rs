//! Reading and changing the kernel's routes, VXLAN link and filter.

use std::net::IpAddr;

use netlink::nftables::{CommitError, Nftables, TableFamily};
use netlink::route::{Connection, Link, LinkChange, LinkName, RouteError, Vxlan};

use crate::filter::{self, Filter};
use crate::plan::VxlanState;
use crate::{Changes, KernelState, LINK, Network, PROTOCOL, Plan, Settings, ethernet_of};

/// State of a neighbour that a program set, as opposed to a learned one (`neighbour.h`).
const NUD_PERMANENT: u16 = 0x80;
/// Overhead of encapsulation over IPv4 in bytes: Ethernet, IP, UDP and VXLAN headers.
const ENCAPSULATION_BYTES_IPV4: u32 = 50;
/// Overhead of encapsulation over IPv6 in bytes.
const ENCAPSULATION_BYTES_IPV6: u32 = 70;

/// Reasons why the kernel does not match the plan.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel refused a request. `EPERM` means that CAP_NET_ADMIN is missing.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// No link has the source address of encapsulated packets. It may appear later.
    #[error("no link of this node has the address {0}, the source of VXLAN packets")]
    NoUnderlay(IpAddr),
    /// The node has no address.
    #[error("this node has no address except on the loopback link; set one with --node-ip")]
    NoAddress,
    /// nftables is not reachable.
    #[error("cannot use nftables: {0}")]
    Nftables(std::io::Error),
    /// The kernel refused the filter; packets are not encapsulated then.
    #[error("cannot restrict VXLAN packets to those from Nodes: {0}")]
    Filter(#[from] CommitError),
    /// The kernel refused some changes; the others are applied.
    #[error("the kernel refused {count} changes, first: {first}")]
    Partial {
        /// Number of refused changes.
        count: usize,
        /// First error.
        first: RouteError,
    },
}

/// Network of this node, in the namespace in which it was opened.
#[derive(Debug)]
pub struct Kernel {
    connection: Connection,
    /// Opened when the first table is needed.
    nftables: Option<Nftables>,
    applied_filter: Option<Filter>,
}

impl Kernel {
    /// Opens the network in the namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`KernelError::Route`] if no socket can be opened.
    pub fn open() -> Result<Self, KernelError> {
        Ok(Self {
            connection: Connection::open()?,
            nftables: None,
            applied_filter: None,
        })
    }

    /// Applies a plan and returns the changes. A refused change does not stop the others.
    ///
    /// # Errors
    ///
    /// A [`KernelError`]; the caller may retry.
    pub fn apply(&mut self, settings: &Settings, plan: &Plan) -> Result<Changes, KernelError> {
        let link = match settings.network {
            Network::Vxlan { id, port } => {
                // The link opens the port, so the filter is applied first.
                self.filter(Filter {
                    port,
                    local: local_address(settings)?,
                    nodes: plan.sources.clone(),
                })?;
                Some(self.ensure_vxlan_link(settings, id, port)?)
            }
            Network::HostGw | Network::None => {
                self.remove_link()?;
                self.remove_filter()?;
                None
            }
        };
        let present = KernelState {
            routes: self.connection.routes()?,
            link: link.map(|link| self.read_link(link)).transpose()?,
        };
        let changes = Changes::new(plan, &present);
        self.execute(&changes, present.link.as_ref())?;
        Ok(changes)
    }

    /// Writes the filter if it differs from the applied one, or if another program deleted it.
    fn filter(&mut self, filter: Filter) -> Result<(), KernelError> {
        let nftables = match &mut self.nftables {
            Some(nftables) => nftables,
            none => none.insert(Nftables::open().map_err(KernelError::Nftables)?),
        };
        let exists = nftables.table(filter::TABLE).is_ok_and(|table| table.is_some());
        let applied = self.applied_filter.as_ref().filter(|_| exists);
        if applied == Some(&filter) {
            return Ok(());
        }
        self.applied_filter = None;
        nftables.commit(filter::table(&filter))?;
        self.applied_filter = Some(filter);
        Ok(())
    }

    /// Deletes the filter, including that of an earlier process. Returns true if it existed. A kernel without
    /// nftables has none.
    fn remove_filter(&mut self) -> Result<bool, KernelError> {
        self.applied_filter = None;
        let Some(mut nftables) = self.nftables.take().or_else(|| Nftables::open().ok()) else {
            return Ok(false);
        };
        if !nftables.table(filter::TABLE).is_ok_and(|table| table.is_some()) {
            return Ok(false);
        }
        Ok(nftables.delete_table(TableFamily::Inet, filter::TABLE)?)
    }

    fn execute(&mut self, changes: &Changes, link: Option<&VxlanState>) -> Result<(), KernelError> {
        let mut refusals = Refusals::default();
        let kernel = &mut self.connection;
        for route in &changes.removed_routes {
            refusals.ignore_absent(kernel.delete_route(route));
        }
        if let Some(link) = link.map(|link| link.index) {
            for entry in &changes.removed_entries {
                refusals.ignore_absent(kernel.delete_forwarding_entry(link, entry));
            }
            for gateway in &changes.removed_neighbours {
                refusals.ignore_absent(kernel.delete_neighbour(link, *gateway));
            }
            for address in &changes.removed_addresses {
                refusals.ignore_absent(kernel.delete_address(link, *address));
            }
            for address in &changes.addresses {
                refusals.record(kernel.add_address(link, *address));
            }
            for entry in &changes.entries {
                refusals.record(kernel.replace_forwarding_entry(link, entry));
            }
            for (gateway, ethernet) in &changes.neighbours {
                refusals.record(kernel.replace_neighbour(link, *gateway, *ethernet));
            }
        }
        for route in &changes.routes {
            refusals.record(kernel.add_route(route));
        }
        refusals.result()
    }

    /// Returns the VXLAN link; creates it again if its settings differ.
    fn ensure_vxlan_link(&mut self, settings: &Settings, id: u32, port: u16) -> Result<Link, KernelError> {
        let local = local_address(settings)?;
        let addresses = self.connection.addresses()?;
        let underlay = addresses
            .iter()
            .find(|address| address.network.addr() == local)
            .map(|address| address.link)
            .ok_or(KernelError::NoUnderlay(local))?;
        let links = self.connection.links()?;
        let underlay_link = links.iter().find(|link| link.index == underlay);
        let added_bytes = if local.is_ipv4() {
            ENCAPSULATION_BYTES_IPV4
        } else {
            ENCAPSULATION_BYTES_IPV6
        };
        let mtu_bytes = underlay_link
            .map_or(0, |link| link.mtu_bytes)
            .saturating_sub(added_bytes);
        let (ethernet, name): (_, LinkName) = (ethernet_of(&settings.node_name), LINK.parse()?);
        let vxlan = Vxlan {
            id,
            port,
            local,
            underlay,
        };
        let fits = |link: &Link| link.vxlan == Some(vxlan) && link.ethernet == Some(ethernet);
        let present = links.iter().find(|link| link.name == LINK);
        if !present.is_some_and(fits) {
            if present.is_some() {
                self.remove_link()?;
            }
            self.connection.add_vxlan(&name, &vxlan, ethernet, mtu_bytes)?;
        }
        let index = self.connection.link_index(&name)?;
        let is_current = present.is_some_and(|link| fits(link) && link.is_up && link.mtu_bytes == mtu_bytes);
        if !is_current {
            let change = LinkChange {
                mtu_bytes: Some(mtu_bytes),
                ..LinkChange::up()
            };
            self.connection.change_link(index, &change)?;
        }
        let link = self.connection.link(&name)?;
        link.ok_or_else(|| {
            KernelError::Route(RouteError::NoLink {
                operation: "look up the VXLAN link".to_owned(),
                name: LINK.to_owned(),
            })
        })
    }

    fn read_link(&mut self, link: Link) -> Result<VxlanState, KernelError> {
        let index = link.index;
        let neighbours = self
            .connection
            .neighbours()?
            .into_iter()
            .filter(|neighbour| neighbour.link == index);
        let permanent = neighbours.filter(|neighbour| neighbour.state & NUD_PERMANENT != 0);
        let addresses = self.connection.addresses()?.into_iter();
        let own = addresses.filter(|address| address.link == index && address.is_global());
        Ok(VxlanState {
            index,
            entries: self.connection.forwarding_entries(index)?.into_iter().collect(),
            neighbours: permanent
                .filter_map(|neighbour| Some((neighbour.address, neighbour.ethernet?)))
                .collect(),
            addresses: own.map(|address| address.network).collect(),
        })
    }

    fn remove_link(&mut self) -> Result<(), KernelError> {
        match self.connection.delete_link(&LINK.parse()?) {
            Err(error) if !error.is_absent() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Removes all routes, the link and the filter of this component. Returns descriptions of the removed objects.
///
/// # Errors
///
/// A [`KernelError`] if the kernel refuses.
pub fn remove_all() -> Result<Vec<String>, KernelError> {
    let mut kernel = Kernel::open()?;
    let (mut removed, mut refusals) = (Vec::new(), Refusals::default());
    let routes = kernel.connection.routes()?;
    for route in routes.iter().filter(|route| route.protocol == PROTOCOL) {
        refusals.ignore_absent(kernel.connection.delete_route(route));
        removed.push(format!("route to {}", route.destination));
    }
    if kernel.connection.link(&LINK.parse()?)?.is_some() {
        kernel.remove_link()?;
        removed.push(format!("link {LINK}"));
    }
    if kernel.remove_filter()? {
        removed.push(format!("table {}", filter::TABLE));
    }
    refusals.result()?;
    Ok(removed)
}

/// Returns the source address of encapsulated packets.
fn local_address(settings: &Settings) -> Result<IpAddr, KernelError> {
    settings.node_ips.first().copied().ok_or(KernelError::NoAddress)
}

/// Collector of refused changes.
#[derive(Default)]
struct Refusals {
    count: usize,
    first: Option<RouteError>,
}

impl Refusals {
    fn record(&mut self, result: Result<(), RouteError>) {
        if let Err(error) = result {
            self.count += 1;
            self.first.get_or_insert(error);
        }
    }

    fn ignore_absent(&mut self, result: Result<(), RouteError>) {
        match result {
            Err(error) if error.is_absent() => {}
            other => self.record(other),
        }
    }

    fn result(self) -> Result<(), KernelError> {
        match self.first {
            Some(first) => Err(KernelError::Partial {
                count: self.count,
                first,
            }),
            None => Ok(()),
        }
    }
}
