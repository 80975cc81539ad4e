//! Sustained changes of endpoints: delay of the proxy, and correctness of the final state.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use clap::Args;
use client::Client;
use futures_util::future::join_all;
use serde_json::Value;
use testbed::Member;

use super::changes::replace;
use super::{read_backend, wait_for};
use crate::Failure;
use crate::environment::Environment;
use crate::process::Measured;

/// Number of concurrent writers.
const WRITERS: usize = 16;

/// Flags of the sustained changes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sustained changes")]
pub(super) struct Flags {
    /// Duration of sustained changes in seconds; 0 for none
    #[arg(long, default_value_t = 0)]
    seconds: u64,
    /// Changes per second, of all changing Services
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// Number of changing Services
    #[arg(long, default_value_t = 1_000)]
    changing: usize,
}

/// Changes endpoints at the rate of the flags, then checks that all changed Services reach their last endpoint.
pub(super) fn run(
    flags: &Flags,
    services: usize,
    environment: &Environment,
    node: &Member,
    backends: [IpAddr; 2],
    proxy: &Measured,
) -> Result<(), Failure> {
    if flags.seconds == 0 {
        return Ok(());
    }
    let changing = flags.changing.min(services);
    let addresses = environment.with_api(async || addresses(&environment.client()?, changing).await)?;
    let cpu = proxy.cpu()?;
    let started = Instant::now();
    let (written, last) =
        environment.with_api(async || write_all(flags, changing, environment, backends).await)?;
    let elapsed = started.elapsed();
    let ended = Instant::now();
    let wrong = node.enter(|| -> Result<usize, Failure> {
        let mut wrong = 0;
        for (number, backend) in last.iter().enumerate() {
            let service = *addresses.get(&name(number)).ok_or("Service without address")?;
            let is_right = read_backend(service).is_ok_and(|answer| answer == backend.to_string());
            if !is_right {
                wrong += 1;
                wait_for(service, *backend)?;
            }
        }
        Ok(wrong)
    })??;
    println!(
        "{written} changes of {changing} Services in {:.1} s ({:.0}/s), proxy CPU {:.1} s; \
         {wrong} Services stale right afterwards, none lost: all current within {:.2} s",
        elapsed.as_secs_f64(),
        written as f64 / elapsed.as_secs_f64(),
        (proxy.cpu()? - cpu).as_secs_f64(),
        ended.elapsed().as_secs_f64(),
    );
    Ok(())
}

fn name(number: usize) -> String {
    format!("s-{number}")
}

/// Addresses of the changing Services, by name.
async fn addresses(client: &Client, changing: usize) -> Result<HashMap<String, SocketAddr>, Failure> {
    let mut addresses = HashMap::new();
    for number in 0..changing {
        let path = format!("/api/v1/namespaces/default/services/{}", name(number));
        let service: Value = client.get(&path).await?;
        let ip: IpAddr = service["spec"]["clusterIP"]
            .as_str()
            .ok_or("no cluster IP")?
            .parse()?;
        addresses.insert(name(number), (ip, 80).into());
    }
    Ok(addresses)
}

/// Changes EndpointSlices in turn. Returns the number of changes and the last endpoint of each Service.
async fn write_all(
    flags: &Flags,
    changing: usize,
    environment: &Environment,
    backends: [IpAddr; 2],
) -> Result<(u64, Vec<IpAddr>), Failure> {
    let writers = WRITERS.min(changing);
    let interval = Duration::from_secs(1) * u32::try_from(writers)? / flags.rate.max(1);
    let end = Instant::now() + Duration::from_secs(flags.seconds);
    let clients = (0..writers)
        .map(|_| environment.client())
        .collect::<Result<Vec<_>, _>>()?;
    let writing = clients.iter().enumerate().map(|(writer, client)| {
        // Each EndpointSlice has one writer, so that its last write is known.
        let own: Vec<usize> = (writer..changing).step_by(writers).collect();
        write(client, own, interval, end, backends)
    });
    let mut last = vec![backends[0]; changing];
    let mut total = 0;
    for written in join_all(writing).await {
        for (number, backend) in written? {
            last[number] = backend;
            total += 1;
        }
    }
    Ok((total, last))
}

/// Every slice is written at least once; all writes in their order.
async fn write(
    client: &Client,
    own: Vec<usize>,
    interval: Duration,
    end: Instant,
    backends: [IpAddr; 2],
) -> Result<Vec<(usize, IpAddr)>, Failure> {
    let mut ticks = tokio::time::interval(interval);
    let mut written = Vec::new();
    let count = own.len();
    for number in own.into_iter().cycle() {
        ticks.tick().await;
        if written.len() >= count && Instant::now() > end {
            break;
        }
        let backend = backends[fastrand::usize(..2)];
        replace(client, &name(number), &backend).await?;
        written.push((number, backend));
    }
    Ok(written)
}
