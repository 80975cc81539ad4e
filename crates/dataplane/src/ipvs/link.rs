//! Link `kube-ipvs0`: a dummy that holds the addresses of virtual servers, so that this node takes their packets (IPV-01).

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkIndex, LinkName, RouteError};

/// Name of the link, which is kube-proxy's.
pub const NAME: &str = "kube-ipvs0";

/// Group of the link, by which Portolan's link differs from kube-proxy's. The number is arbitrary.
const GROUP: u32 = 0x706f_7274;

/// The link with its addresses.
#[derive(Debug)]
pub(super) struct ServiceLink {
    connection: Connection,
    index: LinkIndex,
}

impl ServiceLink {
    /// Opens the link in the network namespace of the calling thread; creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses, for example because it has no dummy links.
    pub(super) fn open() -> Result<Self, RouteError> {
        let name: LinkName = NAME.parse()?;
        let mut connection = Connection::open()?;
        match connection.add_dummy(&name) {
            Err(error) if !error.is_already_present() => return Err(error),
            _ => {}
        }
        let index = connection.link_index(&name)?;
        let own = LinkChange {
            group: Some(GROUP),
            ..LinkChange::default()
        };
        connection.change_link(index, &own)?;
        Ok(Self { connection, index })
    }

    /// Deletes the link if it exists, and belongs to Portolan if `only_own`. Returns true if it did.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub(super) fn delete(only_own: bool) -> Result<bool, RouteError> {
        let name: LinkName = NAME.parse()?;
        let mut connection = Connection::open()?;
        let link = connection.link(&name)?;
        let exists = link.is_some_and(|link| !only_own || link.group == GROUP);
        if exists {
            connection.delete_link(&name)?;
        }
        Ok(exists)
    }

    /// Returns the addresses of the link, without those that the kernel assigns itself.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub(super) fn addresses(&mut self) -> Result<BTreeSet<IpAddr>, RouteError> {
        let all = self.connection.addresses()?.into_iter();
        let own = all.filter(|address| address.link == self.index && address.is_global());
        Ok(own.map(|address| address.network.addr()).collect())
    }

    /// Adds an address if the link does not have it.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub(super) fn add(&mut self, address: IpAddr) -> Result<(), RouteError> {
        match self.connection.add_address(self.index, IpNet::from(address)) {
            Err(error) if !error.is_already_present() => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes an address if the link has it.
    ///
    /// # Errors
    ///
    /// A [`RouteError`] if the kernel refuses.
    pub(super) fn remove(&mut self, address: IpAddr) -> Result<(), RouteError> {
        match self.connection.delete_address(self.index, IpNet::from(address)) {
            Err(error) if !error.is_absent() => Err(error),
            _ => Ok(()),
        }
    }
}
