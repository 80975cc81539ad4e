//! Questions over UDP and the addresses in their answers (RFC 1035 section 4.1).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::Failure;

/// The response code of a name that exists.
pub const A_CODE_OK: u8 = 0;
/// Questions that are under way at the same time.
const WINDOW: u16 = 64;
/// After so long without any answer the questions under way count as lost.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// An A question for a name.
pub fn question(id: u16, name: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(64);
    for word in [id, 0x0100, 1, 0, 0, 0] {
        message.extend_from_slice(&u16::to_be_bytes(word));
    }
    message.extend(wire(name));
    message.extend_from_slice(&[0, 1, 0, 1]);
    message
}

/// A name in wire form.
pub fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| {
        let length = label.len() as u8;
        std::iter::once(length).chain(label.bytes())
    });
    labels.chain([0]).collect()
}

/// A socket that exchanges packets with one server, in the namespace of this thread.
pub fn connect(server: SocketAddr) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(LOST_AFTER))?;
    Ok(socket)
}

/// What an answer says.
pub struct Answer {
    /// Identifier of its question.
    pub id: u16,
    /// The name asked for, in wire form.
    pub name: Vec<u8>,
    /// The response code.
    pub code: u8,
    /// The addresses of its A records, in their order.
    pub addresses: Vec<Ipv4Addr>,
}

impl Answer {
    /// Reads an answer whose owners are compressed, as those of DNS servers are.
    pub fn read(message: &[u8]) -> Option<Self> {
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
            code: message.get(3)? & 0x0F,
            addresses,
        })
    }
}

/// A window of questions under way: each answer lets the next question go.
pub struct Window {
    socket: UdpSocket,
    /// When the question with this identifier was sent.
    sent: Vec<Instant>,
}

impl Window {
    /// Asks on this socket.
    pub fn new(socket: UdpSocket) -> Self {
        let sent = vec![Instant::now(); usize::from(WINDOW)];
        Self { socket, sent }
    }

    /// Sends what `next` gives for a place in the window, with the place as its identifier, and hands each answer to
    /// `check` with its place and the time when the question was sent, until `end`; then takes in what is under way,
    /// so that no answer meets the questions of the next run. The number of answers.
    pub fn run(
        &mut self,
        end: Instant,
        mut next: impl FnMut(usize, u16) -> Vec<u8>,
        mut check: impl FnMut(usize, Instant, &Answer) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        for id in 0..WINDOW {
            self.send(id, &mut next)?;
        }
        let (mut answered, mut under_way) = (0, WINDOW);
        let mut buffer = [0; 4_096];
        while under_way > 0 {
            let goes_on = Instant::now() < end;
            match self.socket.recv(&mut buffer) {
                Ok(length) => {
                    let answer = Answer::read(&buffer[..length]).ok_or("a malformed answer")?;
                    let place = usize::from(answer.id);
                    let sent = *self.sent.get(place).ok_or("an answer that nobody asked for")?;
                    check(place, sent, &answer)?;
                    answered += 1;
                    if goes_on {
                        self.send(answer.id, &mut next)?;
                    } else {
                        under_way -= 1;
                    }
                }
                Err(_) if goes_on => {
                    for id in 0..WINDOW {
                        self.send(id, &mut next)?;
                    }
                }
                Err(_) => break,
            }
        }
        Ok(answered)
    }

    fn send(&mut self, id: u16, next: &mut impl FnMut(usize, u16) -> Vec<u8>) -> Result<(), Failure> {
        let message = next(usize::from(id), id);
        self.sent[usize::from(id)] = Instant::now();
        self.socket.send(&message)?;
        Ok(())
    }
}
