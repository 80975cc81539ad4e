//! The server as its owner sees it: started with a configuration and a store, drained at the end.

pub(crate) mod config;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::access::audit::{Audit, AuditLogError};
use crate::access::authentication::service_accounts::ServiceAccounts;
use crate::access::authentication::{Authenticator, KeyError, StaticTokens, TokenFileError};
use crate::access::authorization::{self, Authorizer};
use crate::access::filter::Gate;
use crate::access::flow_control::FlowControl;
use crate::bootstrap::cluster_objects::{self, BootstrapError, Essentials};
use crate::bootstrap::kubeconfig;
use crate::bootstrap::pki::{self, Pki, PkiError, serving_names};
use crate::metrics::Metrics;
use crate::registry::admission::Admission;
use crate::registry::encryption;
use crate::registry::event_expiry;
use crate::registry::namespace;
use crate::registry::repair::Repair;
use crate::registry::service::{self, Registry, RegistryError, ServiceConfig};
use crate::shutdown::Shutdown;
use crate::transport::connection::background_threads::BackgroundThreads;
use crate::transport::connection::open_connections::Connections;
use crate::transport::connection::{Shared, node_connections};
use crate::transport::listener::{accept, listen};
use crate::transport::request_body::BodyRoom;
use crate::transport::tls::{self, Serving, TlsError};
use crate::verbs::handler::Handler;
use crate::verbs::proxy::{PodLogs, PodProxy};
use crate::verbs::resource::Resources;
use config::Config;

/// How long the store may take to write down that the server ends: others find it out by themselves some seconds later.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);
/// Who the server is to the agents of nodes (upstream's name, as kubeadm issues it).
const API_SERVER_TO_AGENTS: &str = "kube-apiserver-kubelet-client";
/// Its group, to which nothing is bound: agents know the name, and the API itself gives it no rights.
const API_SERVERS: &str = "system:portolan:apiservers";
/// How often certificates are looked at for renewal.
const RENEWAL_PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Why a server does not start. The configuration or what is on disk has to be mended.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The system starts no thread.
    #[error("cannot start threads for requests: {0}")]
    Threads(std::io::Error),
    /// Certificates cannot be had.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token file cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// Tokens of ServiceAccounts cannot be signed.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The audit log cannot be begun.
    #[error(transparent)]
    Audit(#[from] AuditLogError),
    /// Cluster IPs and node ports cannot be given out.
    #[error(transparent)]
    Services(#[from] RegistryError),
    /// The objects that have to be there cannot be made.
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A running API server. Dropping it ends it at once; [`Server::drain`] lets it finish what it is doing.
pub struct Server {
    address: SocketAddr,
    serving_names: Vec<String>,
    end: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    background: JoinSet<()>,
    essentials: Arc<Essentials>,
    resources: Arc<Resources>,
}

impl Server {
    /// Starts a server: it answers when this returns, and the objects that every cluster has are there.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub async fn start(config: Config, store: Arc<dyn Store>) -> Result<Server, StartError> {
        let (address, listener) = bind(config.listen)?;
        let certificates = Certificates::new(&config, address);
        let pki = certificates.open()?;
        let serving = Arc::new(Serving::new(&pki.serving)?);
        let acceptor = TlsAcceptor::from(Arc::new(tls::config(&pki, serving.clone())?));
        let token_file = config.token_auth_file.as_deref();
        let tokens = token_file.map(StaticTokens::read).transpose()?;
        let (end, ending) = watch::channel(false);
        let services = registry(&config, &*store)?;
        let shutdown = Shutdown(ending);
        let access = config.access.clone();
        let issuer = access
            .service_account_issuer
            .unwrap_or_else(|| default_issuer(&config.cluster_domain));
        let service_accounts = ServiceAccounts::open(certificates.directory.clone(), issuer, store.clone())?;
        let authorizer = Arc::new(Authorizer::new(access.authorization_modes, store.clone()));
        let authenticator = Arc::new(Authenticator::new(tokens.unwrap_or_default(), service_accounts));
        let resources = Arc::new(Resources {
            store,
            services,
            admission: Admission::new(
                access.admission_plugins,
                authorizer.clone(),
                access.admission_configuration,
            ),
            ca_certificate: pki.authority.clone(),
            shutdown: shutdown.clone(),
            encoded_events: Arc::default(),
            frames: Arc::default(),
            watch_counts: Arc::default(),
            encryption: config
                .encryption
                .as_ref()
                .map(|at_rest| at_rest.encryption.clone()),
        });
        let essentials = Arc::new(Essentials::new(&config, address));
        essentials.ensure(&resources).await?;
        essentials.ensure_roles(&resources).await?;
        // What is given out must be known before anything more is.
        let mut repair = Repair::new(resources.clone());
        repair.pass(true).await;
        certificates.write_kubeconfig(&pki)?;
        let audit = access.audit.map(Audit::open).transpose()?.map(Arc::new);
        let handler = Arc::new(Handler {
            resources: resources.clone(),
            gate: Gate {
                authenticator: authenticator.clone(),
                authorizer,
                flow_control: Arc::new(FlowControl::new(access.request_limits)),
                allows_anonymous: access.allows_anonymous,
            },
            metrics: Metrics::new(audit.as_ref().map(|audit| audit.counts.clone())),
            connections: Arc::new(Connections::new(access.request_limits.connections_per_address)),
            bodies: Arc::new(BodyRoom::new()),
            pod_proxy: PodProxy::new().map_err(TlsError::from)?,
            logs: PodLogs::new(&certificates.towards_agents()?, &pki.kubelet_serving_authority)?,
            audit,
        });
        let serving_names = certificates.names.clone();
        let mut background = keep_state(&resources, &essentials, &handler.connections, &shutdown);
        background.spawn(repair.run());
        if let Some(at_rest) = config.encryption.filter(|at_rest| at_rest.reloads) {
            let store = resources.store.clone();
            background.spawn(encryption::watch(at_rest.encryption, store, shutdown.clone()));
        }
        background.spawn(renew(certificates, serving, authenticator, shutdown.clone()));
        let accepting = tokio::spawn(accept(
            listener,
            Shared {
                acceptor,
                connections: handler.connections.clone(),
                handler,
                background_threads: Arc::new(BackgroundThreads::start().map_err(StartError::Threads)?),
                shutdown,
            },
        ));
        tracing::info!(%address, "the API server listens");
        let server = Server {
            address,
            serving_names,
            end,
            accepting,
            background,
            essentials,
            resources,
        };
        server.essentials.publish(&server.resources).await?;
        Ok(server)
    }

    /// The names and addresses that its certificate is good for.
    pub fn serving_names(&self) -> &[String] {
        &self.serving_names
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the server: no new connections, watches end, requests under way are finished; what is not finished
    /// within `patience` is cut.
    pub async fn drain(mut self, patience: Duration) {
        self.end.send_replace(true);
        let leaving = self.essentials.leave(&self.resources);
        match tokio::time::timeout(LEAVE_PATIENCE, leaving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the Service kubernetes still has this server"),
            Err(_) => {
                tracing::warn!("the Service kubernetes still has this server: the store does not answer")
            }
        }
        if tokio::time::timeout(patience, &mut self.accepting).await.is_err() {
            tracing::warn!("some connections did not end in time and are cut");
        }
        self.background.shutdown().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.send_replace(true);
        self.accepting.abort();
    }
}

/// The issuer of ServiceAccount tokens where no flag names one.
fn default_issuer(cluster_domain: &str) -> String {
    format!("https://kubernetes.default.svc.{cluster_domain}")
}

/// Begins what keeps the state of the cluster in order.
fn keep_state(
    resources: &Arc<Resources>,
    essentials: &Arc<Essentials>,
    connections: &Connections,
    shutdown: &Shutdown,
) -> JoinSet<()> {
    let mut background = JoinSet::new();
    background.spawn(namespace::run_termination(resources.clone()));
    background.spawn(namespace::maintain_default_objects(
        resources.clone(),
        shutdown.clone(),
    ));
    background.spawn(authorization::follow(resources.clone(), shutdown.clone()));
    background.spawn(event_expiry::run(resources.clone()));
    background.spawn(service::follow_peers(resources.clone()));
    background.spawn(node_connections::follow(
        resources.clone(),
        connections.nodes().clone(),
        shutdown.clone(),
    ));
    background.spawn(cluster_objects::keep(
        essentials.clone(),
        resources.clone(),
        shutdown.clone(),
    ));
    background
}

/// What Services are given, as the store has it, and as other servers go on to write it.
fn registry(config: &Config, store: &dyn Store) -> Result<Registry, RegistryError> {
    let services = Registry::new(
        store.index(),
        ServiceConfig {
            cluster_ip_ranges: config.service_cidrs.clone(),
            node_port_range: config.node_ports.clone(),
        },
    )?;
    if store.is_shared() {
        services.follow_peers(store.index())?;
    }
    Ok(services)
}

/// The address that is listened on, and the listener.
fn bind(address: SocketAddr) -> Result<(SocketAddr, TcpListener), StartError> {
    let bound = listen(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    bound.map_err(|source| StartError::Listen { address, source })
}

/// How to get the certificates of one server.
struct Certificates {
    directory: PathBuf,
    names: Vec<String>,
    kubeconfig: Option<PathBuf>,
    server_url: String,
}

impl Certificates {
    fn new(config: &Config, address: SocketAddr) -> Certificates {
        let mut addresses: Vec<IpAddr> = vec![address.ip()];
        addresses.extend(config.advertise_address);
        // The `kubernetes` Service has the first address of a range.
        addresses.extend(
            config
                .service_cidrs
                .iter()
                .filter_map(|range| range.hosts().next()),
        );
        Certificates {
            directory: config.data_dir.join("pki"),
            names: serving_names(&config.node_name, &config.cluster_domain, &addresses),
            kubeconfig: config.kubeconfig.clone(),
            server_url: kubeconfig::server_url(address),
        }
    }

    fn open(&self) -> Result<Pki, PkiError> {
        Pki::open(&self.directory, &self.names)
    }

    /// By which agents know who asks.
    fn towards_agents(&self) -> Result<pki::Client, PkiError> {
        pki::client(
            &self.directory,
            "apiserver-kubelet-client",
            API_SERVER_TO_AGENTS,
            API_SERVERS,
        )
    }

    fn write_kubeconfig(&self, pki: &Pki) -> Result<(), StartError> {
        let Some(path) = &self.kubeconfig else {
            return Ok(());
        };
        kubeconfig::write(path, &self.server_url, pki).map_err(|source| StartError::Kubeconfig {
            path: path.clone(),
            source,
        })
    }
}

/// Renews certificates and the key of tokens before they end, for servers that run for long.
async fn renew(
    certificates: Certificates,
    serving: Arc<Serving>,
    authenticator: Arc<Authenticator>,
    mut shutdown: Shutdown,
) {
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(RENEWAL_PERIOD) => {}
        }
        let renewed = certificates.open().map_err(StartError::from).and_then(|pki| {
            serving.exchange(&pki.serving)?;
            authenticator.service_accounts.renew()?;
            certificates.write_kubeconfig(&pki)
        });
        if let Err(error) = renewed {
            tracing::error!(%error, "certificates could not be renewed");
        }
    }
}
