//! Configuration of an API server.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;

use crate::access::audit::AuditSettings;
use crate::access::authorization::AuthorizationMode;
use crate::access::flow_control::RequestLimits;
use crate::registry::admission::{AdmissionConfiguration, AdmissionPlugin};
use crate::registry::encryption::Encryption;

/// Range of node ports by default (NP-01).
pub const NODE_PORTS_DEFAULT: RangeInclusive<u16> = 30_000..=32_767;

/// Configuration of an API server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// Data directory; certificates are in its subdirectory `pki`.
    pub data_dir: PathBuf,
    /// Name of this host, a subject name of the serving certificate.
    pub node_name: String,
    /// Address of this server in the endpoints of the Service `kubernetes`. `None` is the listening address,
    /// or an address of this host if that is a wildcard.
    pub advertise_address: Option<IpAddr>,
    /// Settings of the Service `kubernetes`.
    pub kubernetes_service: KubernetesService,
    /// Ranges of cluster IPs: one, or two of different families.
    pub service_cidrs: Vec<IpNet>,
    /// Range of node ports.
    pub node_ports: RangeInclusive<u16>,
    /// File of static tokens, in upstream's CSV format.
    pub token_auth_file: Option<PathBuf>,
    /// Path for the administrator's kubeconfig; `None` writes none.
    pub kubeconfig: Option<PathBuf>,
    /// DNS domain of the cluster, for the subject names of the serving certificate.
    pub cluster_domain: String,
    /// Access control and limits.
    pub access: Access,
    /// Encryption of the store; `None` without a configuration.
    pub encryption: Option<EncryptionAtRest>,
}

/// Encryption at rest. The store uses the same transformer.
#[derive(Clone)]
pub struct EncryptionAtRest {
    /// Transformer of stored values.
    pub encryption: Arc<Encryption>,
    /// True if changes of the configuration file are applied at run time.
    pub reloads: bool,
}

impl fmt::Debug for EncryptionAtRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The transformer holds keys.
        f.debug_struct("EncryptionAtRest")
            .field("reloads", &self.reloads)
            .finish_non_exhaustive()
    }
}

/// Settings of the Service `kubernetes`.
#[derive(Clone, Debug, Default)]
pub struct KubernetesService {
    /// Node port of the Service, if this server creates it (KSVC-02); `None` for type ClusterIP.
    pub node_port: Option<u16>,
    /// Reconciler of the endpoints (KSVC-03).
    pub endpoint_reconciler: EndpointReconciler,
}

/// Reconciler of the endpoints of the Service `kubernetes`, with upstream's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointReconciler {
    /// Each server renews a record in the store every few seconds.
    #[default]
    Lease,
    /// None: another program maintains the endpoints.
    None,
}

/// Access control and limits.
#[derive(Clone, Debug)]
pub struct Access {
    /// Authorizers in their order. The first that allows a request decides.
    pub authorization_modes: Vec<AuthorizationMode>,
    /// True if requests without credentials are authorized as `system:anonymous`.
    pub allows_anonymous: bool,
    /// Enabled admission plugins.
    pub admission_plugins: BTreeSet<AdmissionPlugin>,
    /// Settings of the admission plugins.
    pub admission_configuration: AdmissionConfiguration,
    /// Limits of concurrent requests and connections.
    pub request_limits: RequestLimits,
    /// Audit log; `None` for no log.
    pub audit: Option<AuditSettings>,
    /// Issuer of ServiceAccount tokens, and their default audience. `None` is the URL of the Service `kubernetes`.
    pub service_account_issuer: Option<String>,
}

impl Default for Access {
    fn default() -> Access {
        Access {
            authorization_modes: vec![AuthorizationMode::Node, AuthorizationMode::Rbac],
            allows_anonymous: true,
            admission_plugins: AdmissionPlugin::defaults(),
            admission_configuration: AdmissionConfiguration::default(),
            request_limits: RequestLimits::default(),
            audit: None,
            service_account_issuer: None,
        }
    }
}
