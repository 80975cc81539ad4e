//! What a server is told at its start.

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

/// The node ports that upstream gives out by default (NP-01).
pub const NODE_PORTS_DEFAULT: RangeInclusive<u16> = 30_000..=32_767;

/// Configuration of an API server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Directory for certificates, below it in `pki`.
    pub data_dir: PathBuf,
    /// The name of this machine, one of those that the serving certificate is good for.
    pub node_name: String,
    /// The address that other machines and Pods reach the server at, for the endpoints of the `kubernetes`
    /// Service. `None` is the listening address, or an address of this machine if that is a wildcard.
    pub advertise_address: Option<IpAddr>,
    /// How the Service `kubernetes` leads to the servers.
    pub kubernetes_service: KubernetesService,
    /// The ranges that cluster IPs come from: one, or two of different families.
    pub service_cidrs: Vec<IpNet>,
    /// The range that node ports come from.
    pub node_ports: RangeInclusive<u16>,
    /// Static tokens in the upstream CSV form.
    pub token_auth_file: Option<PathBuf>,
    /// Where to write the administrator's kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// The domain of the cluster, for the names that the serving certificate is good for.
    pub cluster_domain: String,
    /// Who may do what, and how much of it.
    pub access: Access,
    /// Encryption of the store; `None` without a configuration.
    pub encryption: Option<EncryptionAtRest>,
}

/// Encryption at rest. The store has the same transformer.
#[derive(Clone)]
pub struct EncryptionAtRest {
    /// The transformer.
    pub encryption: Arc<Encryption>,
    /// Set if the file is reloaded when it changes.
    pub reloads: bool,
}

impl fmt::Debug for EncryptionAtRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // There are keys in it.
        f.debug_struct("EncryptionAtRest")
            .field("reloads", &self.reloads)
            .finish_non_exhaustive()
    }
}

/// How the Service `kubernetes` leads to the servers.
#[derive(Clone, Debug, Default)]
pub struct KubernetesService {
    /// The Service is of type NodePort with this port, if it is made by this server (KSVC-02).
    pub node_port: Option<u16>,
    /// Who keeps its endpoints (KSVC-03).
    pub endpoint_reconciler: EndpointReconciler,
}

/// Who keeps the endpoints of the Service `kubernetes`, under upstream's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointReconciler {
    /// The servers do: each says every few seconds that it is there.
    #[default]
    Lease,
    /// Somebody else does.
    None,
}

/// Who may do what, and how much of it.
#[derive(Clone, Debug)]
pub struct Access {
    /// Who decides; the first that allows something counts.
    pub authorization_modes: Vec<AuthorizationMode>,
    /// Whether requests that prove no identity are decided about, too, as those of somebody anonymous.
    pub allows_anonymous: bool,
    /// What is looked at in writes.
    pub admission_plugins: BTreeSet<AdmissionPlugin>,
    /// Settings of those checks.
    pub admission_configuration: AdmissionConfiguration,
    /// Limits of what is asked for at a time.
    pub request_limits: RequestLimits,
    /// Audit log; `None` for no log.
    pub audit: Option<AuditSettings>,
    /// Who the tokens of ServiceAccounts say they are from, and for if they do not say for whom. `None` is the URL of
    /// the `kubernetes` Service.
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
