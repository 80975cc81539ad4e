//! Queries for cached names of another resolver.

use std::net::{SocketAddr, UdpSocket};

use clap::Args;
use testbed::Member;

use super::{Context, wait_for_address};
use crate::Failure;

/// Record of every name: 192.0.2.1 with a TTL of one hour.
const RECORD: [u8; 16] = [0xC0, 12, 0, 1, 0, 1, 0, 0, 0x0E, 0x10, 0, 4, 192, 0, 2, 1];

/// Flags of `bench dns forwarded`.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Number of names
    #[arg(long, default_value_t = 10_000)]
    names: usize,
}

/// Starts a resolver for every name in the namespace of a member. Returns its address.
pub(super) fn start_upstream(member: &Member) -> Result<SocketAddr, Failure> {
    let address = SocketAddr::from((member.plan.address.ipv4, 53));
    let socket = member.enter(|| UdpSocket::bind(address))??;
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            if let Some(response) = respond(&buffer[..length]) {
                // The server has exited.
                drop(socket.send_to(&response, client));
            }
        }
    });
    Ok(address)
}

fn respond(query: &[u8]) -> Option<Vec<u8>> {
    let end = 12 + query.get(12..)?.iter().position(|octet| *octet == 0)? + 5;
    let mut response = query.get(..end)?.to_vec();
    response[2..4].copy_from_slice(&[0x81, 0x80]);
    response[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
    response.extend(RECORD);
    Some(response)
}

/// Runs the case.
pub(super) fn run(flags: &Flags, context: &Context<'_>) -> Result<(), Failure> {
    let names: Vec<String> = (0..flags.names.max(1))
        .map(|number| format!("n-{number}.bench.example"))
        .collect();
    context.node()?.enter(|| {
        names
            .iter()
            .try_for_each(|name| wait_for_address(context.listen, name))
    })??;
    println!("{} forwarded names are in the cache", names.len());
    context.measure_rate(&names)
}
