//! DNS queries over UDP, and the addresses in their responses (RFC 1035, section 4.1).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::Failure;

/// RCODE of a successful query.
pub(crate) const RCODE_NO_ERROR: u8 = 0;
/// Number of queries in flight.
const WINDOW: u16 = 64;
/// Time without any response after which the queries in flight count as lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(100);

/// Encodes a query for the A records of a name.
pub(crate) fn query(id: u16, name: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend_from_slice(&u16::to_be_bytes(word));
    }
    message.extend(encode_name(name));
    message.extend_from_slice(&[0, 1, 0, 1]);
    message
}

/// Encodes a name.
pub(crate) fn encode_name(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| {
        let length = label.len() as u8;
        std::iter::once(length).chain(label.bytes())
    });
    labels.chain([0]).collect()
}

/// Opens a socket that is connected to a server, in the namespace of the current thread.
pub(crate) fn connect(server: SocketAddr) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(LOSS_TIMEOUT))?;
    Ok(socket)
}

/// Parsed response.
pub(crate) struct Response {
    /// Identifier of the query.
    pub id: u16,
    /// Name in the query, encoded.
    pub name: Vec<u8>,
    /// Response code.
    pub rcode: u8,
    /// Addresses of the A records, in order.
    pub addresses: Vec<Ipv4Addr>,
}

impl Response {
    /// Parses a response with compressed owner names.
    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
        let name_end = 12 + message.get(12..)?.iter().position(|octet| *octet == 0)? + 1;
        let mut at = name_end + 4;
        let mut addresses = Vec::new();
        for _ in 0..word(6)? {
            if message.get(at)? & 0xC0 != 0xC0 {
                return None;
            }
            let length = usize::from(word(at + 10)?);
            let content = message.get(at + 12..at + 12 + length)?;
            if word(at + 2)? == 1 {
                addresses.push(Ipv4Addr::from(<[u8; 4]>::try_from(content).ok()?));
            }
            at += 12 + length;
        }
        Some(Self {
            id: word(0)?,
            name: message.get(12..name_end)?.to_vec(),
            rcode: message.get(3)? & 0x0F,
            addresses,
        })
    }
}

/// Window of queries in flight: each response releases the next query.
pub(crate) struct Window {
    socket: UdpSocket,
    /// Time of the query in each slot; the slot is the identifier.
    sent: Vec<Instant>,
}

impl Window {
    /// Creates a window on a socket.
    pub(crate) fn new(socket: UdpSocket) -> Self {
        let sent = vec![Instant::now(); usize::from(WINDOW)];
        Self { socket, sent }
    }

    /// Sends queries until `end` and returns the number of responses. `next` encodes the query of a slot,
    /// `check` gets each response with its slot and the time of its query. Responses in flight at the end are
    /// received, too, so that none arrives in the next run.
    pub(crate) fn run(
        &mut self,
        end: Instant,
        mut next: impl FnMut(usize, u16) -> Vec<u8>,
        mut check: impl FnMut(usize, Instant, &Response) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        for id in 0..WINDOW {
            self.send(id, &mut next)?;
        }
        let (mut responses, mut in_flight) = (0, WINDOW);
        let mut buffer = [0; 4_096];
        while in_flight > 0 {
            let is_running = Instant::now() < end;
            match self.socket.recv(&mut buffer) {
                Ok(length) => {
                    let response = Response::parse(&buffer[..length]).ok_or("malformed response")?;
                    let slot = usize::from(response.id);
                    let sent = *self.sent.get(slot).ok_or("response without a query")?;
                    check(slot, sent, &response)?;
                    responses += 1;
                    if is_running {
                        self.send(response.id, &mut next)?;
                    } else {
                        in_flight -= 1;
                    }
                }
                Err(_) if is_running => {
                    for id in 0..WINDOW {
                        self.send(id, &mut next)?;
                    }
                }
                Err(_) => break,
            }
        }
        Ok(responses)
    }

    fn send(&mut self, id: u16, next: &mut impl FnMut(usize, u16) -> Vec<u8>) -> Result<(), Failure> {
        let message = next(usize::from(id), id);
        self.sent[usize::from(id)] = Instant::now();
        self.socket.send(&message)?;
        Ok(())
    }
}
