//! Assembly and main loop of the DNS server.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Client, Query};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::task::spawn_blocking;

use crate::config::{Config, SnapshotSettings, StartError, TlsFiles, Upstreams};
use crate::feed::Feed;
use crate::forward::{ForwardSettings, Forwarder, RouteSettings, read_resolv_conf, without_self};
use crate::health_server::{Status, start_servers};
use crate::metrics::Metrics;
use crate::node_local::{self, NodeLocalError};
use crate::query_explanation::explain;
use crate::records::{Index, PodNames, Settings, ZoneKind};
use crate::server::{
    ClientAccessList, Policy, Responder, SearchList, Server, ServerSettings, host_addresses, own_addresses,
};
use crate::snapshot;
use crate::wire::Name;
use crate::zone::{Zone, ZoneState};

/// Port of node-local DNS.
const DNS_PORT: u16 = 53;
/// Time after the start until the server answers from the snapshot without the first sync. A reachable API server
/// usually needs less; the timeout of clients is longer.
const FIRST_SYNC_TIMEOUT: Duration = Duration::from_secs(1);
/// Period of reading the host's addresses: the delay until a new one is allowed.
const OWN_ADDRESSES_PERIOD: Duration = Duration::from_secs(10);
/// Period of writing the snapshot, if the zone has changed: the changes that a restart without the API may miss.
const SNAPSHOT_PERIOD: Duration = Duration::from_secs(30);

/// Serves the records of the API behind `client` until `shutdown` completes and the lameduck period is over.
/// Queries for the cluster's names fail until the initial lists are complete (DNS-16); without a client, always.
///
/// # Errors
///
/// Returns [`StartError`] if the configuration cannot be applied: files, addresses, TLS or node-local DNS.
pub async fn run(
    mut config: Config,
    client: Option<Client>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    if !config.node_local.is_empty() {
        match set_up_node_local(config.node_local.clone()).await {
            Err(error) if config.node_local_is_optional => {
                tracing::warn!(%error, "node-local DNS not available");
                config.node_local.clear();
            }
            outcome => outcome?,
        }
        let own = config
            .node_local
            .iter()
            .map(|address| SocketAddr::new(*address, DNS_PORT));
        config.listen.extend(own);
    }
    let outcome = serve(&config, client, shutdown).await;
    if !config.node_local.is_empty() && !config.skip_teardown {
        node_local::tear_down()?;
    }
    outcome
}

/// Sets node-local DNS up in a thread for blocking work: the kernel takes some milliseconds.
async fn set_up_node_local(addresses: Vec<IpAddr>) -> Result<(), NodeLocalError> {
    match spawn_blocking(move || node_local::set_up(&addresses)).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime shuts down, and with it this server.
        Err(_) => std::future::pending().await,
    }
}

/// Serves DNS until `shutdown` resolves.
async fn serve(
    config: &Config,
    client: Option<Client>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let (responder, feed) = assemble(config)?;
    let status = Arc::new(Status::new(responder.clone(), client.clone()));
    let _servers = start_servers(config, &status);
    let tls_config = match &config.tls {
        Some((_, files)) => Some(read_tls(files)?),
        None => None,
    };
    let settings = ServerSettings {
        plain: config.listen.clone(),
        tls: config
            .tls
            .as_ref()
            .map_or_else(Vec::new, |(listen, _)| listen.clone()),
        tls_config,
        responses_per_second_max: config.responses_per_second_max,
        refusals_per_second_max: config.refusals_per_second_max,
    };
    let server = Server::listen(&settings, responder.clone())?;
    tracing::info!(addresses = ?server.addresses(), domain = %config.cluster_domain, "DNS server started");
    let zone = responder.zone();
    let follow_api = async {
        match &client {
            Some(client) => feed.run(zone, responder.metrics(), client).await,
            None => std::future::pending().await,
        }
    };
    let keep_snapshot_current = async {
        match &config.snapshot {
            Some(settings) => keep_snapshot(settings, zone, &index_settings(config), &status).await,
            None => std::future::pending().await,
        }
    };
    let follow_own_addresses = async {
        match &responder.policy().clients {
            Some(clients) => update_own_addresses(clients).await,
            None => std::future::pending().await,
        }
    };
    let end = async {
        shutdown.await;
        status.set_lameduck();
        tokio::time::sleep(config.lameduck).await;
    };
    tokio::select! {
        () = follow_api => {}
        () = keep_snapshot_current => {}
        () = follow_own_addresses => {}
        () = end => {}
    }
    if let Some(settings) = &config.snapshot {
        save(settings, zone);
    }
    Ok(())
}

/// Explains the answer for a name without a server: reads the objects behind `client` once. Returns `None` if the
/// API does not respond within `timeout`.
///
/// # Errors
///
/// Returns [`StartError`] if the configuration cannot be applied.
pub async fn explain_from_api(
    config: Config,
    client: &Client,
    name: &Name,
    kind: u16,
    from: Option<IpAddr>,
    timeout: Duration,
) -> Result<Option<String>, StartError> {
    let (responder, feed) = assemble(&config)?;
    let zone = responder.zone();
    let synced = async {
        while zone.state() != ZoneState::Live {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = feed.run(zone, responder.metrics(), client) => Ok(None),
        () = synced => Ok(Some(explain(&responder, name, kind, from))),
        () = tokio::time::sleep(timeout) => Ok(None),
    }
}

/// Builds the responder, and the feed of its zone.
fn assemble(config: &Config) -> Result<(Arc<Responder>, Feed), StartError> {
    let own = own_addresses(&config.listen);
    let (upstreams, host_domains) = match &config.upstreams {
        Upstreams::ResolvConf(path) => {
            let found = read_resolv_conf(path)?;
            (found.upstreams, found.search)
        }
        Upstreams::Addresses(addresses) => (addresses.clone(), Vec::new()),
    };
    let forwarder = Forwarder::new(ForwardSettings {
        routes: RouteSettings {
            upstreams: without_self(upstreams, &config.listen, &own),
            stubs: config.stubs.clone(),
            policy: config.forward_policy,
            protocol: config.forward_protocol,
            query_case: config.forward_query_case,
        },
        cache: config.cache.clone(),
        open_queries_max: config.forward_open_queries_max,
    });
    let index = Arc::new(Index::new(index_settings(config)));
    let clients = config.allow_from.as_ref().map(|allowed| {
        let networks = allowed.networks.iter().chain(&config.transfer_to);
        let clients = ClientAccessList::of_networks(networks.copied());
        clients.set_own(host_addresses());
        Arc::new(clients)
    });
    let allows_nodes = config.allow_from.as_ref().is_some_and(|allowed| allowed.nodes);
    let policy = Policy {
        clients: clients.clone(),
        udp_bytes_max: config.udp_bytes_max,
        search: config.server_side_search.then(|| SearchList::new(host_domains)),
        transfer_to: config.transfer_to.clone(),
        log_queries: config.log_queries,
    };
    let mut zone = Zone::new(index);
    if let Some(domain) = config.clusterset_domain {
        zone = zone.with_clusterset(Arc::new(Index::new(clusterset_settings(config, domain))));
    }
    let zone = Arc::new(zone);
    let responder = Responder::with_policy(zone, forwarder, policy, Arc::new(Metrics::default()));
    let feed = Feed {
        clients: clients.filter(|_| allows_nodes),
        ..feed_for(config)
    };
    Ok((Arc::new(responder), feed))
}

/// Returns the watches that the configuration needs.
fn feed_for(config: &Config) -> Feed {
    let all_pods = config.pods == PodNames::Verified;
    let own_pods = config.node_name.as_ref().filter(|_| !all_pods);
    let pods = Query {
        field_selector: own_pods.map_or_else(String::new, |node| format!("spec.nodeName={node}")),
        // Server-side search needs all Pods, because each may be a client; labels select only the Pods that have
        // names.
        label_selector: if config.server_side_search {
            String::new()
        } else {
            config.labels.clone()
        },
        ..Query::default()
    };
    let labelled = |selector: &str| Query {
        label_selector: selector.to_owned(),
        ..Query::default()
    };
    Feed {
        services: labelled(&config.labels),
        slices: (!config.no_endpoints).then(|| labelled(&config.labels)),
        namespaces: labelled(&config.namespace_labels),
        pods: (all_pods || config.server_side_search).then_some(pods),
        served: config.namespaces.clone(),
        with_other_pods: config.server_side_search,
        clients: None,
    }
}

fn index_settings(config: &Config) -> Settings {
    Settings {
        kind: ZoneKind::Cluster,
        cluster_domain: config.cluster_domain,
        ttl_seconds: config.ttl_seconds,
        own_addresses: own_addresses(&config.listen),
        serial: u32::try_from(unix_seconds() & u64::from(u32::MAX)).unwrap_or(0),
        pods: config.pods,
        endpoint_pod_names: config.endpoint_pod_names,
        only_known_namespaces: !config.namespaces.is_empty() || !config.namespace_labels.is_empty(),
        ignore_empty_services: config.ignore_empty_services,
    }
}

/// Returns the settings of the zone of a set, which has neither Pods nor name servers in Services.
fn clusterset_settings(config: &Config, domain: Name) -> Settings {
    Settings {
        kind: ZoneKind::ClusterSet,
        cluster_domain: domain,
        pods: PodNames::Disabled,
        ..index_settings(config)
    }
}

/// Updates the allowed addresses of this host.
async fn update_own_addresses(clients: &ClientAccessList) {
    loop {
        tokio::time::sleep(OWN_ADDRESSES_PERIOD).await;
        clients.set_own(host_addresses());
    }
}

/// Serves the snapshot until the initial lists are complete, and writes a snapshot periodically.
async fn keep_snapshot(
    settings: &SnapshotSettings,
    zone: &Arc<Zone>,
    index: &Settings,
    status: &Arc<Status>,
) {
    tokio::time::sleep(FIRST_SYNC_TIMEOUT).await;
    if zone.state() == ZoneState::Unknown {
        match snapshot::read(
            &settings.path,
            index.clone(),
            unix_seconds(),
            settings.age_seconds_max,
        ) {
            Ok((index, written)) => {
                tracing::warn!(
                    age_seconds = unix_seconds().saturating_sub(written),
                    "initial lists not complete; answering from the snapshot"
                );
                status.set_snapshot_time(written);
                zone.set_snapshot(Some(Arc::new(index)));
                // The initial lists may have completed in the meantime.
                if zone.live().is_synced() {
                    zone.set_snapshot(None);
                }
            }
            Err(error) => tracing::warn!(%error, "no usable snapshot"),
        }
    }
    let mut saved_serial = None;
    loop {
        tokio::time::sleep(SNAPSHOT_PERIOD).await;
        let serial = zone.live().serial();
        if saved_serial != Some(serial) {
            let (settings, zone) = (settings.clone(), zone.clone());
            // Writing blocks on the disk.
            match spawn_blocking(move || save(&settings, &zone)).await {
                Ok(true) => saved_serial = Some(serial),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "snapshot task panicked"),
            }
        }
    }
}

/// Writes a snapshot if the zone is synced; returns true if it was written.
fn save(settings: &SnapshotSettings, zone: &Zone) -> bool {
    if !zone.live().is_synced() {
        return false;
    }
    let written = snapshot::write(&settings.path, zone.live(), unix_seconds());
    if let Err(error) = &written {
        tracing::warn!(%error, "snapshot not written");
    }
    written.is_ok()
}

fn read_tls(files: &TlsFiles) -> Result<Arc<rustls::ServerConfig>, StartError> {
    let failed = |path: &Path, reason: String| StartError::Tls {
        path: path.into(),
        reason,
    };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificates)
        .and_then(Iterator::collect)
        .map_err(|error| failed(&files.certificates, error.to_string()))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| failed(&files.key, error.to_string()))?;
    let unusable = |error: rustls::Error| failed(&files.certificates, error.to_string());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"dot".to_vec()];
    Ok(Arc::new(config))
}

/// Returns the current time in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs()
}

#[cfg(test)]
mod tests;
