//! Cost of two-tier forwarding by nftables rules, and by an XDP program in their place.
//!
//! A client sends packets with random ports to a balanced address. The node forwards each one to one of four other
//! nodes. By default, frames reach the driver of the node's link as those of a network card do, so neither
//! implementation copies them. A thread of the kernel forwards them. Its CPU time includes the reception at the other
//! end of the link, where the frames end.

mod frames;
mod measure;
mod objects;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::Failure;
use frames::{FRAME_BYTES_MIN, Packets};
use measure::{Generator, Implementation, Rates, measure};

/// Flags of `bench xdp`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Number of measurements of nftables and of XDP, in turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    turns: u16,
    /// Milliseconds of a measurement
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(100..=60_000))]
    milliseconds: u16,
    /// Send by a packet socket; the link of the node then copies frames, unlike a network card
    #[arg(long)]
    packet_socket: bool,
}

const MEASURED: [Packets; 4] = [
    Packets {
        name: "UDP, 60 bytes",
        is_tcp: false,
        frame_bytes: FRAME_BYTES_MIN,
    },
    Packets {
        name: "TCP SYN, 60 bytes",
        is_tcp: true,
        frame_bytes: FRAME_BYTES_MIN,
    },
    Packets {
        name: "UDP, 512 bytes",
        is_tcp: false,
        frame_bytes: 512,
    },
    Packets {
        name: "UDP, 1400 bytes",
        is_tcp: false,
        frame_bytes: 1_400,
    },
];

/// Runs the benchmark.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, Failure> {
    let duration = Duration::from_millis(u64::from(flags.milliseconds));
    let generator = if flags.packet_socket {
        Generator::PacketSocket
    } else {
        Generator::Kernel
    };
    for packets in MEASURED {
        let mut of_rules = Vec::new();
        let mut of_program = Vec::new();
        for turn in 1..=flags.turns {
            eprintln!("{}: turn {turn} of {}", packets.name, flags.turns);
            for (implementation, rates) in [
                (Implementation::Rules, &mut of_rules),
                (Implementation::Program, &mut of_program),
            ] {
                rates.push(measure(packets, implementation, generator, duration)?);
            }
        }
        for (implementation, rates) in [
            (Implementation::Rules, &of_rules),
            (Implementation::Program, &of_program),
        ] {
            println!(
                "{}, {}: {:.0} ns of CPU a packet; {:.0} packets/s at the node, {:.0} packets/s and {:.2} Gbit/s to other nodes",
                packets.name,
                implementation.name(),
                median(rates, |rates| rates.cpu_nanoseconds),
                median(rates, |rates| rates.processed),
                median(rates, |rates| rates.forwarded),
                median(rates, |rates| rates.forwarded_bits) / 1e9,
            );
        }
        let ratio = |value: fn(&Rates) -> f64| median(&of_program, value) / median(&of_rules, value);
        println!(
            "{}, XDP relative to nftables: {:.1} x packets/s of a CPU, {:.1} x packets/s at the node, {:.1} x to other nodes",
            packets.name,
            1.0 / ratio(|rates| rates.cpu_nanoseconds),
            ratio(|rates| rates.processed),
            ratio(|rates| rates.forwarded),
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn median(rates: &[Rates], value: impl Fn(&Rates) -> f64) -> f64 {
    let mut values: Vec<f64> = rates.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
