//! An API server on its own, to point conformance cases and benchmarks at:
//!
//!     cargo run --release -p apiserver --example api_server -- --listen 127.0.0.1:6443 --data-dir DIR \
//!         --token-auth-file F --service-cluster-ip-range 10.96.0.0/16,fd00:10:96::/112 --write-kubeconfig F

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Access, Config, NODE_PORTS_DEFAULT, Server};
use store::{SqliteOptions, SqliteStore};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config {
        listen: "127.0.0.1:6443".parse()?,
        data_dir: PathBuf::from("data"),
        node_name: "localhost".to_owned(),
        advertise_address: None,
        kubernetes_service: apiserver::KubernetesService::default(),
        service_cidrs: vec!["10.96.0.0/16".parse()?, "fd00:10:96::/112".parse()?],
        node_ports: NODE_PORTS_DEFAULT,
        token_auth_file: None,
        kubeconfig: None,
        cluster_domain: "cluster.local".to_owned(),
        access: Access::default(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--listen" => config.listen = value.parse()?,
            "--data-dir" => config.data_dir = value.into(),
            "--token-auth-file" => config.token_auth_file = Some(value.into()),
            "--write-kubeconfig" => config.kubeconfig = Some(value.into()),
            "--service-cluster-ip-range" => {
                config.service_cidrs = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    let store = SqliteStore::open(config.data_dir.join("store"), SqliteOptions::default())?;
    let server = Server::start(config, Arc::new(store)).await?;
    println!("listening on {}", server.address());
    tokio::signal::ctrl_c().await?;
    server.drain(Duration::from_secs(5)).await;
    Ok(())
}
