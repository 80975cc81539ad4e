//! Start of `portolan up`: time until the first Service answers, and the cost of an idle node.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{PODS, SERVICES, StandaloneNode, create, create_service, echo_pod_spec};
use crate::Failure;
use crate::environment::TIMEOUT;

/// Pause between attempts to reach the Service.
const RETRY_PAUSE: Duration = Duration::from_millis(2);
/// Timeout of an attempt. The proxy drops packets to unallocated cluster IPs. The kernel repeats a SYN after a second only.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(50);
/// Pause before the measurement of the idle node.
const IDLE_PAUSE: Duration = Duration::from_secs(5);

/// Flags of `bench up`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Number of Services while the node is idle
    #[arg(long, default_value_t = 10)]
    services: usize,
    /// Duration of the idle measurement in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

pub(super) fn run(flags: &Flags, standalone: &mut StandaloneNode) -> Result<(), Failure> {
    let started = standalone.started;
    println!("Node ready {:.3} s after exec", started.elapsed().as_secs_f64());
    standalone.run(async |client| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "echo", "labels": {"app": "echo"}}, "spec": echo_pod_spec(1),
        });
        create(&client, PODS, &pod).await?;
        let service = create_service(&client).await?;
        wait_for_response(service, started).await?;
        println!(
            "first Service answers {:.3} s after exec",
            started.elapsed().as_secs_f64()
        );
        for number in 1..flags.services {
            let service = json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("echo-{number}")},
                "spec": {"selector": {"app": "echo"}, "ports": [{"port": 80, "targetPort": 8080}]},
            });
            create(&client, SERVICES, &service).await?;
        }
        Ok(())
    })?;
    std::thread::sleep(IDLE_PAUSE);
    let (cpu_before, started_at) = (standalone.up.cpu()?, Instant::now());
    std::thread::sleep(Duration::from_secs(flags.seconds));
    let share = (standalone.up.cpu()? - cpu_before).as_secs_f64() / started_at.elapsed().as_secs_f64();
    println!(
        "at rest with {} Services: {:.1} MiB resident, {:.2} % of a core",
        flags.services,
        standalone.up.resident_mib()?,
        share * 100.0
    );
    Ok(())
}

/// Sends requests until the Service responds.
async fn wait_for_response(service: SocketAddr, started: Instant) -> Result<(), Failure> {
    while started.elapsed() < TIMEOUT {
        let outcome = tokio::time::timeout(REQUEST_TIMEOUT, request(service)).await;
        if matches!(outcome, Ok(Ok(true))) {
            return Ok(());
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    Err("the Service does not respond".into())
}

async fn request(service: SocketAddr) -> std::io::Result<bool> {
    let mut connection = TcpStream::connect(service).await?;
    connection
        .write_all(b"GET / HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n")
        .await?;
    let mut response = [0; 12];
    connection.read_exact(&mut response).await?;
    Ok(response.ends_with(b" 200"))
}
