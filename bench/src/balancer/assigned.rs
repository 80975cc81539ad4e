//! From the write of a Service until its address is answered for.

use std::net::Ipv4Addr;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use super::asker::Asker;
use super::balanced;
use crate::Failure;
use crate::percentiles::Percentiles;
use crate::setting::Setting;
use crate::world;

/// Creates Services one after the other, each with an address of its own, and asks for that from before the write on.
pub fn run(count: u8, setting: &Setting) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let asker = Asker::new(setting.cluster.outside()?)?;
    let (order, orders) = sync_channel::<Ipv4Addr>(1);
    let (begun, begins) = sync_channel::<Instant>(1);
    let latencies = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            setting.with_api(async move || {
                let client = setting.client()?;
                client.get::<serde_json::Value>("/version").await?;
                while let Ok(address) = orders.recv() {
                    begun.send(Instant::now())?;
                    let name = format!("a-{}", address.octets()[3]);
                    let annotation = "portolan.dev/load-balancer-ips";
                    world::post(&client, &balanced(&name, annotation, &address.to_string())).await?;
                }
                Ok(())
            })
        });
        let mut latencies = Vec::new();
        for number in 0..count {
            let address = Ipv4Addr::new(172, 30, 0, 129 + number);
            order.send(address)?;
            let begin = begins.recv()?;
            asker.until(address, |_| true)?;
            latencies.push(begin.elapsed());
        }
        drop(order);
        writer.join().map_err(|_| "the writer failed")??;
        Ok::<_, Failure>(latencies)
    })?;
    let latencies = Percentiles::of(latencies).ok_or("nothing was measured")?;
    println!(
        "Service written until its address is answered for, {count} Services: p50 {:.2} ms, p99 {:.2} ms",
        latencies.milliseconds(50),
        latencies.milliseconds(99),
    );
    Ok(())
}
