//! Local addresses of the node: a route for each in the kernel's table `local`. The kernel accepts packets for such an
//! address although no link has it.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink::route::{Action, Connection, LinkIndex, LinkName, Route, RouteError};

/// Protocol number of the routes (`rtm_protocol`), above all numbers that `rtnetlink.h` defines.
const PROTOCOL: u8 = 217;

/// Addresses that this process or its predecessor made local.
pub struct LocalAddresses {
    connection: Connection,
    loopback: LinkIndex,
    present: BTreeSet<IpAddr>,
}

impl LocalAddresses {
    /// Opens a netlink connection and reads the addresses of a predecessor.
    ///
    /// # Errors
    /// The kernel does not list its routes.
    pub fn open() -> Result<Self, RouteError> {
        let mut connection = Connection::open()?;
        let loopback: LinkName = "lo".parse()?;
        let loopback = connection.link_index(&loopback)?;
        let present = read(&mut connection)?;
        Ok(Self {
            connection,
            loopback,
            present,
        })
    }

    /// Returns the current addresses.
    pub fn present(&self) -> &BTreeSet<IpAddr> {
        &self.present
    }

    /// Reads the addresses again. Returns those that another process has made local since. They are present from now
    /// on.
    ///
    /// # Errors
    /// The kernel does not list its routes.
    pub fn find_others(&mut self) -> Result<BTreeSet<IpAddr>, RouteError> {
        let mut others = read(&mut self.connection)?;
        others.retain(|address| !self.present.contains(address));
        self.present.extend(&others);
        Ok(others)
    }

    /// Makes an address local. An existing route of another program stays in place.
    ///
    /// # Errors
    /// The kernel refuses, usually because `CAP_NET_ADMIN` is missing.
    pub fn add(&mut self, address: IpAddr) -> Result<(), RouteError> {
        if self.present.contains(&address) {
            return Ok(());
        }
        match self.connection.add_route(&self.route(address)) {
            Err(error) if !error.is_already_present() => Err(error),
            _ => {
                self.present.insert(address);
                Ok(())
            }
        }
    }

    /// Removes a local address.
    ///
    /// # Errors
    /// The kernel refuses; a retry may succeed.
    pub fn remove(&mut self, address: IpAddr) -> Result<(), RouteError> {
        if !self.present.contains(&address) {
            return Ok(());
        }
        match self.connection.delete_route(&self.route(address)) {
            Err(error) if !error.is_absent() => Err(error),
            _ => {
                self.present.remove(&address);
                Ok(())
            }
        }
    }

    fn route(&self, address: IpAddr) -> Route {
        Route {
            protocol: PROTOCOL,
            ..Route::new(IpNet::from(address), Action::Local(self.loopback))
        }
    }
}

/// Reads the addresses of all processes.
fn read(connection: &mut Connection) -> Result<BTreeSet<IpAddr>, RouteError> {
    let routes = connection.local_routes()?.into_iter();
    let ours = routes.filter(|route| route.protocol == PROTOCOL && is_host_route(route.destination));
    Ok(ours.map(|route| route.destination.addr()).collect())
}

fn is_host_route(destination: IpNet) -> bool {
    destination.prefix_len() == destination.max_prefix_len()
}

#[cfg(test)]
mod tests;
