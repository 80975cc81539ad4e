//! Virtual servers of the kernel (IPVS), by the generic netlink family `IPVS` (`linux/ip_vs.h`).
//!
//! A connection stays in the network namespace in which it was opened, and so do the virtual servers. Virtual servers
//! that match a packet mark are not listed.

mod error;
mod types;
mod wire;

use std::net::SocketAddr;

use crate::message::{Message, Writer};
use crate::socket::{Socket, Subsystem, complete_dump};

pub use error::IpvsError;
pub use types::{Destination, ServerId, Timeouts, VirtualServer};

/// Connection to the virtual servers of one network namespace.
#[derive(Debug)]
pub struct Ipvs {
    socket: Socket,
    /// Number of the generic netlink family.
    family: u16,
}

impl Ipvs {
    /// Opens a connection in the namespace of the calling thread. This needs no privilege; requests need CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// [`IpvsError::Missing`] if the kernel has no IPVS, or its module is not loaded.
    pub fn open() -> Result<Self, IpvsError> {
        let mut socket = Socket::open(Subsystem::Generic).map_err(|source| IpvsError::Socket { source })?;
        let sequence = socket.next_sequence();
        let request = wire::family_request(sequence);
        let mut family = None;
        let outcome = socket.exchange(&request, sequence, |message| {
            family = family.or(wire::read_family(message));
        });
        match (outcome, family) {
            (Ok(_), Some(family)) => Ok(Self { socket, family }),
            (Ok(_), None) => Err(IpvsError::Missing),
            (Err(source), _) if source.raw_os_error() == Some(libc::ENOENT) => Err(IpvsError::Missing),
            (Err(source), _) => Err(IpvsError::Kernel {
                operation: "look up the netlink family IPVS".to_owned(),
                source,
            }),
        }
    }

    /// Returns all virtual servers with an address.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`] if the kernel refuses.
    pub fn servers(&mut self) -> Result<Vec<VirtualServer>, IpvsError> {
        self.dump(
            "list virtual servers",
            wire::GET_SERVICE,
            |_| {},
            wire::read_server,
        )
    }

    /// Returns the destinations of a virtual server.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`]; [`IpvsError::is_absent`] if there is no such server. Some kernels return no destinations then.
    pub fn destinations(&mut self, server: ServerId) -> Result<Vec<Destination>, IpvsError> {
        self.dump(
            &format!("list destinations of {server}"),
            wire::GET_DESTINATION,
            |writer| wire::write_id(writer, server),
            |message| wire::read_destination(message, server),
        )
    }

    /// Adds a virtual server without destinations.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`]; [`IpvsError::is_already_present`] if it exists, [`IpvsError::is_absent`] if the kernel lacks
    /// the scheduler.
    pub fn add_server(&mut self, server: &VirtualServer) -> Result<(), IpvsError> {
        let operation = || format!("add virtual server {}", server.id);
        self.change(operation, wire::NEW_SERVICE, |writer| {
            wire::write_server(writer, server)
        })
    }

    /// Changes scheduler, flags and persistence of a virtual server. Its destinations and connections stay.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`]; [`IpvsError::is_absent`] if there is no such server or scheduler.
    pub fn change_server(&mut self, server: &VirtualServer) -> Result<(), IpvsError> {
        let operation = || format!("change virtual server {}", server.id);
        self.change(operation, wire::SET_SERVICE, |writer| {
            wire::write_server(writer, server)
        })
    }

    /// Deletes a virtual server with its destinations.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`]; [`IpvsError::is_absent`] if there is no such server.
    pub fn delete_server(&mut self, server: ServerId) -> Result<(), IpvsError> {
        let operation = || format!("delete virtual server {server}");
        self.change(operation, wire::DELETE_SERVICE, |writer| {
            wire::write_id(writer, server)
        })
    }

    /// Adds a destination, to which packets are sent with a translated address.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`]; [`IpvsError::is_already_present`] if it exists.
    pub fn add_destination(
        &mut self,
        server: ServerId,
        address: SocketAddr,
        weight: u32,
    ) -> Result<(), IpvsError> {
        let operation = || format!("add destination {address} to {server}");
        self.change(operation, wire::NEW_DESTINATION, |writer| {
            wire::write_id(writer, server);
            wire::write_destination(writer, address, weight);
        })
    }

    /// Changes the weight of a destination. It receives no new connections with weight 0.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`]; [`IpvsError::is_absent`] if there is no such destination.
    pub fn change_destination(
        &mut self,
        server: ServerId,
        address: SocketAddr,
        weight: u32,
    ) -> Result<(), IpvsError> {
        let operation = || format!("change destination {address} of {server}");
        self.change(operation, wire::SET_DESTINATION, |writer| {
            wire::write_id(writer, server);
            wire::write_destination(writer, address, weight);
        })
    }

    /// Deletes a destination. Its connections end.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`]; [`IpvsError::is_absent`] if there is no such destination.
    pub fn delete_destination(&mut self, server: ServerId, address: SocketAddr) -> Result<(), IpvsError> {
        let operation = || format!("delete destination {address} of {server}");
        self.change(operation, wire::DELETE_DESTINATION, |writer| {
            wire::write_id(writer, server);
            wire::write_destination(writer, address, 0);
        })
    }

    /// Sets the timeouts of connections. A timeout of 0 leaves the current one.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`] if the kernel refuses.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<(), IpvsError> {
        let operation = || "set timeouts of IPVS".to_owned();
        self.change(operation, wire::SET_CONFIG, |writer| {
            wire::write_timeouts(writer, timeouts)
        })
    }

    /// Deletes all virtual servers.
    ///
    /// # Errors
    ///
    /// An [`IpvsError`] if the kernel refuses.
    pub fn flush(&mut self) -> Result<(), IpvsError> {
        self.change(|| "delete all virtual servers".to_owned(), wire::FLUSH, |_| {})
    }

    fn change(
        &mut self,
        operation: impl Fn() -> String,
        command: u8,
        write: impl Fn(&mut Writer),
    ) -> Result<(), IpvsError> {
        let sequence = self.socket.next_sequence();
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let request = wire::request(self.family, command, flags, sequence, write);
        let outcome = self.socket.exchange(&request, sequence, |_| {});
        outcome
            .map(drop)
            .map_err(|source| IpvsError::from_kernel(operation(), source))
    }

    fn dump<T>(
        &mut self,
        operation: &str,
        command: u8,
        write: impl Fn(&mut Writer),
        read: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<Vec<T>, IpvsError> {
        let dumped = complete_dump(|| -> Result<(Vec<T>, bool), IpvsError> {
            let mut entries = Vec::new();
            let sequence = self.socket.next_sequence();
            let flags = libc::NLM_F_REQUEST | libc::NLM_F_DUMP;
            let request = wire::request(self.family, command, flags, sequence, &write);
            let outcome = self
                .socket
                .exchange(&request, sequence, |message| entries.extend(read(message)));
            let outcome = outcome.map_err(|source| IpvsError::from_kernel(operation.to_owned(), source))?;
            Ok((entries, outcome.is_inconsistent))
        })?;
        dumped.ok_or_else(|| IpvsError::Inconsistent {
            operation: operation.to_owned(),
        })
    }
}

/// Decodes a message, for the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &Message<'_>) {
    wire::read_family(message);
    if let Some(server) = wire::read_server(message) {
        wire::read_destination(message, server.id);
    }
}

#[cfg(test)]
mod tests;
