//! UDP datagrams and DNS queries.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use dns::wire::{Name, Question, RecordValue, Records};
use explain::observation::Outcome;

use super::ProbeAnswer;

/// Maximum number of bytes of a response.
const RESPONSE_BYTES_MAX: usize = 4 << 10;
/// Bit of a response in the flags of a DNS message.
const IS_RESPONSE: u8 = 0x80;
/// Bits of the response code.
const CODE_BITS: u8 = 0xf;

/// Sends an empty datagram; `None` without a response, because most servers send none.
pub(super) fn send_empty(target: SocketAddr, timeout: Duration) -> Option<ProbeAnswer> {
    let start = Instant::now();
    let answer = match exchange(target, &[], timeout, |_| true) {
        Ok(_) => ProbeAnswer::of(Outcome::Answered, start.elapsed()),
        Err(error) => ProbeAnswer::failed(&error, start.elapsed()),
    };
    (answer.outcome != Outcome::Timeout).then_some(answer)
}

/// Sends a DNS query for a name.
pub(super) fn send_dns_query(server: SocketAddr, name: &str, kind: u16, timeout: Duration) -> ProbeAnswer {
    let start = Instant::now();
    let name = match Name::from_text(name) {
        Ok(name) => name,
        Err(error) => return ProbeAnswer::failed(&io::Error::other(error.to_string()), start.elapsed()),
    };
    let id = fastrand::u16(..);
    let query = Question::about(name, kind).encode(id, None);
    let is_own = |response: &[u8]| {
        response.get(..2) == Some(&id.to_be_bytes()[..])
            && response.get(2).is_some_and(|flags| flags & IS_RESPONSE != 0)
    };
    match exchange(server, &query, timeout, is_own) {
        Ok(response) => {
            let code = response.get(3).map_or(0, |flags| flags & CODE_BITS);
            ProbeAnswer {
                answers: Some(addresses(&response)),
                detail: Some(format!("server {server}")),
                ..ProbeAnswer::of(outcome_of_code(code), start.elapsed())
            }
        }
        Err(error) => ProbeAnswer {
            detail: Some(format!("server {server}: {error}")),
            ..ProbeAnswer::failed(&error, start.elapsed())
        },
    }
}

fn outcome_of_code(code: u8) -> Outcome {
    match code {
        0 => Outcome::Answered,
        2 => Outcome::Servfail,
        3 => Outcome::Nxdomain,
        5 => Outcome::Refused,
        _ => Outcome::Other,
    }
}

fn addresses(response: &[u8]) -> Vec<String> {
    let addresses = Records::of(response).filter_map(|record| match record.value {
        RecordValue::A(address) => Some(address.to_string()),
        RecordValue::Aaaa(address) => Some(address.to_string()),
        RecordValue::Cname(_) => None,
    });
    addresses.collect()
}

/// Sends a datagram and waits for a response that `is_own` accepts. The socket is connected, so that ICMP errors are
/// reported.
fn exchange(
    target: SocketAddr,
    message: &[u8],
    timeout: Duration,
    is_own: impl Fn(&[u8]) -> bool,
) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let deadline = Instant::now() + timeout;
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    socket.send(message)?;
    let mut response = vec![0; RESPONSE_BYTES_MAX];
    loop {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        socket.set_read_timeout(Some(remaining))?;
        let length = socket.recv(&mut response)?;
        let received = response.get(..length).unwrap_or_default();
        if is_own(received) {
            return Ok(received.to_vec());
        }
    }
}
