//! The node proxy on its own, for conformance cases and benchmarks:
//!
//!     cargo run --release -p proxy --example node -- --hostname-override NODE --kubeconfig F \
//!         --cluster-cidr 10.244.0.0/16,fd00:244::/32

use std::error::Error;
use std::path::Path;

use client::Client;
use dataplane::nftables::{NftablesDataplane, Options};
use plan::PodDetection;
use proxy::{Config, PodSelection};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::default();
    let mut kubeconfig = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--hostname-override" => config.node_name = value.to_lowercase(),
            "--kubeconfig" => kubeconfig = Some(value),
            "--cluster-cidr" => {
                let ranges = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                config.pods = PodSelection::Given(PodDetection::Ranges(ranges));
            }
            "--nodeport-addresses" => config.node_port_addresses = value.parse()?,
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    let kubeconfig = kubeconfig.ok_or("--kubeconfig is missing")?;
    let client = Client::new(client::Config::from_kubeconfig(Path::new(&kubeconfig))?)?;
    let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let shutdown = async move {
        terminated.recv().await;
    };
    proxy::run(
        config,
        client,
        NftablesDataplane::open(Options::default())?,
        shutdown,
    )
    .await?;
    Ok(())
}
