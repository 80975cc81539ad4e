//! How soon a change is in the answers.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use clap::Args;
use client::{Client, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};
use tokio::net::UdpSocket;

use super::asking::{Answer, connect, question};
use super::{Place, wait_for_answer};
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::setting::PATIENCE;
use crate::world;

/// Flags of `bench dns visible`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// How often the endpoint is replaced
    #[arg(long, default_value_t = 200)]
    changes: u32,
}

/// A Service whose answers are the addresses of its endpoints.
pub fn headless(name: &str) -> Value {
    let mut service = world::service(name);
    service["spec"]["clusterIP"] = json!("None");
    service
}

/// Gives the slice of a Service these addresses.
pub async fn replace(client: &Client, service: &str, addresses: &[IpAddr]) -> Result<(), Failure> {
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{service}-1");
    let endpoints: Vec<Value> = addresses.iter().map(world::endpoint).collect();
    let body = json!({"endpoints": endpoints});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&body))
        .await?;
    Ok(())
}

/// Runs the case.
pub fn run(flags: &Flags, place: &Place<'_>) -> Result<(), Failure> {
    const SERVICE: &str = "measured";
    let name = format!("{SERVICE}.default.svc.cluster.local");
    place.setting.with_api(async || {
        let client = place.setting.client()?;
        world::post(&client, &headless(SERVICE)).await?;
        world::post(&client, &world::slice(SERVICE, &[world::nobody(0)])).await?;
        Ok(())
    })?;
    place.node()?.enter(|| wait_for_answer(place.listen, &name))??;
    let socket = place.node()?.enter(|| connect(place.listen))??;
    socket.set_nonblocking(true)?;
    let latencies = place.setting.with_api(async || {
        let client = place.setting.client()?;
        // Its connection is not to be part of the first change.
        client.get::<Value>("/version").await?;
        let socket = UdpSocket::from_std(socket)?;
        let mut latencies = Vec::new();
        for change in 1..=flags.changes {
            let address = [world::nobody(change as usize)];
            let started = Instant::now();
            let (written, seen) = tokio::join!(
                replace(&client, SERVICE, &address),
                wait_until_seen(&socket, &name, address[0])
            );
            written?;
            latencies.push(seen?.duration_since(started));
        }
        Ok(latencies)
    })?;
    let latencies = Percentiles::of(latencies).ok_or("no change was measured")?;
    println!(
        "endpoint replaced, API write to first answer, {} changes: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        flags.changes,
        latencies.milliseconds(50),
        latencies.milliseconds(99),
        latencies.milliseconds(100),
    );
    Ok(())
}

/// Asks one question after the other until the answer is this address; when it came.
async fn wait_until_seen(socket: &UdpSocket, name: &str, address: IpAddr) -> Result<Instant, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let mut buffer = [0; 4_096];
    while Instant::now() < deadline {
        socket.send(&question(0, name)).await?;
        let received = tokio::time::timeout(Duration::from_millis(100), socket.recv(&mut buffer)).await;
        let Ok(length) = received else { continue };
        let answer = Answer::read(&buffer[..length?]).ok_or("a malformed answer")?;
        let seen = answer.addresses.iter().copied().map(IpAddr::V4);
        if seen.eq([address]) {
            return Ok(Instant::now());
        }
    }
    Err(format!("{address} is never answered for {name}").into())
}
