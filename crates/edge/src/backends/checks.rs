//! Asking backends how they are.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time;

use super::health::Health;
use crate::outbound::{self, Outbound};
use crate::port::{Current, Port};
use crate::settings::{HealthCheck, HealthProbe};

/// Checks of one port under way at once: more would be a burst that looks like an attack.
const ASKED_MAX: usize = 64;

/// Checks the backends of a port until this is dropped. Without a health check, it waits for one.
pub(crate) async fn check(port: Arc<Port>) {
    let began = Instant::now();
    let mut healths: HashMap<SocketAddr, Health> = HashMap::new();
    let mut asked = FuturesUnordered::new();
    loop {
        let changed = port.changed();
        let current = port.current();
        let Some(check) = &current.service.policy.health_check else {
            healths.clear();
            port.backends()
                .all()
                .iter()
                .for_each(|backend| backend.set_healthy(true));
            changed.await;
            continue;
        };
        let backends = port.backends().all();
        let now = began.elapsed();
        healths.retain(|address, _| backends.iter().any(|backend| backend.address == *address));
        for backend in &backends {
            let known = healths.entry(backend.address);
            known
                .and_modify(|health| health.set(check, now))
                .or_insert_with(|| Health::new(check, now, fastrand::u32(..)));
        }
        tokio::pin!(changed);
        loop {
            let now = began.elapsed();
            for (address, health) in &mut healths {
                if asked.len() < ASKED_MAX && health.due().is_some_and(|due| due <= now) {
                    health.begin(now);
                    asked.push(ask(port.clone(), current.clone(), *address));
                }
            }
            let is_full = asked.len() >= ASKED_MAX;
            let next = healths
                .values()
                .filter_map(Health::due)
                .min()
                .filter(|_| !is_full);
            let pause = next.map(|due| due.saturating_sub(began.elapsed()));
            tokio::select! {
                () = &mut changed => break,
                Some((address, result)) = asked.next() => {
                    let Some(health) = healths.get_mut(&address) else { continue };
                    let Some(backend) = backends.iter().find(|backend| backend.address == address) else {
                        continue;
                    };
                    if let Err(why) = &result {
                        backend.remember_failure(format!("health check: {why}"));
                    }
                    if health.count(result.is_ok()) {
                        backend.set_healthy(health.is_healthy());
                        tell(&port, address, result.err());
                    }
                }
                () = time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }
}

fn tell(port: &Port, address: SocketAddr, failure: Option<String>) {
    match failure {
        Some(why) => {
            tracing::warn!(port = %port.key, backend = %address, why, "a backend fails its health checks")
        }
        None => {
            tracing::info!(port = %port.key, backend = %address, "a backend passes its health checks again")
        }
    }
}

/// Asks one backend; why it is not as it should be.
async fn ask(
    port: Arc<Port>,
    current: Arc<Current>,
    address: SocketAddr,
) -> (SocketAddr, Result<(), String>) {
    let Some(check) = &current.service.policy.health_check else {
        return (address, Ok(()));
    };
    let asked = time::timeout(check.timeout, answer(&port, &current, check, address)).await;
    (
        address,
        asked.unwrap_or_else(|_| Err("no answer in time".to_owned())),
    )
}

async fn answer(
    port: &Port,
    current: &Current,
    check: &HealthCheck,
    address: SocketAddr,
) -> Result<(), String> {
    let to = SocketAddr::new(address.ip(), check.port.unwrap_or(address.port()));
    let is_tls = match &check.probe {
        HealthProbe::Tcp => false,
        HealthProbe::Ssl => true,
        HealthProbe::Http { is_https, .. } => *is_https,
    };
    let connected = outbound::connect_to_check(port, current, to, is_tls).await;
    let stream: Outbound = connected.map_err(|error| error.to_string())?;
    let HealthProbe::Http {
        path,
        host,
        good_statuses,
        ..
    } = &check.probe
    else {
        return Ok(());
    };
    let host = host.as_deref().map_or_else(|| to.to_string(), ToOwned::to_owned);
    let status = probe::http::ask_over(stream, &host, path).await;
    let status = status.map_err(|error| error.to_string())?.as_u16();
    match good_statuses
        .iter()
        .any(|(low, high)| (*low..=*high).contains(&status))
    {
        true => Ok(()),
        false => Err(format!("it answers with status {status}")),
    }
}
