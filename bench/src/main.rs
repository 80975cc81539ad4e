//! Benchmarks behind every published figure. Each starts the measured program, in network namespaces of its
//! own if it sends packets, and prints one line per figure.
//!
//! Most benchmarks can measure another implementation, by its command line or kubeconfig.

mod balancer;
mod bgp;
mod compare;
mod concurrent;
mod controllers;
mod dns;
mod doctor;
mod edge;
mod environment;
mod fixtures;
mod flows;
mod image_archive;
mod lists;
mod multicluster;
mod percentiles;
mod process;
mod proxy;
mod server;
mod services;
mod siege;
mod standalone;
mod takeover;
mod traffic;
mod two_tier;
mod watches;
mod xdp;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Error that ends a benchmark.
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
    /// Create Services: rate, latency, CPU and memory of the API server
    CreateServices(services::Flags),
    /// Change watched EndpointSlices: latency until the last of many watches
    Watch(watches::Flags),
    /// Create and list Services and EndpointSlices: latency, memory and start time of the API server
    List(lists::Flags),
    /// Start the proxy with many Services and replace endpoints: start time, latency of changes, memory
    Proxy(proxy::Flags),
    /// Assign and move load balancer IPs: time until an address is announced, failover time
    Balancer(balancer::Flags),
    /// Announce load balancer IPs by BGP to BIRD, FRR or GoBGP: time until a route is installed, failover by BFD, memory
    Bgp(bgp::Flags),
    /// Replace the process that announces and serves an address: time without ARP replies, failed connections
    Upgrades(balancer::upgrades::Flags),
    /// Maintain EndpointSlices of many Pods: latency, writes, start time and memory of the controllers
    Controllers(controllers::Flags),
    /// Import Services of another cluster of a set: time, latency of changes, memory of the controllers
    Multicluster(multicluster::Flags),
    /// Connect through a Service and directly: latency, throughput, memory of the proxy
    Traffic(traffic::Flags),
    /// Add, remove and kill nodes behind a router: connections lost with two-tier forwarding and without
    TwoTier(two_tier::Flags),
    /// Run a client of `bench two-tier`
    #[command(hide = true)]
    TwoTierClient(two_tier::ClientFlags),
    /// Run an endpoint of `bench two-tier`
    #[command(hide = true)]
    TwoTierEndpoint(two_tier::EndpointFlags),
    /// Forward packets to other nodes by nftables rules and by an XDP program: rate, CPU time; as root
    Xdp(xdp::Flags),
    /// Report the traffic of many connections: CPU time and memory of `portolan top`
    Flows(flows::Flags),
    /// Start `portolan up`: time until the first Service answers, idle memory and CPU
    Up(standalone::UpFlags),
    /// Start many Pods with `portolan up`: time until all are ready, memory, CPU
    Pods(standalone::PodsFlags),
    /// Start Pods from an image: time from tar and from the store, commands, memory
    Images(standalone::ImagesFlags),
    /// Download through `kubectl port-forward`: throughput, also of a real cluster
    PortForward(standalone::PortForwardFlags),
    /// Replace the Pods of a Deployment under load: failed requests, latency
    Rollout(standalone::RolloutFlags),
    /// Compare the edge with haproxy: streams, connections, TLS handshakes, memory of idle connections
    Edge(edge::Flags),
    /// Run the edge that `bench edge` measures
    #[command(hide = true)]
    EdgeUnderTest(edge::UnderTestFlags),
    /// Attack `portolan up`: latency of requests, Lease renewals and endpoint changes, memory of the server
    Siege(siege::Flags),
    /// Run the attacker of `bench siege`
    #[command(hide = true)]
    SiegeAttacker(siege::AttackerFlags),
    /// Run a benchmark with two builds or sets of flags alternately and print the ratio of each figure
    Compare(compare::Flags),
    /// Replace kube-proxy, CoreDNS and endpoint controllers of a real cluster, and go back: failed requests
    Takeover(takeover::Flags),
    /// Examine one of many Services with `portolan doctor`: time, from a file and from an API server
    Doctor(doctor::Flags),
    /// Query the DNS server: rate, latency, correctness, CPU and memory
    Dns(dns::Flags),
}

fn main() -> ExitCode {
    let result = match Flags::parse().benchmark {
        Benchmark::CreateServices(flags) => services::run(&flags),
        Benchmark::Watch(flags) => watches::run(&flags),
        Benchmark::List(flags) => lists::run(&flags),
        Benchmark::Proxy(flags) => proxy::run(&flags),
        Benchmark::Balancer(flags) => balancer::run(&flags),
        Benchmark::Bgp(flags) => bgp::run(&flags),
        Benchmark::Upgrades(flags) => balancer::upgrades::run(&flags),
        Benchmark::Controllers(flags) => controllers::run(&flags),
        Benchmark::Multicluster(flags) => multicluster::run(&flags),
        Benchmark::Traffic(flags) => traffic::run(&flags),
        Benchmark::TwoTier(flags) => two_tier::run(&flags),
        Benchmark::TwoTierClient(flags) => two_tier::run_client(&flags),
        Benchmark::TwoTierEndpoint(flags) => two_tier::run_endpoint(&flags),
        Benchmark::Xdp(flags) => xdp::run(&flags),
        Benchmark::Flows(flags) => flows::run(&flags),
        Benchmark::Up(flags) => standalone::up(&flags),
        Benchmark::Pods(flags) => standalone::pods(&flags),
        Benchmark::Images(flags) => standalone::images(&flags),
        Benchmark::PortForward(flags) => standalone::port_forward(&flags),
        Benchmark::Rollout(flags) => standalone::rollout(&flags),
        Benchmark::Edge(flags) => edge::run(&flags),
        Benchmark::EdgeUnderTest(flags) => edge::under_test(&flags),
        Benchmark::Siege(flags) => siege::run(&flags),
        Benchmark::SiegeAttacker(flags) => siege::attack(&flags),
        Benchmark::Compare(flags) => compare::run(&flags),
        Benchmark::Takeover(flags) => takeover::run(&flags),
        Benchmark::Doctor(flags) => doctor::run(&flags),
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
