//! Putting the server together.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Client, Query};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::{Config, SnapshotSettings, StartError, TlsFiles, Upstreams};
use crate::explain::explain;
use crate::feed::Feed;
use crate::forward::{ForwardSettings, Forwarder, RouteSettings, read_resolv_conf, without_self};
use crate::metrics::Metrics;
use crate::node_local;
use crate::records::{Index, PodNames, Settings};
use crate::server::{
    Clients, Listening, Policy, Responder, SearchList, Server, machine_addresses, own_addresses,
};
use crate::snapshot;
use crate::status::{Status, start_servers};
use crate::wire::Name;
use crate::zone::{Knowledge, Zone};

/// Where node-local DNS is served.
const DNS_PORT: u16 = 53;
/// How long the first sync is waited for before the last good state is served: longer than any API server that
/// answers takes for it, shorter than clients wait.
const SNAPSHOT_PATIENCE: Duration = Duration::from_secs(1);
/// How often the addresses of this machine are read anew: what a new address may wait until it is answered.
const OWN_ADDRESSES_PERIOD: Duration = Duration::from_secs(10);
/// How often the state is written to disk, if it has changed: what a restart while the API is away may miss.
const SNAPSHOT_PERIOD: Duration = Duration::from_secs(30);

/// Serves the records of the API behind `client` until `shutdown` is ready, and as long again as the lame duck
/// limps. Queries for the cluster's names fail until all of them are known (DNS-16). Without a client that is for
/// ever.
pub async fn run(
    config: Config,
    client: Option<Client>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StartError> {
    let mut config = config;
    if !config.node_local.is_empty() {
        match node_local::set_up(&config.node_local) {
            Err(error) if config.node_local_is_optional => {
                tracing::warn!(%error, "DNS is not served on a link of this node's own");
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
    let listening = Listening {
        plain: config.listen.clone(),
        tls: config
            .tls
            .as_ref()
            .map_or_else(Vec::new, |(listen, _)| listen.clone()),
        tls_config,
        answers_per_second_max: config.answers_per_second_max,
        refusals_per_second_max: config.refusals_per_second_max,
    };
    let server = Server::listen(&listening, responder.clone())?;
    tracing::info!(addresses = ?server.addresses(), domain = %config.cluster_domain, "DNS is served");
    let zone = responder.zone();
    let keep_up = async {
        match &client {
            Some(client) => feed.run(zone, responder.metrics(), client).await,
            None => std::future::pending().await,
        }
    };
    let keep_state = async {
        match &config.snapshot {
            Some(settings) => keep_snapshot(settings, zone, &index_settings(config), &status).await,
            None => std::future::pending().await,
        }
    };
    let keep_own = async {
        match &responder.policy().clients {
            Some(clients) => keep_own_addresses(clients).await,
            None => std::future::pending().await,
        }
    };
    let end = async {
        shutdown.await;
        status.set_lame();
        tokio::time::sleep(config.lameduck).await;
    };
    tokio::select! {
        () = keep_up => {}
        () = keep_state => {}
        () = keep_own => {}
        () = end => {}
    }
    if let Some(settings) = &config.snapshot {
        save(settings, zone);
    }
    Ok(())
}

/// Explains the answer for a name as the API behind `client` would have it given, without a server: reads the
/// collections once. Nothing if the API does not tell them in time.
pub async fn explain_from_api(
    config: Config,
    client: &Client,
    name: &Name,
    kind: u16,
    from: Option<IpAddr>,
    patience: Duration,
) -> Result<Option<String>, StartError> {
    let (responder, feed) = assemble(&config)?;
    let zone = responder.zone();
    let told = async {
        while zone.knowledge() != Knowledge::Live {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = feed.run(zone, responder.metrics(), client) => Ok(None),
        () = told => Ok(Some(explain(&responder, name, kind, from))),
        () = tokio::time::sleep(patience) => Ok(None),
    }
}

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
            spelling: config.forward_spelling,
        },
        cache: config.cache.clone(),
        open_max: config.forward_open_max,
    });
    let index = Arc::new(Index::new(index_settings(config)));
    let clients = config.allow_from.as_ref().map(|allowed| {
        let networks = allowed.networks.iter().chain(&config.transfer_to);
        let clients = Clients::of_networks(networks.copied());
        clients.set_own(machine_addresses());
        Arc::new(clients)
    });
    let of_nodes = config.allow_from.as_ref().is_some_and(|allowed| allowed.nodes);
    let policy = Policy {
        clients: clients.clone(),
        udp_octets_max: config.udp_octets_max,
        search: config.server_side_search.then(|| SearchList::new(host_domains)),
        transfer_to: config.transfer_to.clone(),
        log_queries: config.log_queries,
    };
    let zone = Arc::new(Zone::new(index));
    let responder = Responder::with_policy(zone, forwarder, policy, Arc::new(Metrics::default()));
    let feed = Feed {
        clients: clients.filter(|_| of_nodes),
        ..feed(config)
    };
    Ok((Arc::new(responder), feed))
}

/// What is to be watched.
fn feed(config: &Config) -> Feed {
    let all_pods = config.pods == PodNames::Verified;
    let own_pods = config.node_name.as_ref().filter(|_| !all_pods);
    let pods = Query {
        field_selector: own_pods.map_or_else(String::new, |node| format!("spec.nodeName={node}")),
        // Who asks is to be known of every Pod; only names of Pods are chosen by labels.
        label_selector: match config.server_side_search {
            true => String::new(),
            false => config.labels.clone(),
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
        with_pods_of_others: config.server_side_search,
        clients: None,
    }
}

fn index_settings(config: &Config) -> Settings {
    Settings {
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

/// Has this machine answered at the addresses that it has at each time.
async fn keep_own_addresses(clients: &Clients) {
    loop {
        tokio::time::sleep(OWN_ADDRESSES_PERIOD).await;
        clients.set_own(machine_addresses());
    }
}

/// Serves the last good state until the API has told everything, and writes the present one from time to time.
async fn keep_snapshot(
    settings: &SnapshotSettings,
    zone: &Arc<Zone>,
    index: &Settings,
    status: &Arc<Status>,
) {
    tokio::time::sleep(SNAPSHOT_PATIENCE).await;
    if zone.knowledge() == Knowledge::None {
        match snapshot::read(
            &settings.path,
            index.clone(),
            unix_seconds(),
            settings.age_seconds_max,
        ) {
            Ok((index, written)) => {
                tracing::warn!(
                    age_seconds = unix_seconds().saturating_sub(written),
                    "the API has not told its objects; what is known from before is answered"
                );
                status.set_last_good_written(written);
                zone.set_last_good(Some(Arc::new(index)));
                // The API may have told everything in the meantime.
                if zone.live().is_synced() {
                    zone.set_last_good(None);
                }
            }
            Err(error) => tracing::warn!(%error, "there is no last good state to be answered"),
        }
    }
    let mut saved_serial = None;
    loop {
        tokio::time::sleep(SNAPSHOT_PERIOD).await;
        let serial = zone.live().serial();
        if saved_serial != Some(serial) {
            let (settings, zone) = (settings.clone(), zone.clone());
            // Writing waits for the disk.
            match tokio::task::spawn_blocking(move || save(&settings, &zone)).await {
                Ok(true) => saved_serial = Some(serial),
                Ok(false) => {}
                Err(error) => tracing::error!(%error, "writing the state ended badly"),
            }
        }
    }
}

/// Writes the state to disk if it is complete; whether it is there.
fn save(settings: &SnapshotSettings, zone: &Zone) -> bool {
    if !zone.live().is_synced() {
        return false;
    }
    let written = snapshot::write(&settings.path, zone.live(), unix_seconds());
    if let Err(error) = &written {
        tracing::warn!(%error, "the last good state could not be kept");
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

/// The present time.
pub(crate) fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs()
}

#[cfg(test)]
mod tests;
