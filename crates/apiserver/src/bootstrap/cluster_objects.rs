//! Objects that every cluster has: the default Namespaces and roles, the default ServiceCIDR, and the Service
//! `kubernetes` with its endpoints. The server creates them at its start, and creates deleted ones again.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::ip::Family;
use api::kind::{self, Kind};
use api::tree::{child, items, set_or_clear, text, texts};
use futures_util::future::try_join_all;
use ipnet::IpNet;
use serde_json::{Value, json};
use store::{CommitError, StoreError};
use tokio::sync::Mutex;

use crate::access::authorization::ensure_default_roles;
use crate::bootstrap::api_servers::{self, ApiServers};
use crate::failure::Failure;
use crate::registry::event;
use crate::registry::namespace::DEFAULT_NAMESPACES;
use crate::registry::service::repair::RegardingObject;
use crate::registry::service::{
    DEFAULT_SERVICE_CIDR, default_service_cidr, kubernetes_endpoint_slice, kubernetes_endpoints,
    kubernetes_service,
};
use crate::request::route::Target;
use crate::server::config::{Config, EndpointReconciler};
use crate::shutdown::Shutdown;
use crate::verbs::resource::{Resources, WriteContext, WriteError, retry_on_conflict};

/// Interval of the checks for absent objects (CIDR-05, KSVC-03).
const CHECK_PERIOD: Duration = Duration::from_secs(10);

/// Reporting component of Events about the default ServiceCIDR (upstream's name).
const EVENT_COMPONENT: &str = "kubernetes-default-service-cidr-controller";

/// Failure to create an object that every cluster has.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// An object is refused: the configuration contradicts the stored objects, or the store failed.
    #[error("cannot create the {kind} {name}: {reason}")]
    Refused {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// Message of the refusal.
        reason: String,
    },
    /// The records of API servers cannot be read.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// The record of this server cannot be written.
    #[error(transparent)]
    Write(#[from] CommitError),
    /// The primary range has no address for the Service `kubernetes`.
    #[error(transparent)]
    Range(#[from] ipam::UnusableRange),
}

/// Objects that every cluster has, with the settings that they depend on.
pub(crate) struct ClusterObjects {
    ranges: Vec<IpNet>,
    secure_port: u16,
    /// Addresses by which Pods and other hosts reach this server; empty if it listens on loopback only.
    addresses: Vec<IpAddr>,
    /// Node port of the Service `kubernetes` (KSVC-02); `None` for type ClusterIP.
    node_port: Option<u16>,
    reconciler: EndpointReconciler,
    /// True after the warning that stored and configured ranges differ.
    has_warned: AtomicBool,
    /// Servers that share the store.
    servers: Mutex<ApiServers>,
}

impl ClusterObjects {
    pub(crate) fn new(config: &Config, listening: SocketAddr) -> ClusterObjects {
        let address = config.advertise_address.or_else(|| match listening.ip() {
            ip if ip.is_unspecified() => outward_address(ip),
            ip => Some(ip),
        });
        let addresses: Vec<IpAddr> = address
            .into_iter()
            .filter(|address| !address.is_loopback())
            .collect();
        if addresses.is_empty() {
            tracing::info!("Service kubernetes without endpoints; the server listens on loopback only");
        }
        ClusterObjects {
            ranges: config.service_cidrs.clone(),
            secure_port: listening.port(),
            addresses,
            node_port: config.kubernetes_service.node_port,
            reconciler: config.kubernetes_service.endpoint_reconciler,
            has_warned: AtomicBool::new(false),
            servers: Mutex::default(),
        }
    }

    /// Creates absent objects, except roles and the endpoints of the Service `kubernetes`.
    pub(crate) async fn ensure(&self, resources: &Resources) -> Result<(), BootstrapError> {
        self.ensure_namespaces(resources).await?;
        self.ensure_ranges(resources).await
    }

    /// Does the same as [`ClusterObjects::ensure`], and creates and updates the default roles; called once, at the start.
    pub(crate) async fn ensure_at_start(&self, resources: &Resources) -> Result<(), BootstrapError> {
        // Some roles are in a Namespace.
        self.ensure_namespaces(resources).await?;
        tokio::try_join!(self.ensure_ranges(resources), self.ensure_roles(resources))?;
        Ok(())
    }

    async fn ensure_namespaces(&self, resources: &Resources) -> Result<(), BootstrapError> {
        let kind = find("", "namespaces")?;
        // Concurrently, so that the writes share commits.
        let each = DEFAULT_NAMESPACES.map(|name| async move {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.create_if_absent(resources, kind, "", name, &namespace).await
        });
        try_join_all(each).await?;
        Ok(())
    }

    /// Creates the default ServiceCIDR, then the Service `kubernetes`, which has an address of it.
    async fn ensure_ranges(&self, resources: &Resources) -> Result<(), BootstrapError> {
        self.ensure_service_cidr(resources).await?;
        if let Some(primary) = self.ranges.first() {
            let service = kubernetes_service(*primary, self.secure_port, self.node_port)?;
            let services = find("", "services")?;
            self.create_if_absent(resources, services, "default", "kubernetes", &service)
                .await?;
        }
        Ok(())
    }

    async fn ensure_roles(&self, resources: &Resources) -> Result<(), BootstrapError> {
        ensure_default_roles(resources)
            .await
            .map_err(|(name, failure)| BootstrapError::Refused {
                kind: "default role or binding",
                name,
                reason: failure.message().to_owned(),
            })
    }

    async fn ensure_service_cidr(&self, resources: &Resources) -> Result<(), BootstrapError> {
        let kind = find("networking.k8s.io", "servicecidrs")?;
        let failed = |failure: Failure| refused_object(kind, DEFAULT_SERVICE_CIDR, &failure);
        let cidr = default_service_cidr(&self.ranges, jiff::Timestamp::now());
        let target = Target::object(kind, "", DEFAULT_SERVICE_CIDR);
        if self
            .create_if_absent(resources, kind, "", DEFAULT_SERVICE_CIDR, &cidr)
            .await?
        {
            let status = target.with_subresource("status");
            return write(resources, &status, &cidr).await.map_err(failed);
        }
        let Some(stored) = resources.stored(&target).await.map_err(failed)? else {
            return Ok(());
        };
        let configured = texts(child(&cidr, "spec"), "cidrs");
        let found = texts(child(&stored.object, "spec"), "cidrs");
        if let [only] = found.as_slice()
            && let [first, _] = configured.as_slice()
            && only == first
        {
            // The cluster becomes dual-stack (CIDR-06).
            write(resources, &target, &cidr).await.map_err(failed)?;
        } else if configured != found {
            self.warn_of_other_ranges(resources, &stored.object, &configured, &found)
                .await;
        } else if !has_ready_condition(&stored.object) {
            // The server stopped between the creation and the write of the status (CIDR-08).
            let status = target.with_subresource("status");
            write(resources, &status, &cidr).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Warns once that stored and configured ranges differ. The stored ones stay (CIDR-07).
    async fn warn_of_other_ranges(
        &self,
        resources: &Resources,
        stored: &Value,
        configured: &[&str],
        found: &[&str],
    ) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = format!(
            "The default ServiceCIDR {found:?} does not match the flag --service-cluster-ip-range {configured:?}"
        );
        tracing::warn!(
            ?found,
            ?configured,
            "default ServiceCIDR differs from --service-cluster-ip-range"
        );
        let regarding = RegardingObject {
            kind: "ServiceCIDR",
            api_version: "networking.k8s.io/v1",
            namespace: String::new(),
            name: DEFAULT_SERVICE_CIDR.to_owned(),
            uid: text(child(stored, "metadata"), "uid").to_owned(),
        };
        let reason = "KubernetesDefaultServiceCIDRInconsistent";
        event::warn(resources, EVENT_COMPONENT, &regarding, reason, &message).await;
    }

    /// Renews the record of this server, and writes the endpoints of the Service `kubernetes`. Called after
    /// the server listens (KSVC-05).
    pub(crate) async fn publish(&self, resources: &Resources) -> Result<(), BootstrapError> {
        if self.addresses.is_empty() || self.reconciler == EndpointReconciler::None {
            return Ok(());
        }
        api_servers::renew(&*resources.store, &self.addresses).await?;
        self.write_endpoints(resources).await
    }

    /// Removes this server from the endpoints of the Service `kubernetes`, unless it is the last one.
    pub(crate) async fn leave(&self, resources: &Resources) -> Result<(), BootstrapError> {
        if self.reconciler == EndpointReconciler::None {
            return Ok(());
        }
        api_servers::leave(&*resources.store, &self.addresses).await?;
        self.write_endpoints(resources).await
    }

    /// Writes the endpoints of the Service `kubernetes` from the records of servers.
    async fn write_endpoints(&self, resources: &Resources) -> Result<(), BootstrapError> {
        let mut servers = self.servers.lock().await;
        let addresses = servers.live_addresses(&*resources.store, Instant::now()).await?;
        let Some(first) = addresses.first() else {
            return Ok(());
        };
        let endpoints = kubernetes_endpoints(&addresses, self.secure_port);
        let slice = kubernetes_endpoint_slice(&addresses, Family::of(*first), self.secure_port);
        let objects = [
            (find("", "endpoints")?, endpoints),
            (find("discovery.k8s.io", "endpointslices")?, slice),
        ];
        let each = objects.map(|(kind, object)| async move {
            let target = Target::object(kind, "default", "kubernetes");
            let written = write(resources, &target, &object).await;
            written.map_err(|failure| refused_object(kind, "kubernetes", &failure))
        });
        try_join_all(each).await?;
        Ok(())
    }

    /// Creates an object if it is absent. Returns true if it was created.
    async fn create_if_absent(
        &self,
        resources: &Resources,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<bool, BootstrapError> {
        let target = Target::object(kind, namespace, name);
        let created = retry_on_conflict(&target, || async {
            if resources.stored(&target).await?.is_some() {
                return Ok(false);
            }
            match resources
                .create_object(&target, object.clone(), Vec::new(), WriteContext::SERVER)
                .await
            {
                Ok(_) => Ok(true),
                Err(WriteError::Failed(failure)) if failure.reason() == "AlreadyExists" => Ok(false),
                Err(other) => Err(other),
            }
        });
        created
            .await
            .map_err(|failure| refused_object(kind, name, &failure))
    }
}

/// Creates absent objects periodically, until the server shuts down.
pub(crate) async fn maintain(
    cluster_objects: Arc<ClusterObjects>,
    resources: Arc<Resources>,
    mut shutdown: Shutdown,
) {
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(CHECK_PERIOD) => {}
        }
        let ensured = match cluster_objects.ensure(&resources).await {
            Ok(()) => cluster_objects.publish(&resources).await,
            failed => failed,
        };
        if let Err(error) = ensured {
            tracing::warn!(%error, "cluster object not created");
        }
    }
}

/// Creates or replaces an object. Stored metadata stays.
async fn write(resources: &Resources, target: &Target, object: &Value) -> Result<(), Failure> {
    retry_on_conflict(target, || async {
        let Some(stored) = resources.stored(target).await? else {
            resources
                .create_object(target, object.clone(), Vec::new(), WriteContext::SERVER)
                .await?;
            return Ok(());
        };
        let mut replacement = object.clone();
        set_or_clear(&mut replacement, "metadata", Some(stored.metadata().clone()));
        resources
            .replace(target, stored, replacement, Vec::new(), WriteContext::SERVER)
            .await?;
        Ok(())
    })
    .await
}

/// Returns true if the condition Ready is True or False.
fn has_ready_condition(cidr: &Value) -> bool {
    let conditions = items(child(cidr, "status"), "conditions");
    let ready = conditions
        .iter()
        .find(|condition| text(condition, "type") == "Ready");
    ready.is_some_and(|ready| text(ready, "status") != "Unknown")
}

fn find(group: &str, plural: &str) -> Result<&'static Kind, BootstrapError> {
    kind::find(group, "v1", plural).ok_or_else(|| BootstrapError::Refused {
        kind: "kind",
        name: plural.to_owned(),
        reason: "it is not served".to_owned(),
    })
}

fn refused_object(kind: &Kind, name: &str, failure: &Failure) -> BootstrapError {
    let name = name.to_owned();
    let kind = kind::find(kind.group, kind.version, kind.plural).map_or("object", |kind| kind.kind);
    BootstrapError::Refused {
        kind,
        name,
        reason: failure.message().to_owned(),
    }
}

/// Returns the address by which this host reaches others. No packet is sent.
fn outward_address(wildcard: IpAddr) -> Option<IpAddr> {
    // Documentation addresses (RFC 5737, RFC 3849) have no host, but the default route applies to them.
    let remote: SocketAddr = match wildcard {
        IpAddr::V4(_) => ([192, 0, 2, 1], 9).into(),
        IpAddr::V6(_) => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9).into(),
    };
    let socket = UdpSocket::bind((wildcard, 0)).ok()?;
    socket.connect(remote).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}
