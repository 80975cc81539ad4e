//! `portolan apiserver`.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use apiserver::{EndpointReconciler, KubernetesService};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use proxy::configuration::FeatureGates;

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
    /// Address at which other machines and Pods reach this server, for the endpoints of the Service kubernetes; the one
    /// it listens on, or the one towards the default route, if not given
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,
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
    /// Taken and without effect: the only gate that concerns Services, AllowServiceExternalIPs, is of the node proxies
    #[arg(
        long,
        default_value = "",
        value_name = "NAME=BOOL,…",
        hide_default_value = true
    )]
    feature_gates: FeatureGates,
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
    /// Node port of the Service kubernetes, which is then of type NodePort; 0 for none. It counts when the Service is made
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    kubernetes_service_node_port: u16,
    /// Who keeps the endpoints of the Service kubernetes: lease, the API servers by what they say of themselves; or none
    #[arg(long, value_enum, default_value_t = ReconcilerType::Lease, value_name = "lease|none", hide_possible_values = true)]
    endpoint_reconciler_type: ReconcilerType,
}

/// Values of `--endpoint-reconciler-type`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReconcilerType {
    Lease,
    None,
}

/// How long requests under way may take at the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(5);

impl ServiceFlags {
    /// An error if the ranges and ports cannot be used together.
    pub fn check(&self) -> Result<(), BadValue> {
        at_most_one_a_family(&self.service_cluster_ip_range, "--service-cluster-ip-range")?;
        let port = self.kubernetes_service_node_port;
        if port != 0 && !self.node_ports().contains(&port) {
            return Err(BadValue(format!(
                "--kubernetes-service-node-port {port} is not in --service-node-port-range {}-{}",
                self.service_node_port_range.first, self.service_node_port_range.last
            )));
        }
        Ok(())
    }

    /// How the Service `kubernetes` leads to the servers.
    pub fn kubernetes_service(&self) -> KubernetesService {
        KubernetesService {
            node_port: Some(self.kubernetes_service_node_port).filter(|port| *port != 0),
            endpoint_reconciler: match self.endpoint_reconciler_type {
                ReconcilerType::Lease => EndpointReconciler::Lease,
                ReconcilerType::None => EndpointReconciler::None,
            },
        }
    }

    /// The range of node ports.
    pub fn node_ports(&self) -> RangeInclusive<u16> {
        self.service_node_port_range.first..=self.service_node_port_range.last
    }
}

/// Serves the API until a signal asks to end.
pub fn run(flags: Flags) -> Result<ExitCode, Failure> {
    flags.services.check()?;
    if !flags.feature_gates.0.is_empty() {
        tracing::warn!(
            "--feature-gates has no effect here; AllowServiceExternalIPs is a gate of node proxies"
        );
    }
    let config = apiserver::Config {
        listen: flags.listen,
        node_name: crate::flags::host_name(),
        advertise_address: flags.advertise_address,
        kubernetes_service: flags.services.kubernetes_service(),
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
        encryption: flags.engine.encryption.at_rest()?,
    };
    let runtime = runtime(std::thread::available_parallelism()?.get())?;
    runtime.block_on(async {
        let store = flags
            .engine
            .open(&config.data_dir, config.encryption.as_ref())
            .await?;
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
