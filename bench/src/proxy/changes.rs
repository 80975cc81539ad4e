//! Time from the write of an endpoint to the first connection that reaches it.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use client::{Client, MERGE_PATCH};
use http::Method;
use serde_json::json;
use testbed::Member;

use super::wait_for_within;
use crate::Failure;
use crate::environment::Environment;
use crate::fixtures;
use crate::percentiles::Percentiles;

/// Alternates the endpoint and measures from before the PATCH to the first connection that reaches the new one. Each
/// change fails after `timeout`.
pub(crate) fn run(
    changes: usize,
    environment: &Environment,
    node: &Member,
    service: SocketAddr,
    backends: [IpAddr; 2],
    timeout: Duration,
) -> Result<(), Failure> {
    if changes == 0 {
        return Ok(());
    }
    let (order_sender, orders) = sync_channel::<IpAddr>(1);
    let (start_sender, starts) = sync_channel::<Instant>(1);
    let latencies = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            environment.with_api(async move || write(&environment.client()?, &orders, &start_sender).await)
        });
        let measured =
            node.enter(move || measure(changes, service, backends, timeout, order_sender, &starts));
        writer.join().map_err(|_| "the writer panicked")??;
        measured?
    })?;
    let latencies = Percentiles::of(latencies).ok_or("no measurement")?;
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

/// Replaces the endpoint of the measured Service for each order, and sends the time of the start.
async fn write(
    client: &Client,
    orders: &Receiver<IpAddr>,
    start_sender: &SyncSender<Instant>,
) -> Result<(), Failure> {
    // The connection is opened before the first change.
    client.get::<serde_json::Value>("/version").await?;
    while let Ok(backend) = orders.recv() {
        start_sender.send(Instant::now())?;
        replace(client, "zz-measured", &backend).await?;
    }
    Ok(())
}

/// Replaces the endpoints of a Service by one address.
pub(crate) async fn replace(client: &Client, service: &str, backend: &IpAddr) -> Result<(), Failure> {
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{service}-1");
    let body = json!({"endpoints": [fixtures::endpoint(backend)]});
    client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&body))
        .await?;
    Ok(())
}

fn measure(
    changes: usize,
    service: SocketAddr,
    backends: [IpAddr; 2],
    timeout: Duration,
    order_sender: SyncSender<IpAddr>,
    starts: &Receiver<Instant>,
) -> Result<Vec<Duration>, Failure> {
    let mut latencies = Vec::with_capacity(changes);
    for round in 0..changes {
        let backend = backends[(round + 1) % 2];
        order_sender.send(backend)?;
        let start = starts.recv()?;
        wait_for_within(service, backend, timeout)?;
        latencies.push(start.elapsed());
    }
    Ok(latencies)
}
