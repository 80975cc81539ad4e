//! Health, readiness, metrics and explanations over HTTP, at CoreDNS' ports and paths.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::Client;
use http::{StatusCode, Uri};
use telemetry::{Answer, Counted, Respond, Text, listen, serve};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::explain::{explain, kind_of_text};
use crate::metrics::write_requests;
use crate::run::unix_seconds;
use crate::server::Responder;
use crate::wire::{Name, kind};
use crate::zone::Knowledge;

/// Pause between two tries to bind an address.
const BIND_RETRY_PERIOD: Duration = Duration::from_secs(5);

/// What is told about the server.
pub(crate) struct Status {
    responder: Arc<Responder>,
    client: Option<Client>,
    is_lame: AtomicBool,
    /// Second at which the last good state was written; 0 for none.
    last_good_written: AtomicU64,
}

impl Status {
    /// What is told about `responder`, and about the requests of the client that feeds it.
    pub(crate) fn new(responder: Arc<Responder>, client: Option<Client>) -> Self {
        Self {
            responder,
            client,
            is_lame: AtomicBool::new(false),
            last_good_written: AtomicU64::new(0),
        }
    }

    /// Says that the end is near.
    pub(crate) fn set_lame(&self) {
        self.is_lame.store(true, Ordering::Release);
    }

    /// Says from when the last good state is.
    pub(crate) fn set_last_good_written(&self, unix_seconds: u64) {
        self.last_good_written.store(unix_seconds, Ordering::Release);
    }

    /// `/health`: whether the process should go on.
    fn health(&self, uri: &Uri) -> Answer {
        match uri.path() {
            "/health" if self.is_lame.load(Ordering::Acquire) => {
                Answer::text(StatusCode::SERVICE_UNAVAILABLE, "lameduck")
            }
            "/health" => Answer::text(StatusCode::OK, "OK"),
            _ => Answer::not_found(),
        }
    }

    /// `/ready`: whether names of the cluster are answered.
    fn ready(&self, uri: &Uri) -> Answer {
        match (uri.path(), self.responder.zone().knowledge()) {
            ("/ready", Knowledge::None) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "kubernetes"),
            ("/ready", Knowledge::LastGood | Knowledge::Live) => Answer::text(StatusCode::OK, "OK"),
            _ => Answer::not_found(),
        }
    }

    fn metrics(&self, uri: &Uri) -> Answer {
        match uri.path() {
            "/metrics" => {
                let mut text = Text::default();
                self.responder.metrics().write(&mut text);
                self.responder.forwarder().write_metrics(&mut text);
                if let Some(client) = &self.client {
                    write_requests(&mut text, client);
                }
                self.write_state(&mut text);
                Answer::metrics(text.finish())
            }
            "/explain" => self.explain(uri.query().unwrap_or_default()),
            _ => Answer::not_found(),
        }
    }

    /// Which state is answered from, and how old the last good one is.
    fn write_state(&self, text: &mut Text) {
        let knowledge = self.responder.zone().knowledge();
        text.family("portolan_dns_zone_state", Counted::Gauge);
        for (name, state) in [
            ("none", Knowledge::None),
            ("stale", Knowledge::LastGood),
            ("live", Knowledge::Live),
        ] {
            let value = u8::from(state == knowledge);
            text.sample("portolan_dns_zone_state", &format!("state=\"{name}\""), value);
        }
        text.family("portolan_dns_zone_stale_seconds", Counted::Gauge);
        let written = self.last_good_written.load(Ordering::Acquire);
        let age = match knowledge {
            Knowledge::LastGood => unix_seconds().saturating_sub(written),
            Knowledge::None | Knowledge::Live => 0,
        };
        text.sample("portolan_dns_zone_stale_seconds", "", age);
    }

    /// `/explain?name=NAME&type=TYPE&from=ADDRESS`.
    fn explain(&self, query: &str) -> Answer {
        let value = |wanted: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs
                .filter(|(key, _)| *key == wanted)
                .map(|(_, value)| value)
                .next_back()
        };
        let name = value("name").map(Name::from_text);
        let kind = value("type").map_or(Some(kind::A), kind_of_text);
        let from = value("from").map(str::parse::<IpAddr>);
        match (name, kind, from.transpose()) {
            (Some(Ok(name)), Some(kind), Ok(from)) => {
                Answer::text(StatusCode::OK, explain(&self.responder, &name, kind, from))
            }
            _ => Answer::text(
                StatusCode::BAD_REQUEST,
                "expected /explain?name=NAME&type=TYPE&from=ADDRESS, the last two of which may be left out\n",
            ),
        }
    }
}

/// Starts the servers that are wanted; they end when the set is dropped. An address that cannot be listened on
/// is tried again: names are answered all the same.
pub(crate) fn start_servers(config: &Config, status: &Arc<Status>) -> JoinSet<()> {
    type Page = fn(&Status, &Uri) -> Answer;
    let mut servers = JoinSet::new();
    let wanted: [(&'static str, Option<SocketAddr>, Page); 3] = [
        ("health", config.health_address, Status::health),
        ("readiness", config.ready_address, Status::ready),
        ("metrics", config.metrics_address, Status::metrics),
    ];
    for (what, address, page) in wanted {
        let Some(address) = address else { continue };
        let status = status.clone();
        let respond: Respond = Arc::new(move |uri| page(&status, uri));
        servers.spawn(async move {
            loop {
                match listen(address) {
                    Ok(listener) => return serve(listener, respond).await,
                    Err(error) => {
                        tracing::warn!(%address, what, %error, "cannot listen, trying again");
                    }
                }
                tokio::time::sleep(BIND_RETRY_PERIOD).await;
            }
        });
    }
    servers
}

#[cfg(test)]
mod tests;
