//! Assembly and lifetime of a server: started from a [`Config`] and a store, drained at its end.

mod certificates;
pub(crate) mod config;
mod start_error;

use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use store::Store;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::access::audit::Audit;
use crate::access::authentication::service_accounts::ServiceAccounts;
use crate::access::authentication::{Authenticator, StaticTokens};
use crate::access::authorization::{self, Authorizer};
use crate::access::filter::AccessFilter;
use crate::access::flow_control::FlowControl;
use crate::bootstrap::cluster_objects::{self, ClusterObjects};
use crate::bootstrap::pki::Pki;
use crate::metrics::Metrics;
use crate::registry::admission::Admission;
use crate::registry::encryption;
use crate::registry::event_expiry;
use crate::registry::namespace;
use crate::registry::repair_loop::RepairLoop;
use crate::registry::service::{self, AllocatorError, AllocatorSettings, Allocators};
use crate::shutdown::{Shutdown, ShutdownTrigger};
use crate::transport::connection::open_connections::Connections;
use crate::transport::connection::{ListenerState, node_connections};
use crate::transport::listener::{accept, listen};
use crate::transport::request_body::BodyMemory;
use crate::transport::response::ResponseMemory;
use crate::transport::tls::{self, ServingCertificate, TlsError};
use crate::verbs::handler::Handler;
use crate::verbs::proxy::reports::NodeReports;
use crate::verbs::proxy::resource_metrics::ResourceMetrics;
use crate::verbs::proxy::{AgentClient, PodProxy};
use crate::verbs::resource::{Resources, RewriteRates};
use certificates::{ServerCertificates, renew};
use config::{Access, Config};
pub use start_error::StartError;

/// Time for the removal of this server from the endpoints of the Service `kubernetes`. After it, the record expires.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Running API server. Dropping it stops it at once; [`Server::drain`] lets requests complete.
pub struct Server {
    address: SocketAddr,
    serving_names: Vec<String>,
    shutdown: ShutdownTrigger,
    accepting: JoinHandle<()>,
    background: JoinSet<()>,
    cluster_objects: Arc<ClusterObjects>,
    resources: Arc<Resources>,
}

/// Authenticator and authorizer of a server.
struct AccessControl {
    authenticator: Arc<Authenticator>,
    authorizer: Arc<Authorizer>,
}

impl Server {
    /// Starts a server. On return it serves requests, and the objects that every cluster has exist.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running.
    pub async fn start(config: Config, store: Arc<dyn Store>) -> Result<Server, StartError> {
        let (address, listener) = bind(config.listen)?;
        let certificates = ServerCertificates::new(&config, address);
        let (pki, access_control) = open_credentials(&config, &certificates, &store)?;
        let serving = Arc::new(ServingCertificate::new(&pki.serving)?);
        let acceptor = TlsAcceptor::from(Arc::new(tls::server_config(&pki, serving.clone())?));
        let (trigger, shutdown) = Shutdown::channel();
        let resources = open_resources(&config, store, &pki, &access_control, shutdown.clone())?;
        let cluster_objects = Arc::new(ClusterObjects::new(&config, address));
        cluster_objects.ensure_at_start(&resources).await?;
        // Before the first allocation: everything that Services use is recorded as allocated.
        let mut repair = RepairLoop::new(resources.clone());
        repair.pass(true).await;
        certificates.write_kubeconfig(&pki)?;
        let serving_names = certificates.names().to_vec();
        let handler = handler(config.access, &resources, &access_control, &certificates, &pki)?;
        let mut background = spawn_background_tasks(&resources, &cluster_objects, &handler.connections);
        background.spawn(repair.run());
        if let Some(at_rest) = config.encryption.filter(|at_rest| at_rest.reloads) {
            let store = resources.store.clone();
            background.spawn(encryption::watch(at_rest.encryption, store, shutdown.clone()));
        }
        let authenticator = access_control.authenticator;
        background.spawn(renew(certificates, serving, authenticator, shutdown.clone()));
        let shared = ListenerState {
            acceptor,
            connections: handler.connections.clone(),
            handler,
            background_threads: Arc::default(),
            shutdown,
        };
        let accepting = tokio::spawn(accept(listener, shared));
        tracing::info!(%address, "API server listening");
        let server = Server {
            address,
            serving_names,
            shutdown: trigger,
            accepting,
            background,
            cluster_objects,
            resources,
        };
        // Last: clients connect as soon as the Service `kubernetes` has this endpoint.
        server.cluster_objects.publish(&server.resources).await?;
        Ok(server)
    }

    /// Returns the names and addresses of the serving certificate.
    pub fn serving_names(&self) -> &[String] {
        &self.serving_names
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shuts the server down: it accepts no connections, ends watches and completes requests in flight.
    /// Requests that are not complete after `timeout` are cancelled.
    pub async fn drain(mut self, timeout: Duration) {
        self.shutdown.request();
        let leaving = self.cluster_objects.leave(&self.resources);
        match tokio::time::timeout(LEAVE_TIMEOUT, leaving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "endpoint not removed from the Service kubernetes"),
            Err(_) => tracing::warn!("endpoint not removed from the Service kubernetes: store timed out"),
        }
        if tokio::time::timeout(timeout, &mut self.accepting).await.is_err() {
            tracing::warn!("drain timeout reached; open connections cancelled");
        }
        self.background.shutdown().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.request();
        self.accepting.abort();
    }
}

impl AccessControl {
    fn open(
        config: &Config,
        certificates: &ServerCertificates,
        store: &Arc<dyn Store>,
    ) -> Result<AccessControl, StartError> {
        let token_file = config.token_auth_file.as_deref();
        let tokens = token_file.map(StaticTokens::read).transpose()?;
        let issuer = config.access.service_account_issuer.clone();
        let issuer = issuer.unwrap_or_else(|| default_issuer(&config.cluster_domain));
        let directory = certificates.directory().to_owned();
        let service_accounts = ServiceAccounts::open(directory, issuer, store.clone())?;
        let modes = config.access.authorization_modes.clone();
        Ok(AccessControl {
            authenticator: Arc::new(Authenticator::new(tokens.unwrap_or_default(), service_accounts)),
            authorizer: Arc::new(Authorizer::new(modes, store.clone())),
        })
    }
}

/// Opens the certificates, and in another thread the keys of ServiceAccount tokens: both wait for the disk.
fn open_credentials(
    config: &Config,
    certificates: &ServerCertificates,
    store: &Arc<dyn Store>,
) -> Result<(Pki, AccessControl), StartError> {
    certificates.create_directory()?;
    std::thread::scope(|scope| {
        let access_control = scope.spawn(|| AccessControl::open(config, certificates, store));
        let pki = certificates.open();
        let access_control = access_control.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok((pki?, access_control?))
    })
}

/// Returns the issuer of ServiceAccount tokens without a flag.
fn default_issuer(cluster_domain: &str) -> String {
    format!("https://kubernetes.default.svc.{cluster_domain}")
}

fn open_resources(
    config: &Config,
    store: Arc<dyn Store>,
    pki: &Pki,
    access_control: &AccessControl,
    shutdown: Shutdown,
) -> Result<Arc<Resources>, StartError> {
    let encryption = config.encryption.as_ref();
    Ok(Arc::new(Resources {
        services: open_allocators(config, &*store)?,
        store,
        admission: Admission::new(
            config.access.admission_plugins.clone(),
            access_control.authorizer.clone(),
            config.access.admission_configuration.clone(),
        ),
        ca_certificate: pki.authority.clone(),
        shutdown,
        encoded_events: Arc::default(),
        frames: Arc::default(),
        watch_counts: Arc::default(),
        rewrites: RewriteRates::default(),
        encryption: encryption.map(|at_rest| at_rest.encryption.clone()),
    }))
}

/// Allocators of Services, read from the store. Other servers of a shared store write them, too.
fn open_allocators(config: &Config, store: &dyn Store) -> Result<Allocators, AllocatorError> {
    let services = Allocators::new(
        store.index(),
        AllocatorSettings {
            cluster_ip_ranges: config.service_cidrs.clone(),
            node_port_range: config.node_ports.clone(),
        },
    )?;
    if store.is_shared() {
        services.follow_peers(store.index())?;
    }
    Ok(services)
}

fn handler(
    access: Access,
    resources: &Arc<Resources>,
    access_control: &AccessControl,
    certificates: &ServerCertificates,
    pki: &Pki,
) -> Result<Arc<Handler>, StartError> {
    let audit = access.audit.map(Audit::open).transpose()?.map(Arc::new);
    Ok(Arc::new(Handler {
        resources: resources.clone(),
        access: AccessFilter {
            authenticator: access_control.authenticator.clone(),
            authorizer: access_control.authorizer.clone(),
            flow_control: Arc::new(FlowControl::new(access.request_limits)),
            allows_anonymous: access.allows_anonymous,
        },
        metrics: Metrics::new(audit.as_ref().map(|audit| audit.counts.clone())),
        connections: Arc::new(Connections::new(access.request_limits.connections_per_address)),
        bodies: Arc::new(BodyMemory::new()),
        responses: Arc::new(ResponseMemory::new()),
        pod_proxy: PodProxy::new().map_err(TlsError::from)?,
        reports: NodeReports::new(),
        resource_metrics: ResourceMetrics::new(),
        agents: AgentClient::new(&certificates.kubelet_client()?, &pki.kubelet_serving_authority)?,
        audit,
    }))
}

/// Spawns the tasks that maintain the state of the cluster.
fn spawn_background_tasks(
    resources: &Arc<Resources>,
    cluster_objects: &Arc<ClusterObjects>,
    connections: &Connections,
) -> JoinSet<()> {
    let shutdown = &resources.shutdown;
    let mut background = JoinSet::new();
    background.spawn(namespace::run_termination(resources.clone()));
    background.spawn(namespace::maintain_default_objects(
        resources.clone(),
        shutdown.clone(),
    ));
    background.spawn(authorization::follow(resources.clone(), shutdown.clone()));
    background.spawn(event_expiry::run(resources.clone()));
    background.spawn(service::follow_peers(resources.clone()));
    background.spawn(node_connections::revoke_certificates_of_removed_nodes(
        resources.clone(),
        connections.nodes().clone(),
        shutdown.clone(),
    ));
    background.spawn(cluster_objects::maintain(
        cluster_objects.clone(),
        resources.clone(),
        shutdown.clone(),
    ));
    background
}

/// Listens on an address, and returns the bound one with its port.
fn bind(address: SocketAddr) -> Result<(SocketAddr, TcpListener), StartError> {
    let bound = listen(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    bound.map_err(|source| StartError::Listen { address, source })
}
