//! `portolan apiserver`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;

use super::access::AccessFlags;
use super::store::engine::EngineFlags;
use super::{Failure, runtime};
use crate::flags::{BadValue, PortRange, at_most_one_a_family, cidr, port_range};

/// Flags of `portolan apiserver`.
#[derive(Debug, Args)]
pub struct Flags {
    /// Where the API is served over HTTPS
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Directory of the store, the certificates and the keys
    #[arg(long, default_value = "/var/lib/portolan", value_name = "DIR")]
    data_dir: PathBuf,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    services: ServiceFlags,
    #[command(flatten)]
    access: AccessFlags,
    /// File of users, a line each: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Where the administrator's kubeconfig is written, mode 0600; DIR/admin.conf if not given
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
}

/// Flags that concern Services.
#[derive(Clone, Debug, Args)]
pub struct ServiceFlags {
    /// Where cluster IPs come from: one CIDR, or one of each family; the first is the primary family
    #[arg(long, value_delimiter = ',', default_value = "10.96.0.0/16,fd00:10:96::/112", value_name = "CIDR[,CIDR]", value_parser = cidr)]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Where node ports come from
    #[arg(long, default_value = "30000-32767", value_name = "A-B", value_parser = port_range)]
    pub service_node_port_range: PortRange,
}

/// How long requests under way may take at the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

impl ServiceFlags {
    /// An error if the ranges cannot be used together.
    pub fn check(&self) -> Result<(), BadValue> {
        at_most_one_a_family(&self.service_cluster_ip_range, "--service-cluster-ip-range")
    }

    /// The range of node ports.
    pub fn node_ports(&self) -> RangeInclusive<u16> {
        self.service_node_port_range.first..=self.service_node_port_range.last
    }
}

/// Serves the API until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    flags.services.check()?;
    let config = apiserver::Config {
        listen: flags.listen,
        node_name: crate::flags::host_name(),
        advertise_address: None,
        service_cidrs: flags.services.service_cluster_ip_range.clone(),
        node_ports: flags.services.node_ports(),
        token_auth_file: flags.token_auth_file,
        kubeconfig: Some(
            flags
                .write_kubeconfig
                .unwrap_or_else(|| flags.data_dir.join("admin.conf")),
        ),
        cluster_domain: "cluster.local".to_owned(),
        access: flags.access.access()?,
        data_dir: flags.data_dir,
    };
    let runtime = runtime(std::thread::available_parallelism()?.get())?;
    runtime.block_on(async {
        let store = flags.engine.open(&config.data_dir).await?;
        let server = apiserver::Server::start(config, store.clone()).await?;
        tracing::info!(address = %server.address(), "the API is served");
        let outcome = tokio::select! {
            () = crate::signal::asked_to_end() => Ok(ExitCode::SUCCESS),
            error = store.lost() => Err(error.into()),
        };
        server.drain(DRAIN_PATIENCE).await;
        outcome
    })
}
