//! Addresses that are this machine's own as long as it has them: a route each in the kernel's table `local`, which makes
//! it take packets for them without any link having them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use netlink::route::{Action, Connection, LinkIndex, LinkName, Route, RouteError};

/// By which number in the kernel our routes are known (`rtm_protocol`; above all that `rtnetlink.h` names).
const PROTOCOL: u8 = 217;

/// The local addresses of this process, and those that a predecessor left.
pub struct LocalAddresses {
    connection: Connection,
    loopback: LinkIndex,
    are: BTreeSet<IpAddr>,
}

impl LocalAddresses {
    /// Finds what a predecessor left.
    ///
    /// # Errors
    /// The kernel does not list its routes.
    pub fn open() -> Result<Self, RouteError> {
        let mut connection = Connection::open()?;
        let loopback: LinkName = "lo".parse()?;
        let loopback = connection.link_index(&loopback)?;
        let routes = connection.local_routes()?.into_iter();
        let ours = routes.filter(|route| route.protocol == PROTOCOL && is_address(route.destination));
        let are = ours.map(|route| route.destination.addr()).collect();
        Ok(Self {
            connection,
            loopback,
            are,
        })
    }

    /// The addresses that are local now.
    pub fn are(&self) -> &BTreeSet<IpAddr> {
        &self.are
    }

    /// Makes one local. Others may have made it so: then it stays theirs.
    ///
    /// # Errors
    /// The kernel refuses, most likely for want of `CAP_NET_ADMIN`.
    pub fn add(&mut self, address: IpAddr) -> Result<(), RouteError> {
        if self.are.contains(&address) {
            return Ok(());
        }
        match self.connection.add_route(&self.route(address)) {
            Err(error) if !error.is_exists() => Err(error),
            _ => {
                self.are.insert(address);
                Ok(())
            }
        }
    }

    /// Makes one foreign again.
    ///
    /// # Errors
    /// The kernel refuses; the next try may succeed.
    pub fn remove(&mut self, address: IpAddr) -> Result<(), RouteError> {
        if !self.are.contains(&address) {
            return Ok(());
        }
        match self.connection.delete_route(&self.route(address)) {
            Err(error) if !error.is_absent() => Err(error),
            _ => {
                self.are.remove(&address);
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

fn is_address(range: IpNet) -> bool {
    range.prefix_len() == range.max_prefix_len()
}

#[cfg(test)]
mod tests;
