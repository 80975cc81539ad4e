//! Time from the creation of a Service to the first ARP reply for its address.

use std::net::Ipv4Addr;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use super::arp_client::ArpClient;
use super::load_balancer_service;
use crate::Failure;
use crate::environment::Environment;
use crate::fixtures;
use crate::percentiles::Percentiles;

/// Creates Services one after the other and sends ARP requests for the address of each, starting before the creation.
pub(super) fn run(count: u8, environment: &Environment) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let arp_client = ArpClient::new(environment.cluster.outside()?)?;
    let (order_sender, orders) = sync_channel::<Ipv4Addr>(1);
    let (start_sender, starts) = sync_channel::<Instant>(1);
    let latencies = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            environment.with_api(async move || {
                let client = environment.client()?;
                client.get::<serde_json::Value>("/version").await?;
                while let Ok(address) = orders.recv() {
                    start_sender.send(Instant::now())?;
                    let name = format!("a-{}", address.octets()[3]);
                    let annotation = "portolan.dev/load-balancer-ips";
                    fixtures::post(
                        &client,
                        &load_balancer_service(&name, annotation, &address.to_string()),
                    )
                    .await?;
                }
                Ok(())
            })
        });
        let mut latencies = Vec::new();
        for number in 0..count {
            let address = Ipv4Addr::new(172, 30, 0, 129 + number);
            order_sender.send(address)?;
            let start = starts.recv()?;
            arp_client.wait_for_owner(address, |_| true)?;
            latencies.push(start.elapsed());
        }
        drop(order_sender);
        writer.join().map_err(|_| "the writer panicked")??;
        Ok::<_, Failure>(latencies)
    })?;
    let latencies = Percentiles::of(latencies).ok_or("no measurement")?;
    println!(
        "Service created until the first ARP reply for its address, {count} Services: p50 {:.2} ms, p99 {:.2} ms",
        latencies.milliseconds(50),
        latencies.milliseconds(99),
    );
    Ok(())
}
