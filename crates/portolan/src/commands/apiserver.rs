//! `portolan apiserver`: the Kubernetes API.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use proxy::configuration::FeatureGates;

use crate::error::CommandError;
use crate::flags::access::AccessFlags;
use crate::flags::services::ServiceFlags;
use crate::flags::storage::EngineFlags;
use crate::flags::values::{DATA_DIRECTORY, hostname, listen_address};
use crate::{runtime, shutdown};

/// Time for pending requests at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Flags of `portolan apiserver`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Listen address (HTTPS)
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDRESS:PORT", value_parser = listen_address)]
    listen: SocketAddr,
    /// Address in the endpoints of Service `kubernetes` [default: that of --listen, or of the default route]
    #[arg(long, value_name = "ADDRESS")]
    advertise_address: Option<IpAddr>,
    /// Directory of the store, the certificates and the keys
    #[arg(long, default_value = DATA_DIRECTORY, value_name = "DIR")]
    data_dir: PathBuf,
    /// Path of the administrator's kubeconfig, mode 0600 [default: DIR/admin.conf]
    #[arg(long, value_name = "FILE")]
    write_kubeconfig: Option<PathBuf>,
    /// File of static tokens, one per line: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Accepted without effect; AllowServiceExternalIPs is a feature gate of node proxies
    #[arg(
        long,
        default_value = "",
        value_name = "NAME=BOOL,…",
        hide_default_value = true
    )]
    feature_gates: FeatureGates,
    #[command(flatten)]
    services: ServiceFlags,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    access: AccessFlags,
}

/// Serves the API until a signal requests shutdown.
///
/// # Errors
///
/// An error if a flag is invalid, the server does not start, or the store is lost.
pub(crate) fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    flags.services.check()?;
    if !flags.feature_gates.0.is_empty() {
        tracing::warn!(
            "--feature-gates without effect; AllowServiceExternalIPs is a feature gate of node proxies"
        );
    }
    let config = apiserver::Config {
        listen: flags.listen,
        node_name: hostname(),
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
    let runtime = runtime::of_component(std::thread::available_parallelism()?.get())?;
    runtime.block_on(async {
        tokio::task::spawn_blocking(apiserver::load_embedded_tables);
        let store = flags
            .engine
            .open(&config.data_dir, config.encryption.as_ref())
            .await?;
        let server = apiserver::Server::start(config, store.clone()).await?;
        tracing::info!(address = %server.address(), "API server started");
        let outcome = tokio::select! {
            () = shutdown::signal_received() => Ok(ExitCode::SUCCESS),
            error = store.lost() => Err(error.into()),
        };
        server.drain(DRAIN_TIMEOUT).await;
        outcome
    })
}
