//! Names that another resolver knows, once they are in the cache.

use std::net::{SocketAddr, UdpSocket};

use clap::Args;
use testbed::Member;

use super::{Place, wait_for_answer};
use crate::Failure;

/// What every name is said to have: 192.0.2.1, for an hour.
const RECORD: [u8; 16] = [0xC0, 12, 0, 1, 0, 1, 0, 0, 0x0E, 0x10, 0, 4, 192, 0, 2, 1];

/// Flags of `bench dns forwarded`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Names
    #[arg(long, default_value_t = 10_000)]
    names: usize,
}

/// Starts a resolver that knows every name, in the member's namespace; its address.
pub fn start_upstream(member: &Member) -> Result<SocketAddr, Failure> {
    let address = SocketAddr::from((member.plan.address.ipv4, 53));
    let socket = member.enter(|| UdpSocket::bind(address))??;
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            if let Some(answer) = answer(&buffer[..length]) {
                // A server that is gone is no concern of the resolver's.
                drop(socket.send_to(&answer, client));
            }
        }
    });
    Ok(address)
}

fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let end = 12 + query.get(12..)?.iter().position(|octet| *octet == 0)? + 5;
    let mut answer = query.get(..end)?.to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x80]);
    answer[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
    answer.extend(RECORD);
    Some(answer)
}

/// Runs the case.
pub fn run(flags: &Flags, place: &Place<'_>) -> Result<(), Failure> {
    let names: Vec<String> = (0..flags.names.max(1))
        .map(|number| format!("n-{number}.bench.example"))
        .collect();
    place.node()?.enter(|| {
        names
            .iter()
            .try_for_each(|name| wait_for_answer(place.listen, name))
    })??;
    println!("{} forwarded names are in the cache", names.len());
    place.measure_rate(&names)
}
