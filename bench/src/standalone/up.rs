//! A machine that starts from nothing: how long until its first Service answers, and what it costs at rest.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Machine, PODS, SERVICES, create, create_service, echo};
use crate::Failure;
use crate::setting::PATIENCE;

/// Pause between two tries to reach the Service.
const TRY_PAUSE: Duration = Duration::from_millis(2);
/// How long a try may take.
const TRY_LIMIT: Duration = Duration::from_secs(1);
/// How long the machine may take to settle before it is measured at rest.
const SETTLING: Duration = Duration::from_secs(5);

/// Flags of `bench up`.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Services that are there when the machine is at rest
    #[arg(long, default_value_t = 10)]
    services: usize,
    /// Seconds at rest
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

pub(super) fn run(flags: &Flags, machine: &mut Machine) -> Result<(), Failure> {
    let started = machine.started;
    println!("Node ready {:.2} s after exec", started.elapsed().as_secs_f64());
    machine.run(async |client| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "echo", "labels": {"app": "echo"}}, "spec": echo(1),
        });
        create(&client, PODS, &pod).await?;
        let service = create_service(&client).await?;
        until_answered(service, started).await?;
        println!(
            "first Service answers {:.2} s after exec",
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
    std::thread::sleep(SETTLING);
    let (cpu_before, begun) = (machine.up.cpu()?, Instant::now());
    std::thread::sleep(Duration::from_secs(flags.seconds));
    let share = (machine.up.cpu()? - cpu_before).as_secs_f64() / begun.elapsed().as_secs_f64();
    println!(
        "at rest with {} Services: {:.1} MiB resident, {:.2} % of a core",
        flags.services,
        machine.up.resident_mib()?,
        share * 100.0
    );
    Ok(())
}

/// Tries until an endpoint of the Service answers.
async fn until_answered(service: SocketAddr, started: Instant) -> Result<(), Failure> {
    while started.elapsed() < PATIENCE {
        let answer = tokio::time::timeout(TRY_LIMIT, ask(service)).await;
        if matches!(answer, Ok(Ok(true))) {
            return Ok(());
        }
        tokio::time::sleep(TRY_PAUSE).await;
    }
    Err("the Service does not answer".into())
}

async fn ask(service: SocketAddr) -> std::io::Result<bool> {
    let mut connection = TcpStream::connect(service).await?;
    connection
        .write_all(b"GET / HTTP/1.1\r\nHost: echo\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).await?;
    Ok(answer.ends_with(b" 200"))
}
