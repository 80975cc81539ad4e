//! Sockets of a network namespace, from `/proc/PID/net`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use explain::observation::TransportProtocol;

/// Maximum number of bytes of one file that are read: 400,000 sockets.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Files of TCP and UDP sockets.
const FILES: [(&str, TransportProtocol); 4] = [
    ("tcp", TransportProtocol::Tcp),
    ("tcp6", TransportProtocol::Tcp),
    ("udp", TransportProtocol::Udp),
    ("udp6", TransportProtocol::Udp),
];

/// State of a TCP socket (`TCP_…` of `net/tcp_states.h`); UDP sockets use some of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketState(u8);

impl SocketState {
    /// A TCP socket that accepts connections.
    pub(super) const LISTEN: Self = Self(10);

    /// Returns the name, such as `established`.
    pub(super) fn name(self) -> &'static str {
        const NAMES: [&str; 12] = [
            "established",
            "syn-sent",
            "syn-received",
            "fin-wait-1",
            "fin-wait-2",
            "time-wait",
            "closed",
            "close-wait",
            "last-ack",
            "listen",
            "closing",
            "new-syn-received",
        ];
        let index = usize::from(self.0).checked_sub(1);
        index
            .and_then(|index| NAMES.get(index))
            .copied()
            .unwrap_or("unknown")
    }
}

/// A socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Socket {
    /// Protocol.
    pub protocol: TransportProtocol,
    /// Local address and port.
    pub local: SocketAddr,
    /// Address and port of the peer; unspecified without one.
    pub remote: SocketAddr,
    /// State.
    pub state: SocketState,
    /// Inode, by which processes refer to the socket; 0 for no inode.
    pub inode: u64,
}

impl Socket {
    /// Returns true if the socket accepts connections, or datagrams of any peer.
    pub(super) fn is_listener(&self) -> bool {
        match self.protocol {
            TransportProtocol::Tcp => self.state == SocketState::LISTEN,
            _ => self.remote.port() == 0 && self.local.port() != 0,
        }
    }
}

/// Reads the sockets that `keep` selects, at most `most`. `directory` is the directory `net` of a process. Returns true
/// if there are more.
///
/// # Errors
///
/// The error of the file system. Files of protocols that the kernel lacks are skipped.
pub(super) fn read(
    directory: &Path,
    most: usize,
    keep: impl Fn(&Socket) -> bool,
) -> io::Result<(Vec<Socket>, bool)> {
    let mut sockets = Vec::new();
    let mut is_truncated = false;
    for (file, protocol) in FILES {
        each_line(&directory.join(file), |line| {
            let Some(socket) = parse(protocol, line).filter(|socket| keep(socket)) else {
                return;
            };
            is_truncated |= sockets.len() >= most;
            if sockets.len() < most {
                sockets.push(socket);
            }
        })?;
    }
    each_line(&directory.join("sctp/eps"), |line| {
        let found = parse_sctp(line).into_iter().filter(|socket| keep(socket));
        sockets.extend(found.take(most.saturating_sub(sockets.len())));
    })?;
    Ok((sockets, is_truncated))
}

/// Passes each line after the heading to `each`.
fn each_line(path: &Path, mut each: impl FnMut(&str)) -> io::Result<()> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut input = BufReader::new(file.take(FILE_BYTES_MAX));
    let mut line = String::new();
    let mut is_heading = true;
    while input.read_line(&mut line)? > 0 {
        if !is_heading {
            each(&line);
        }
        is_heading = false;
        line.clear();
    }
    Ok(())
}

/// Parses a line of `tcp`, `tcp6`, `udp` or `udp6` (proc_pid_net(5)).
fn parse(protocol: TransportProtocol, line: &str) -> Option<Socket> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = parse_address(fields.next()?)?;
    let remote = parse_address(fields.next()?)?;
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    // Queues, timer, retransmissions, user and timeout come before the inode.
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Socket {
        protocol,
        local,
        remote,
        state: SocketState(state),
        inode,
    })
}

/// Parses `0100007F:1F90`: the address as 32-bit numbers in host byte order, and the port.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = address.get(index * 8..index * 8 + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    let address: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

/// Parses a line of `sctp/eps`: an endpoint with its port and its addresses.
fn parse_sctp(line: &str) -> Vec<Socket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (Some(port), Some(inode)) = (
        fields.get(5).and_then(|port| port.parse::<u16>().ok()),
        fields.get(7).and_then(|inode| inode.parse().ok()),
    ) else {
        return Vec::new();
    };
    let addresses = fields
        .iter()
        .skip(8)
        .filter_map(|text| text.parse::<IpAddr>().ok());
    addresses
        .map(|address| Socket {
            protocol: TransportProtocol::Sctp,
            local: SocketAddr::new(address, port),
            remote: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0),
            state: SocketState::LISTEN,
            inode,
        })
        .collect()
}

#[cfg(test)]
mod tests;
