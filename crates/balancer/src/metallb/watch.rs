//! Watch of MetalLB's objects. The kinds may be missing and appear later.

use std::sync::Arc;
use std::time::Duration;

use api::object::{ObjectKey, Resource};
use client::{Client, ClientError, Event, Query};
use serde_json::Value;
use tokio::sync::mpsc::Receiver;
use tokio::sync::watch;

use super::Configuration;
use super::objects::{IpAddressPool, L2Advertisement};

/// Capacity of the channel between a list-watch and its consumer.
const WATCH_EVENTS_MAX: usize = 256;
/// Maximum number of events that lead to one configuration.
const BATCH_MAX: usize = 1_024;
/// Period of checks for the kinds while they are missing.
const CHECK_PERIOD: Duration = Duration::from_secs(30);
/// Delay after a check that failed for another reason.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// Configurations as they change. The value is `None` until the kinds were read or found to be missing.
pub type Configurations = watch::Receiver<Option<Arc<Configuration>>>;

/// Watches MetalLB's objects in a namespace until the receiver is dropped.
pub fn watch(client: &Client, namespace: &str) -> Configurations {
    let (sender, receiver) = watch::channel(None);
    let (client, namespace) = (client.clone(), namespace.to_owned());
    tokio::spawn(async move {
        tokio::select! {
            () = run(&client, &namespace, &sender) => {}
            () = sender.closed() => {}
        }
    });
    receiver
}

/// Resolves when the configuration has changed; never without a watch, or after its end. Cancel safe.
pub async fn changed(configurations: &mut Option<Configurations>) {
    if let Some(configurations) = configurations
        && configurations.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

type Sender = watch::Sender<Option<Arc<Configuration>>>;

async fn run(client: &Client, namespace: &str, sender: &Sender) {
    let mut is_denial_logged = false;
    loop {
        match check(client, namespace).await {
            Ok(()) => break,
            Err(error) if matches!(error.code(), Some(403 | 404)) => {
                if error.code() == Some(403) && !std::mem::replace(&mut is_denial_logged, true) {
                    tracing::warn!(
                        namespace, %error,
                        "no right to read MetalLB's objects; its pools are not used until the role permits to list and \
                         watch ipaddresspools and l2advertisements of metallb.io"
                    );
                }
                sender.send_if_modified(|present| {
                    let is_first = present.is_none();
                    present.get_or_insert_default();
                    is_first
                });
                tokio::time::sleep(CHECK_PERIOD).await;
            }
            Err(error) => {
                tracing::debug!(%error, "kinds of MetalLB not checked; retrying");
                tokio::time::sleep(RETRY_PERIOD).await;
            }
        }
    }
    tracing::info!(namespace, "IPAddressPools and L2Advertisements of MetalLB found");
    Reader::start(client, namespace).run(sender).await;
}

/// Checks that both kinds can be listed.
async fn check(client: &Client, namespace: &str) -> Result<(), ClientError> {
    let namespace = Some(namespace);
    for collection in [
        IpAddressPool::collection(namespace),
        L2Advertisement::collection(namespace),
    ] {
        client.get::<Value>(&format!("{collection}?limit=1")).await?;
    }
    Ok(())
}

/// Reader of existing kinds.
struct Reader {
    pools: Receiver<Event<IpAddressPool>>,
    advertisements: Receiver<Event<L2Advertisement>>,
    configuration: Configuration,
    are_pools_synced: bool,
    are_advertisements_synced: bool,
}

impl Reader {
    fn start(client: &Client, namespace: &str) -> Self {
        let query = || Query {
            namespace: Some(namespace.to_owned()),
            ..Query::default()
        };
        Self {
            pools: client::watch(client, query()).into_channel(WATCH_EVENTS_MAX),
            advertisements: client::watch(client, query()).into_channel(WATCH_EVENTS_MAX),
            configuration: Configuration::default(),
            are_pools_synced: false,
            are_advertisements_synced: false,
        }
    }

    async fn run(mut self, sender: &Sender) {
        loop {
            tokio::select! {
                Some(event) = self.pools.recv() => self.apply_pool(event),
                Some(event) = self.advertisements.recv() => self.apply_advertisement(event),
                else => return,
            }
            for _ in 0..BATCH_MAX {
                if let Ok(event) = self.pools.try_recv() {
                    self.apply_pool(event);
                } else if let Ok(event) = self.advertisements.try_recv() {
                    self.apply_advertisement(event);
                } else {
                    break;
                }
            }
            if self.are_pools_synced && self.are_advertisements_synced {
                let configuration = &self.configuration;
                sender.send_if_modified(|present| {
                    let is_changed = present.as_deref() != Some(configuration);
                    if is_changed {
                        *present = Some(Arc::new(configuration.clone()));
                    }
                    is_changed
                });
            }
        }
    }

    fn apply_pool(&mut self, event: Event<IpAddressPool>) {
        let pools = &mut self.configuration.pools;
        match event {
            Event::Applied(pool) => {
                pools.insert(pool.metadata.name.clone(), pool);
            }
            Event::Deleted(key) => {
                pools.remove(&*key.name);
            }
            Event::Synced => self.are_pools_synced = true,
            Event::Malformed { key, error } => log_malformed(IpAddressPool::KIND, &key, &error),
        }
    }

    fn apply_advertisement(&mut self, event: Event<L2Advertisement>) {
        let advertisements = &mut self.configuration.advertisements;
        match event {
            Event::Applied(advertisement) => {
                advertisements.insert(advertisement.metadata.name.clone(), advertisement);
            }
            Event::Deleted(key) => {
                advertisements.remove(&*key.name);
            }
            Event::Synced => self.are_advertisements_synced = true,
            Event::Malformed { key, error } => log_malformed(L2Advertisement::KIND, &key, &error),
        }
    }
}

fn log_malformed(kind: &'static str, key: &ObjectKey, error: &str) {
    tracing::error!(kind, object = %key, error, "malformed object ignored");
}
