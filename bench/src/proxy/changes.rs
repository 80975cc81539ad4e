//! From the write of a change until a connection is led by it.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use client::{Client, MERGE_PATCH};
use http::Method;
use serde_json::json;
use testbed::Member;

use super::wait_for;
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::setting::Setting;
use crate::world;

/// Replaces the endpoint by turns and measures from before the PATCH until a connection reaches the new one.
pub fn run(
    changes: usize,
    setting: &Setting,
    node: &Member,
    service: SocketAddr,
    backends: [IpAddr; 2],
) -> Result<(), Failure> {
    if changes == 0 {
        return Ok(());
    }
    let (order, orders) = sync_channel::<IpAddr>(1);
    let (begun, begins) = sync_channel::<Instant>(1);
    let latencies = std::thread::scope(|scope| {
        let writer = scope
            .spawn(move || setting.with_api(async move || write(&setting.client()?, &orders, &begun).await));
        let measured = node.enter(move || measure(changes, service, backends, order, &begins));
        writer.join().map_err(|_| "the writer failed")??;
        measured?
    })?;
    let latencies = Percentiles::of(latencies).ok_or("no change was measured")?;
    println!(
        "endpoint replaced, API write to first connection, {changes} changes: p50 {:.2} ms, p90 {:.2} ms, \
         p99 {:.2} ms, max {:.2} ms",
        latencies.milliseconds(50),
        latencies.milliseconds(90),
        latencies.milliseconds(99),
        latencies.milliseconds(100),
    );
    Ok(())
}

/// Replaces the measured Service's endpoint by those that are asked for, and tells when it begins to.
async fn write(
    client: &Client,
    orders: &Receiver<IpAddr>,
    begun: &SyncSender<Instant>,
) -> Result<(), Failure> {
    // The connection is not to be part of the first change.
    client.get::<serde_json::Value>("/version").await?;
    while let Ok(backend) = orders.recv() {
        begun.send(Instant::now())?;
        replace(client, "zz-measured", &backend).await?;
    }
    Ok(())
}

/// Makes one address the only endpoint of a Service.
pub async fn replace(client: &Client, service: &str, backend: &IpAddr) -> Result<(), Failure> {
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{service}-1");
    let body = json!({"endpoints": [world::endpoint(backend)]});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&body))
        .await?;
    Ok(())
}

fn measure(
    changes: usize,
    service: SocketAddr,
    backends: [IpAddr; 2],
    order: SyncSender<IpAddr>,
    begins: &Receiver<Instant>,
) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::with_capacity(changes);
    for round in 0..changes {
        let backend = backends[(round + 1) % 2];
        order.send(backend)?;
        let begun = begins.recv()?;
        wait_for(service, backend)?;
        latencies.push(begun.elapsed());
    }
    Ok(latencies)
}
