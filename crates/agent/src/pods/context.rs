//! State that the workers of all Pods share.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::images::ImageStore;
use client::Client;
use client::events::EventQueue;

use crate::confinement::user_namespaces::ranges::{IdRange, RangePool};
use crate::containers::environment::Capacity;
use crate::containers::services::Services;
use crate::images::image_access::ImageAccess;
use crate::images::image_puller::ImagePuller;
use crate::images::images_in_use::ImagesInUse;
use crate::network::addresses::AddressPool;
use crate::network::host_ports::{HostPort, HostPortError, HostPorts};
use crate::network::resolv_conf::ResolvConf;
use crate::pods::state_directory::StateDirectory;
use crate::pods::status_pace::StatusPace;
use crate::resources::cgroups::{CgroupError, Cgroups};
use crate::settings::Settings;

/// State that the workers of all Pods share.
pub(crate) struct Context {
    /// Client of the API server, with the identity of the node.
    pub client: Client,
    /// Settings of the agent.
    pub settings: Settings,
    /// Addresses of the node, the primary one first.
    pub host_ips: Vec<IpAddr>,
    /// resolv.conf of the node.
    pub host_resolv_conf: ResolvConf,
    /// Addresses of Pods.
    pub addresses: Mutex<AddressPool>,
    /// Host ports of Pods.
    pub host_ports: Arc<HostPorts>,
    /// Host IDs of Pods with user namespaces.
    pub id_ranges: Mutex<RangePool>,
    /// Services of the cluster.
    pub services: Services,
    /// State directory.
    pub state: StateDirectory,
    /// Recorder of Events.
    pub events: EventQueue,
    /// Pace at which the statuses of large Pods are written.
    pub status_pace: Arc<StatusPace>,
    /// Control groups of Pods. Without them, limits are not enforced.
    pub cgroups: Result<Cgroups, CgroupError>,
    /// Capacity of the node.
    pub capacity: Capacity,
    /// TLS configuration of HTTPS probes, which do not verify certificates.
    pub probe_tls: Arc<rustls::ClientConfig>,
    /// Images of the node; `None` without an image store.
    pub images: Option<NodeImages>,
}

/// Images of the node.
pub(crate) struct NodeImages {
    /// Image store.
    pub store: ImageStore,
    /// Starter of pulls.
    pub puller: ImagePuller,
    /// Namespaces that may use images without a pull.
    pub access: Arc<ImageAccess>,
    /// Images of containers.
    pub in_use: Arc<ImagesInUse>,
}

impl Context {
    /// Locks the addresses of Pods.
    pub(crate) fn addresses(&self) -> MutexGuard<'_, AddressPool> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the host IDs of Pods.
    pub(crate) fn id_ranges(&self) -> MutexGuard<'_, RangePool> {
        self.id_ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the addresses and host IDs of a Pod to their pools.
    pub(crate) fn release(&self, addresses: &[IpAddr], ids: Option<IdRange>) {
        self.addresses().release(addresses);
        if let Some(ids) = ids {
            self.id_ranges().release(ids);
        }
    }

    /// Adds the host ports of a Pod. `None` if the agent shuts down.
    pub(crate) async fn add_host_ports(
        &self,
        uid: &str,
        ports: Vec<HostPort>,
    ) -> Option<Result<(), HostPortError>> {
        let (all, uid) = (Arc::clone(&self.host_ports), uid.to_owned());
        let added = tokio::task::spawn_blocking(move || all.add(&uid, ports)).await;
        added.ok()
    }

    /// Removes the host ports of a Pod. The next change of host ports removes those that remain after a failure.
    pub(crate) async fn remove_host_ports(&self, uid: &str) {
        let (all, uid) = (Arc::clone(&self.host_ports), uid.to_owned());
        match tokio::task::spawn_blocking(move || all.remove(&uid)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "host ports of a Pod not removed"),
            Err(error) => tracing::error!(%error, "host ports of a Pod not removed"),
        }
    }

    /// Releases the images of a Pod without running containers, so that the store may remove them.
    pub(crate) async fn release_images(&self, uid: &str) {
        let Some(images) = &self.images else { return };
        let (in_use, uid) = (Arc::clone(&images.in_use), uid.to_owned());
        if let Err(error) = tokio::task::spawn_blocking(move || in_use.release(&uid)).await {
            tracing::warn!(%error, "images of a Pod not released");
        }
    }

    /// Removes the control groups of a Pod, and kills the processes in them.
    pub(crate) fn remove_cgroups(&self, uid: &str) {
        if let Ok(cgroups) = &self.cgroups {
            cgroups.remove_pod(uid);
        }
    }
}
