//! The rim: what the kernel has, and changing it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use netlink::nftables::{CommitError, Nftables, TableFamily};
use netlink::route::{Connection, Link, LinkChange, LinkName, RouteError, Vxlan};

use crate::filter;
use crate::plan::PresentLink;
use crate::{Changes, LINK, Network, PROTOCOL, Plan, Present, Settings, ethernet_of};

/// A neighbour that somebody has set, not learned (`neighbour.h`).
const NUD_PERMANENT: u16 = 0x80;
/// Bytes that wrapping adds: Ethernet, IP, UDP and VXLAN headers.
const WRAPPING_BYTES_IPV4: u32 = 50;
/// The same over IPv6.
const WRAPPING_BYTES_IPV6: u32 = 70;

/// Why the kernel does not have what it should.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel refuses. `EPERM`: CAP_NET_ADMIN is missing.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// No link has the address that wrapped packets are to come from. It may come later.
    #[error("no link of this machine has the address {0}, from which wrapped packets are to come")]
    NoUnderlay(IpAddr),
    /// This machine has no address.
    #[error("this machine has no address beyond the loopback link; name one with --node-ip")]
    NoAddress,
    /// The kernel cannot be asked for its tables.
    #[error("nftables: {0}")]
    Nftables(std::io::Error),
    /// The kernel refuses the table that keeps wrapped packets of strangers out: packets are not wrapped then.
    #[error("keeping wrapped packets of others out: {0}")]
    Filter(#[from] CommitError),
    /// Some changes were refused; the others are made. With the first reason.
    #[error("{count} of the changes were refused, the first one: {first}")]
    Some {
        /// How many.
        count: usize,
        /// The first reason.
        first: RouteError,
    },
}

/// The network of this machine, in the namespace in which it was opened.
#[derive(Debug)]
pub struct Kernel {
    connection: Connection,
    /// Opened with the first table that is needed.
    nftables: Option<Nftables>,
    /// The port and the sources of the table in force.
    filtered: Option<(u16, BTreeSet<IpAddr>)>,
}

impl Kernel {
    /// Opens it, in the namespace of the calling thread.
    ///
    /// # Errors
    /// [`KernelError::Route`].
    pub fn open() -> Result<Self, KernelError> {
        Ok(Self {
            connection: Connection::open()?,
            nftables: None,
            filtered: None,
        })
    }

    /// Brings the kernel to what a plan says; returns what was changed. One change that is refused holds up no other.
    ///
    /// # Errors
    /// See [`KernelError`].
    pub fn apply(&mut self, settings: &Settings, plan: &Plan) -> Result<Changes, KernelError> {
        let link = match settings.network {
            Network::Vxlan { id, port } => {
                // The link opens the port, so strangers are kept out before.
                self.filter(port, &plan.sources)?;
                Some(self.wrapping_link(settings, id, port)?)
            }
            Network::HostGw | Network::None => {
                self.remove_link()?;
                self.remove_filter()?;
                None
            }
        };
        let present = Present {
            routes: self.connection.routes()?,
            link: link.map(|link| self.read_link(link)).transpose()?,
        };
        let changes = Changes::new(plan, &present);
        self.carry_out(&changes, present.link.as_ref())?;
        Ok(changes)
    }

    /// Writes the table if it is not as it should be, also when somebody has taken it away.
    fn filter(&mut self, port: u16, sources: &BTreeSet<IpAddr>) -> Result<(), KernelError> {
        let nftables = match &mut self.nftables {
            Some(nftables) => nftables,
            none => none.insert(Nftables::open().map_err(KernelError::Nftables)?),
        };
        let is_there = nftables.table(filter::TABLE).is_ok_and(|table| table.is_some());
        let in_force = self.filtered.as_ref().filter(|_| is_there);
        if in_force.is_some_and(|(its_port, its_sources)| *its_port == port && its_sources == sources) {
            return Ok(());
        }
        self.filtered = None;
        nftables.commit(filter::table(port, sources))?;
        self.filtered = Some((port, sources.clone()));
        Ok(())
    }

    /// Takes the table away, also one of a process of before; whether there was one. A kernel without nftables has none.
    fn remove_filter(&mut self) -> Result<bool, KernelError> {
        self.filtered = None;
        let Some(mut nftables) = self.nftables.take().or_else(|| Nftables::open().ok()) else {
            return Ok(false);
        };
        if !nftables.table(filter::TABLE).is_ok_and(|table| table.is_some()) {
            return Ok(false);
        }
        Ok(nftables.delete_table(TableFamily::Inet, filter::TABLE)?)
    }

    fn carry_out(&mut self, changes: &Changes, link: Option<&PresentLink>) -> Result<(), KernelError> {
        let mut refused = Refused::default();
        let kernel = &mut self.connection;
        for route in &changes.removed_routes {
            refused.unless_absent(kernel.delete_route(route));
        }
        if let Some(link) = link.map(|link| link.index) {
            for entry in &changes.removed_entries {
                refused.unless_absent(kernel.delete_forwarding_entry(link, entry));
            }
            for router in &changes.removed_neighbours {
                refused.unless_absent(kernel.delete_neighbour(link, *router));
            }
            for address in &changes.removed_addresses {
                refused.unless_absent(kernel.delete_address(link, *address));
            }
            for address in &changes.addresses {
                refused.take(kernel.add_address(link, *address));
            }
            for entry in &changes.entries {
                refused.take(kernel.replace_forwarding_entry(link, entry));
            }
            for (router, ethernet) in &changes.neighbours {
                refused.take(kernel.replace_neighbour(link, *router, *ethernet));
            }
        }
        for route in &changes.routes {
            refused.take(kernel.add_route(route));
        }
        refused.result()
    }

    /// The link that wraps packets, made anew if it wraps them otherwise.
    fn wrapping_link(&mut self, settings: &Settings, id: u32, port: u16) -> Result<Link, KernelError> {
        let local = *settings.node_ips.first().ok_or(KernelError::NoAddress)?;
        let addresses = self.connection.addresses()?;
        let underlay = addresses
            .iter()
            .find(|address| address.network.addr() == local)
            .map(|address| address.link)
            .ok_or(KernelError::NoUnderlay(local))?;
        let links = self.connection.links()?;
        let beneath = links.iter().find(|link| link.index == underlay);
        let added_bytes = if local.is_ipv4() {
            WRAPPING_BYTES_IPV4
        } else {
            WRAPPING_BYTES_IPV6
        };
        let mtu_bytes = beneath
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
        let is_right = present.is_some_and(|link| fits(link) && link.is_up && link.mtu_bytes == mtu_bytes);
        if !is_right {
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

    fn read_link(&mut self, link: Link) -> Result<PresentLink, KernelError> {
        let index = link.index;
        let neighbours = self
            .connection
            .neighbours()?
            .into_iter()
            .filter(|neighbour| neighbour.link == index);
        let permanent = neighbours.filter(|neighbour| neighbour.state & NUD_PERMANENT != 0);
        let addresses = self.connection.addresses()?.into_iter();
        let own = addresses.filter(|address| address.link == index && address.is_global());
        Ok(PresentLink {
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

/// Takes all that is ours out of the kernel: routes and link. What was removed, for people.
///
/// # Errors
/// See [`KernelError`].
pub fn remove_all() -> Result<Vec<String>, KernelError> {
    let mut kernel = Kernel::open()?;
    let (mut removed, mut refused) = (Vec::new(), Refused::default());
    let routes = kernel.connection.routes()?;
    for route in routes.iter().filter(|route| route.protocol == PROTOCOL) {
        refused.unless_absent(kernel.connection.delete_route(route));
        removed.push(format!("route to {}", route.destination));
    }
    if kernel.connection.link(&LINK.parse()?)?.is_some() {
        kernel.remove_link()?;
        removed.push(format!("link {LINK}"));
    }
    if kernel.remove_filter()? {
        removed.push(format!("table {}", filter::TABLE));
    }
    refused.result()?;
    Ok(removed)
}

/// Counts what the kernel refuses.
#[derive(Default)]
struct Refused {
    count: usize,
    first: Option<RouteError>,
}

impl Refused {
    fn take(&mut self, result: Result<(), RouteError>) {
        if let Err(error) = result {
            self.count += 1;
            self.first.get_or_insert(error);
        }
    }

    fn unless_absent(&mut self, result: Result<(), RouteError>) {
        match result {
            Err(error) if error.is_absent() => {}
            other => self.take(other),
        }
    }

    fn result(self) -> Result<(), KernelError> {
        match self.first {
            Some(first) => Err(KernelError::Some {
                count: self.count,
                first,
            }),
            None => Ok(()),
        }
    }
}
