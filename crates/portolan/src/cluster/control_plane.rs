//! The first node of a cluster, as `portolan up` runs it: API server, controllers, assigner, and the components
//! of each node.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::election;
use client::{Client, ClientError, Config};
use controllers::Environment;
use controllers::certificates::{Authority, ReservedNames};
use store::Store;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::chart::{self, ChartSettings};
use super::cluster_info::{ClusterInfo, ClusterSettings, check_authority};
use super::dns_service::DnsService;
use super::identities::{Credentials, Identities};
use super::kubeconfig_merge::{CONTEXT, merge_administrator, user_file};
use super::node_components::NodeComponents;
use super::status_file::StatusFile;
use super::supervisor::Supervisor;
use super::{address_pool, ingress_class, pod_cidrs, server_taint};
use crate::error::CommandError;
use crate::flags::election::candidate_identity;
use crate::flags::storage::EngineFlags;
use crate::leadership::{self, Shutdown};
use crate::{output, shutdown};

/// Time for pending requests to the API server at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Settings of the first node.
pub(crate) struct ControlPlane {
    /// Storage engine.
    pub engine: EngineFlags,
    /// API server.
    pub api: apiserver::Config,
    /// Path of the administrator's kubeconfig.
    pub admin_kubeconfig: PathBuf,
    /// True if the administrator's kubeconfig is merged into that of the user.
    pub has_merged_kubeconfig: bool,
    /// Settings that all nodes share.
    pub cluster: ClusterSettings,
    /// Options of the controllers.
    pub controllers: controllers::Options,
    /// Lifetime of certificates.
    pub signing_duration: Duration,
    /// The map of the cluster.
    pub chart: ChartSettings,
    /// Components of the node.
    pub node: NodeComponents,
    /// Addresses of the default AddressPool; empty for no pool.
    pub load_balancer_addresses: Vec<String>,
}

impl ControlPlane {
    /// Starts all components, waits for a signal, and stops them in reverse order. A failed component is restarted; the
    /// loss of the store ends the process.
    ///
    /// # Errors
    ///
    /// An error if the API server does not start, or the store is lost.
    pub(crate) async fn run(self, status: Arc<StatusFile>) -> Result<(), CommandError> {
        spawn_blocking(apiserver::load_embedded_tables);
        let pki_directory = self.api.data_dir.join("pki");
        let store = self.open_store(&pki_directory).await?;
        let server = apiserver::Server::start(self.api.clone(), store.clone()).await?;
        let config = Config::from_kubeconfig(&self.admin_kubeconfig)?;
        let info = self.cluster_info(&config, server.address());
        let dns_service = self.dns_service()?;
        let administrator = Client::new(config)?;
        let identities = Identities {
            pki_directory,
            server: apiserver::kubeconfig::server_url(server.address()),
        };
        let agent = &self.node.agent;
        let (credentials, ()) = tokio::try_join!(
            identities.issue(&agent.node_name, self.node.agent_endpoint),
            self.prepare_cluster(&administrator),
        )?;
        let kubeconfig = self.admin_kubeconfig.clone();
        let is_merged = self.has_merged_kubeconfig && merge_kubeconfig(&kubeconfig);
        let reserved = ReservedNames::new(server.serving_names(), &self.cluster.cluster_domain);
        let node_name = agent.node_name.clone();
        let (request_shutdown, shutdown) = watch::channel(false);
        let mut supervisor = Supervisor::new(Arc::clone(&status), shutdown);
        let others = self.start_node(&mut supervisor, credentials, &identities.pki_directory, reserved)?;
        supervisor.spawn_unsupervised(dns_service.clone().keep(administrator.clone()));
        let started = async {
            tokio::try_join!(
                async { info.publish(&administrator).await.map_err(CommandError::from) },
                async {
                    let published = dns_service.publish(&administrator).await;
                    published.map_err(CommandError::from)
                },
            )?;
            others.start(&mut supervisor);
            // Last: `portolan status --wait` waits for the Node, and examines the components that have started.
            status.set_node_name(&node_name);
            print_started(&kubeconfig, is_merged);
            Ok::<(), CommandError>(())
        };
        let outcome = tokio::select! {
            () = shutdown::signal_received() => Ok(()),
            error = store.lost() => Err(error.into()),
            Err(error) = started => Err(error),
        };
        request_shutdown.send_replace(true);
        supervisor.join().await;
        server.drain(DRAIN_TIMEOUT).await;
        outcome
    }

    /// Opens the store, and creates the authorities or checks the cluster CA.
    async fn open_store(&self, pki_directory: &Path) -> Result<Arc<dyn Store>, CommandError> {
        let directory = pki_directory.to_owned();
        // Both operations wait for the disk. A shared store can belong to a cluster with another CA, so it is opened
        // first.
        let authorities = (!self.engine.is_shared())
            .then(|| spawn_blocking(move || apiserver::pki::ensure_authorities(&directory)));
        let store = self
            .engine
            .open(&self.api.data_dir, self.api.encryption.as_ref())
            .await?;
        match authorities {
            Some(authorities) => authorities.await??,
            None => check_authority(&*store, &pki_directory.join("ca.crt"))?,
        }
        Ok(store)
    }

    /// Creates the objects that must exist before the components start. The Node needs its Pod CIDRs and taints before
    /// its agent registers it. The assigner needs the settings of load balancing before it decides about addresses.
    async fn prepare_cluster(&self, administrator: &Client) -> Result<(), CommandError> {
        let agent = &self.node.agent;
        let pools = async {
            if self.load_balancer_addresses.is_empty() {
                return Ok(());
            }
            address_pool::publish(administrator, &self.load_balancer_addresses).await
        };
        // Both write the Node.
        let node = async {
            pod_cidrs::reserve(administrator, &agent.node_name, &agent.pod_cidrs).await?;
            if !agent.node_taints.is_empty() {
                server_taint::add_to_node(administrator, agent).await?;
            }
            Ok::<_, ClientError>(())
        };
        // One after the other, the requests would delay the start of the node.
        tokio::try_join!(pools, ingress_class::publish(administrator), node)?;
        Ok(())
    }

    /// Returns the content of the ConfigMap for joining nodes. `administrator` has the cluster CA.
    fn cluster_info(&self, administrator: &Config, listen: SocketAddr) -> ClusterInfo {
        let address = self.api.advertise_address.unwrap_or(listen.ip());
        ClusterInfo {
            server: apiserver::kubeconfig::server_url(SocketAddr::new(address, listen.port())),
            authority: String::from_utf8_lossy(&administrator.certificate_authority).into_owned(),
            settings: Some(self.cluster.clone()),
        }
    }

    fn dns_service(&self) -> Result<DnsService, CommandError> {
        let address = self.cluster.cluster_dns.first();
        let address = address.ok_or("--cluster-dns needs an address")?;
        let node_name = &self.node.agent.node_name;
        Ok(DnsService::new(
            &address.to_string(),
            node_name,
            self.node.dns_endpoint,
        ))
    }

    /// Starts the components of the node. They are the first clients of the API server, so that the Node is ready early.
    /// Returns the other components.
    fn start_node(
        self,
        supervisor: &mut Supervisor,
        credentials: Credentials,
        pki_directory: &Path,
        reserved: ReservedNames,
    ) -> Result<OtherComponents, CommandError> {
        let file = |name: &str| pki_directory.join(name);
        let authority = Authority::open(&file("ca.crt"), &file("ca.key"), self.signing_duration)?
            .with_kubelet_serving(&file("kubelet-serving-ca.crt"), &file("kubelet-serving-ca.key"))?;
        let assigner = balancer::Options {
            has_edges: true,
            creates_node_pool: self.load_balancer_addresses.is_empty(),
            api_server_port: Some(self.api.listen.port()),
            ..balancer::Options::default()
        };
        let metrics = Arc::clone(&assigner.metrics);
        self.node
            .start(supervisor, credentials.node, credentials.serving, Some(metrics));
        let controllers = controllers::Options {
            authority: Some(Arc::new(authority)),
            reserved,
            ..self.controllers
        };
        Ok(OtherComponents {
            is_shared: self.engine.is_shared(),
            controllers: (credentials.controllers, controllers),
            assigner: (credentials.assigner, assigner),
            chart: (credentials.chart, self.chart),
        })
    }
}

/// Components of the first node that other nodes do not have, each with its client.
struct OtherComponents {
    /// True if other servers share the data.
    is_shared: bool,
    controllers: (Client, controllers::Options),
    assigner: (Client, balancer::Options),
    /// The map of the cluster, with the address of the API server.
    chart: ((Client, Config), ChartSettings),
}

impl OtherComponents {
    fn start(self, supervisor: &mut Supervisor) {
        let (client, options) = self.controllers;
        start_controllers(supervisor, client, options, self.is_shared);
        let (client, options) = self.assigner;
        start_assigner(supervisor, client, options, self.is_shared);
        let ((client, api), settings) = self.chart;
        chart::start(supervisor, client, &api, settings);
    }
}

/// Starts the controllers, with an election if other servers share the data.
fn start_controllers(
    supervisor: &mut Supervisor,
    client: Client,
    options: controllers::Options,
    is_shared: bool,
) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("controllers", move || {
        let (client, options) = (client.clone(), options.clone());
        let shutdown = Box::pin(shutdown::wait_for_request(shutdown.clone()));
        async move {
            let election = is_shared.then(|| election_settings("portolan-controllers"));
            let work = |client, shutdown: Shutdown| {
                controllers::run(Environment::new(client), options.clone(), shutdown)
            };
            leadership::run(client, election, watch::Sender::new(false), shutdown, work).await;
            Ok(())
        }
    });
}

/// Starts the assigner of load balancer IPs, with an election if other servers share the data.
fn start_assigner(supervisor: &mut Supervisor, client: Client, options: balancer::Options, is_shared: bool) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("balancer", move || {
        let (client, options) = (client.clone(), options.clone());
        let shutdown = Box::pin(shutdown::wait_for_request(shutdown.clone()));
        async move {
            let election = is_shared.then(|| election_settings("portolan-balancer"));
            let work = |client, shutdown: Shutdown| balancer::run(client, options.clone(), shutdown);
            leadership::run(client, election, watch::Sender::new(false), shutdown, work).await;
            Ok(())
        }
    });
}

/// Returns the settings of an election, with upstream's durations.
fn election_settings(lease_name: &str) -> election::Settings {
    election::Settings {
        identity: candidate_identity(),
        namespace: "kube-system".to_owned(),
        name: lease_name.to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

/// Merges the administrator's kubeconfig into that of the user, and returns true on success. A failure is only logged,
/// because the cluster does not need it.
fn merge_kubeconfig(administrator: &Path) -> bool {
    let merged = user_file(None).and_then(|into| merge_administrator(administrator, &into, CONTEXT, false));
    if let Err(error) = &merged {
        tracing::error!(%error, "kubeconfig not merged");
    }
    merged.is_ok()
}

fn print_started(kubeconfig: &Path, is_merged: bool) {
    let kubeconfig = kubeconfig.display();
    let export = match (is_merged, std::env::var("SUDO_USER")) {
        (true, _) => String::new(),
        // Only root may read the kubeconfig.
        (false, Ok(user)) if is_user_name(&user) && user != "root" => format!(
            "  sudo install -m 600 -o {user} {kubeconfig} ~/portolan.conf\n  export KUBECONFIG=~/portolan.conf\n"
        ),
        (false, _) => format!("  export KUBECONFIG={kubeconfig}\n"),
    };
    output::print_message(&format!(
        "The API server is ready, and the other components start. In another terminal:\n\n{export}  kubectl get services\n\n"
    ));
}

/// Returns true if a text is a portable user name (POSIX), which needs no quotes in a shell.
fn is_user_name(text: &str) -> bool {
    let is_portable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(is_portable)
}
