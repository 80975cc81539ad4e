//! The benchmarks behind every figure that Portolan claims. Each starts the program that it measures, in
//! network namespaces of its own where packets are sent, and prints one line a figure.
//!
//! Any of them can be pointed at another implementation by a command line in the place of Portolan's.

mod at_once;
mod balancer;
mod compare;
mod controllers;
mod dns;
mod edge;
mod lists;
mod percentiles;
mod process;
mod proxy;
mod server;
mod services;
mod setting;
mod siege;
mod standalone;
mod traffic;
mod watches;
mod world;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a benchmark ends with if it cannot be run.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Benchmarks of Portolan.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Flags {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Create Services through the API: rate, latency and the server's memory
    CreateServices(services::Flags),
    /// Change EndpointSlices that many watches see: time from a change to the last of them
    Watch(watches::Flags),
    /// Create Services with slices and list them: times, the server's memory, the time of a start
    List(lists::Flags),
    /// Start the proxy beside many Services: time until the last one answers, memory; then replace an
    /// endpoint again and again: time from the write until a connection reaches the new one
    Proxy(proxy::Flags),
    /// Give Services load balancers' addresses: time until one is announced, and until it moves when its owner dies
    Balancer(balancer::Flags),
    /// Replace the process that announces and serves an address of the edge, as an upgrade does: how long nobody says who has
    /// it, and what clients notice
    Upgrades(balancer::upgrades::Flags),
    /// Keep EndpointSlices of many Pods: latency, writes, time to start and memory of the controllers
    Controllers(controllers::Flags),
    /// Connect through a Service and directly: latency, throughput, and the proxy's memory with many connections
    Traffic(traffic::Flags),
    /// Start `portolan up`: time until its first Service answers; memory and CPU at rest
    Up(standalone::UpFlags),
    /// Start many Pods under `portolan up`: time until all are ready, memory, CPU
    Pods(standalone::PodsFlags),
    /// Replace the Pods of a Deployment under load: requests that fail
    Rollout(standalone::RolloutFlags),
    /// Send streams, connections and TLS handshakes through the edge and through haproxy by turns: rates, CPU; memory of
    /// idle connections
    Edge(edge::Flags),
    /// The edge that `bench edge` measures
    #[command(hide = true)]
    EdgeUnderTest(edge::UnderTestFlags),
    /// Attack `portolan up` in one way after the other: an administrator's request, a Node's Lease, an endpoint's change and
    /// the server's memory meanwhile
    Siege(siege::Flags),
    /// The attacker of `bench siege`
    #[command(hide = true)]
    SiegeAttacker(siege::AttackerFlags),
    /// Run a benchmark with two builds by turns: each figure as a ratio
    Compare(compare::Flags),
    /// Ask DNS for cluster IPs: server CPU a query, and memory
    Dns(dns::Flags),
}

fn main() -> ExitCode {
    let result = match Flags::parse().benchmark {
        Benchmark::CreateServices(flags) => services::run(&flags),
        Benchmark::Watch(flags) => watches::run(&flags),
        Benchmark::List(flags) => lists::run(&flags),
        Benchmark::Proxy(flags) => proxy::run(&flags),
        Benchmark::Balancer(flags) => balancer::run(&flags),
        Benchmark::Upgrades(flags) => balancer::upgrades::run(&flags),
        Benchmark::Controllers(flags) => controllers::run(&flags),
        Benchmark::Traffic(flags) => traffic::run(&flags),
        Benchmark::Up(flags) => standalone::up(&flags),
        Benchmark::Pods(flags) => standalone::pods(&flags),
        Benchmark::Rollout(flags) => standalone::rollout(&flags),
        Benchmark::Edge(flags) => edge::run(&flags),
        Benchmark::EdgeUnderTest(flags) => edge::under_test(&flags),
        Benchmark::Siege(flags) => siege::run(&flags),
        Benchmark::SiegeAttacker(flags) => siege::attack(&flags),
        Benchmark::Compare(flags) => compare::run(&flags),
        Benchmark::Dns(flags) => dns::run(&flags),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
