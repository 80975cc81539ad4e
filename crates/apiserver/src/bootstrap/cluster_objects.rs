//! The objects that every cluster has: its first Namespaces, the default ServiceCIDR, and the `kubernetes` Service
//! with its endpoints. They are made at the start and, but for the Service, made again when somebody removes them.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api::ip::Family;
use api::kind::{self, Kind};
use api::tree::{child, items, set_or_clear, text, texts};
use ipnet::IpNet;
use serde_json::{Value, json};
use store::{CommitError, StoreError};
use tokio::sync::Mutex;

use crate::access::authorization::ensure_default_roles;
use crate::bootstrap::api_servers::{self, ApiServers};
use crate::failure::Failure;
use crate::registry::event;
use crate::registry::namespace::DEFAULT_NAMESPACES;
use crate::registry::service::repair::Regarding;
use crate::registry::service::{
    DEFAULT_SERVICE_CIDR, default_service_cidr, kubernetes_endpoint_slice, kubernetes_endpoints,
    kubernetes_service,
};
use crate::request::route::Target;
use crate::server::config::{Config, EndpointReconciler};
use crate::shutdown::Shutdown;
use crate::verbs::resource::{Resources, WriteContext, WriteError, retry_on_conflict};

/// How often it is made sure that all is there (CIDR-05, KSVC-03).
const PERIOD: Duration = Duration::from_secs(10);

/// Who writes Events about the default ServiceCIDR.
const EVENT_COMPONENT: &str = "kubernetes-default-service-cidr-controller";

/// Why the objects cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// An object is refused; the configuration contradicts what is in the store, or the store fails.
    #[error("cannot make the {kind} {name}: {reason}")]
    Refused {
        /// Its kind.
        kind: &'static str,
        /// Name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The store cannot say which API servers there are.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// The store cannot take down that this one is there.
    #[error(transparent)]
    Write(#[from] CommitError),
    /// The primary range has no address for the `kubernetes` Service.
    #[error(transparent)]
    Range(#[from] ipam::UnusableRange),
}

/// What has to be there.
pub(crate) struct Essentials {
    ranges: Vec<IpNet>,
    secure_port: u16,
    /// Addresses that Pods and other machines reach the server at; none if it can only be reached from here.
    addresses: Vec<IpAddr>,
    /// The Service `kubernetes` is of type NodePort, with this port (KSVC-02).
    node_port: Option<u16>,
    reconciler: EndpointReconciler,
    /// Whether it was said that the stored default range is another than the configured one.
    has_warned: AtomicBool,
    /// The servers that share the store.
    servers: Mutex<ApiServers>,
}

impl Essentials {
    pub(crate) fn new(config: &Config, listening: SocketAddr) -> Essentials {
        let address = config.advertise_address.or_else(|| match listening.ip() {
            ip if ip.is_unspecified() => outward_address(ip),
            ip => Some(ip),
        });
        let addresses: Vec<IpAddr> = address
            .into_iter()
            .filter(|address| !address.is_loopback())
            .collect();
        if addresses.is_empty() {
            tracing::info!(
                "the server is reached by loopback only, so the Service kubernetes has no endpoints"
            );
        }
        Essentials {
            ranges: config.service_cidrs.clone(),
            secure_port: listening.port(),
            addresses,
            node_port: config.kubernetes_service.node_port,
            reconciler: config.kubernetes_service.endpoint_reconciler,
            has_warned: AtomicBool::new(false),
            servers: Mutex::default(),
        }
    }

    /// Makes what is missing, but for the endpoints of the Service `kubernetes`.
    pub(crate) async fn ensure(&self, resources: &Resources) -> Result<(), BootstrapError> {
        for name in DEFAULT_NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.create_if_absent(resources, find("", "namespaces")?, "", name, &namespace)
                .await?;
        }
        self.ensure_service_cidr(resources).await?;
        if let Some(primary) = self.ranges.first() {
            let service = kubernetes_service(*primary, self.secure_port, self.node_port)?;
            let services = find("", "services")?;
            self.create_if_absent(resources, services, "default", "kubernetes", &service)
                .await?;
        }
        Ok(())
    }

    /// Makes the default roles; once, at the start.
    pub(crate) async fn ensure_roles(&self, resources: &Resources) -> Result<(), BootstrapError> {
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
        let failed = |failure: Failure| refused(kind, DEFAULT_SERVICE_CIDR, &failure);
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
        let (wanted, found) = (child(&cidr, "spec"), child(&stored.object, "spec"));
        let (wanted, found) = (texts(wanted, "cidrs"), texts(found, "cidrs"));
        if let [only] = found.as_slice()
            && let [first, _] = wanted.as_slice()
            && only == first
        {
            // A cluster that becomes dual-stack (CIDR-06).
            write(resources, &target, &cidr).await.map_err(failed)?;
        } else if wanted != found {
            self.warn_of_other_ranges(resources, &stored.object, &wanted, &found)
                .await;
        } else if !is_judged(&stored.object) {
            // As it is when the server ended between making it and saying so (CIDR-08).
            let status = target.with_subresource("status");
            write(resources, &status, &cidr).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Says once that the stored ranges are not the configured ones; they are left alone (CIDR-07).
    async fn warn_of_other_ranges(
        &self,
        resources: &Resources,
        stored: &Value,
        wanted: &[&str],
        found: &[&str],
    ) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = format!(
            "The default ServiceCIDR {found:?} does not match the flag --service-cluster-ip-range {wanted:?}"
        );
        tracing::warn!("{message}");
        let regarding = Regarding {
            kind: "ServiceCIDR",
            api_version: "networking.k8s.io/v1",
            namespace: String::new(),
            name: DEFAULT_SERVICE_CIDR.to_owned(),
            uid: text(child(stored, "metadata"), "uid").to_owned(),
        };
        let reason = "KubernetesDefaultServiceCIDRInconsistent";
        event::warn(resources, EVENT_COMPONENT, &regarding, reason, &message).await;
    }

    /// Says that this server is there, and makes the endpoints of the Service `kubernetes`; not before it answers
    /// (KSVC-05).
    pub(crate) async fn publish(&self, resources: &Resources) -> Result<(), BootstrapError> {
        if self.addresses.is_empty() || self.reconciler == EndpointReconciler::None {
            return Ok(());
        }
        api_servers::renew(&*resources.store, &self.addresses).await?;
        self.write_endpoints(resources).await
    }

    /// Takes this server out of the endpoints of the `kubernetes` Service, if others are left: clients that are told
    /// of none would keep to what they know.
    pub(crate) async fn leave(&self, resources: &Resources) -> Result<(), BootstrapError> {
        if self.reconciler == EndpointReconciler::None {
            return Ok(());
        }
        api_servers::leave(&*resources.store, &self.addresses).await?;
        self.write_endpoints(resources).await
    }

    /// Makes the endpoints of the `kubernetes` Service out of the servers that are there.
    async fn write_endpoints(&self, resources: &Resources) -> Result<(), BootstrapError> {
        let mut servers = self.servers.lock().await;
        let addresses = servers.present(&*resources.store, Instant::now()).await?;
        let Some(first) = addresses.first() else {
            return Ok(());
        };
        let endpoints = kubernetes_endpoints(&addresses, self.secure_port);
        let slice = kubernetes_endpoint_slice(&addresses, Family::of(*first), self.secure_port);
        for (kind, object) in [
            (find("", "endpoints")?, endpoints),
            (find("discovery.k8s.io", "endpointslices")?, slice),
        ] {
            let target = Target::object(kind, "default", "kubernetes");
            let written = write(resources, &target, &object).await;
            written.map_err(|failure| refused(kind, "kubernetes", &failure))?;
        }
        Ok(())
    }

    /// Tells whether the object was made now.
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
        created.await.map_err(|failure| refused(kind, name, &failure))
    }
}

/// Makes sure again and again that all is there, until the server ends.
pub(crate) async fn keep(essentials: Arc<Essentials>, resources: Arc<Resources>, mut shutdown: Shutdown) {
    loop {
        tokio::select! {
            () = shutdown.requested() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        let ensured = match essentials.ensure(&resources).await {
            Ok(()) => essentials.publish(&resources).await,
            failed => failed,
        };
        if let Err(error) = ensured {
            tracing::warn!(%error, "an object that every cluster has could not be made");
        }
    }
}

/// Creates an object or brings it into this state; what others have added to its metadata stays.
async fn write(resources: &Resources, target: &Target, object: &Value) -> Result<(), Failure> {
    retry_on_conflict(target, || async {
        let Some(stored) = resources.stored(target).await? else {
            resources
                .create_object(target, object.clone(), Vec::new(), WriteContext::SERVER)
                .await?;
            return Ok(());
        };
        let mut wanted = object.clone();
        set_or_clear(&mut wanted, "metadata", Some(stored.metadata().clone()));
        resources
            .replace(target, stored, wanted, Vec::new(), WriteContext::SERVER)
            .await?;
        Ok(())
    })
    .await
}

/// Whether the condition Ready is True or False.
fn is_judged(cidr: &Value) -> bool {
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

fn refused(kind: &Kind, name: &str, failure: &Failure) -> BootstrapError {
    let name = name.to_owned();
    let kind = kind::find(kind.group, kind.version, kind.plural).map_or("object", |kind| kind.kind);
    BootstrapError::Refused {
        kind,
        name,
        reason: failure.message().to_owned(),
    }
}

/// The address of this machine by which it reaches others. No packet is sent for that.
fn outward_address(wildcard: IpAddr) -> Option<IpAddr> {
    // Documentation addresses (RFC 5737, RFC 3849): nobody is there, but a route to them exists if any does.
    let elsewhere: SocketAddr = match wildcard {
        IpAddr::V4(_) => ([192, 0, 2, 1], 9).into(),
        IpAddr::V6(_) => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9).into(),
    };
    let socket = UdpSocket::bind((wildcard, 0)).ok()?;
    socket.connect(elsewhere).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}
