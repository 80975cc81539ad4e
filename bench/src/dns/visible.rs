//! Time from a change to the first response with it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use super::queries::{Response, connect, query};
use super::{Context, wait_for_address};
use crate::Failure;
use crate::environment::TIMEOUT;
use crate::fixtures;
use crate::percentiles::Percentiles;

/// Flags of `bench dns visible`.
#[derive(Clone, Debug, Args)]
pub(super) struct Flags {
    /// Number of replacements of the endpoint
    #[arg(long, default_value_t = 200)]
    changes: u32,
}

/// Headless Service, whose records are the addresses of its endpoints.
pub(super) fn headless(name: &str) -> Value {
    let mut service = fixtures::service(name);
    service["spec"]["clusterIP"] = json!("None");
    service
}

/// Replaces the addresses in the EndpointSlice of a Service.
pub(super) async fn replace(client: &Client, service: &str, addresses: &[IpAddr]) -> Result<(), Failure> {
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{service}-1");
    let endpoints: Vec<Value> = addresses.iter().map(fixtures::endpoint).collect();
    let body = json!({"endpoints": endpoints});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&body))
        .await?;
    Ok(())
}

/// Runs the case.
pub(super) fn run(flags: &Flags, context: &Context<'_>) -> Result<(), Failure> {
    const SERVICE: &str = "measured";
    let name = format!("{SERVICE}.default.svc.cluster.local");
    context.environment.with_api(async || {
        let client = context.environment.client()?;
        fixtures::post(&client, &headless(SERVICE)).await?;
        fixtures::post(&client, &fixtures::slice(SERVICE, &[fixtures::unused_address(0)])).await?;
        Ok(())
    })?;
    context
        .node()?
        .enter(|| wait_for_address(context.listen, &name))??;
    let socket = context.node()?.enter(|| connect(context.listen))??;
    socket.set_nonblocking(true)?;
    let latencies = context.environment.with_api(async || {
        let client = context.environment.client()?;
        // The connection is opened before the first change.
        client.get::<Value>("/version").await?;
        let socket = UdpSocket::from_std(socket)?;
        let mut latencies = Vec::new();
        for change in 1..=flags.changes {
            let address = [fixtures::unused_address(change as usize)];
            let started = Instant::now();
            let (written, received_at) = tokio::join!(
                replace(&client, SERVICE, &address),
                wait_for_response(&socket, &name, address[0])
            );
            written?;
            latencies.push(received_at?.duration_since(started));
        }
        Ok(latencies)
    })?;
    let latencies = Percentiles::of(latencies).ok_or("no measurement")?;
    println!(
        "endpoint replaced, API write to first answer, {} changes: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        flags.changes,
        latencies.milliseconds(50),
        latencies.milliseconds(99),
        latencies.milliseconds(100),
    );
    Ok(())
}

/// Sends queries until the response contains exactly this address. Returns the time of the response.
async fn wait_for_response(socket: &UdpSocket, name: &str, address: IpAddr) -> Result<Instant, Failure> {
    let deadline = Instant::now() + TIMEOUT;
    let mut buffer = [0; 4_096];
    while Instant::now() < deadline {
        socket.send(&query(0, name)).await?;
        let received = tokio::time::timeout(Duration::from_millis(100), socket.recv(&mut buffer)).await;
        let Ok(length) = received else { continue };
        let response = Response::parse(&buffer[..length?]).ok_or("malformed response")?;
        let addresses = response.addresses.iter().copied().map(IpAddr::V4);
        if addresses.eq([address]) {
            return Ok(Instant::now());
        }
    }
    Err(format!("no response with {address} for {name}").into())
}
