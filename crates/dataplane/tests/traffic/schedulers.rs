//! Endpoint choice over time: affinity ends after its timeout, and round robin takes turns.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use api::object::{EndpointSlice, Protocol, Service};
use dataplane::iptables::ProgramError;
use dataplane::{Dataplane, DataplaneError};
use plan::{Plan, Settings};
use serde_json::{Value, json};

use crate::Mode;
use crate::world::{Outcome, World};

const CLIENT: usize = 1;
const FRONTEND: &str = "10.96.0.1:80";
const ENDPOINTS: [&str; 3] = ["10.244.1.2", "10.244.1.3", "10.244.2.2"];
/// Affinity of the test. iptables counts whole seconds.
const AFFINITY_SECONDS: u64 = 1;
/// Pause after which the affinity has ended.
const PAUSE: Duration = Duration::from_millis(2_500);
/// Connections of a client within its affinity.
const CONNECTIONS_PER_CLIENT: usize = 4;
/// Maximum number of periods until another endpoint is chosen; all are the same with a probability of 3 to the power of
/// -15.
const PERIODS_MAX: usize = 16;

/// EPT-11, API-30: within the timeout a client keeps its endpoint, and afterwards it is chosen again.
pub(crate) fn affinity_expires(mode: Mode) {
    let world = World::new();
    let service = json!({"sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}});
    let _dataplane = programmed(&world, mode, service, json!({}));
    let mut chosen = BTreeSet::new();
    // A virtual server keeps the affinity while a connection of the client is open or in TIME_WAIT.
    let periods = if mode.has_virtual_servers { 1 } else { PERIODS_MAX };
    for _ in 0..periods {
        let period: BTreeSet<SocketAddr> = (0..CONNECTIONS_PER_CLIENT).map(|_| request(&world)).collect();
        assert_eq!(period.len(), 1, "a client keeps its endpoint");
        chosen.extend(period);
        if chosen.len() > 1 {
            return;
        }
        if !mode.has_virtual_servers {
            thread::sleep(PAUSE);
        }
    }
    assert!(
        mode.has_virtual_servers,
        "the affinity to {chosen:?} does not end"
    );
}

/// Round robin, where the mode has it, uses each endpoint equally often.
pub(crate) fn round_robin_takes_turns(mode: Mode) {
    let world = World::new();
    let annotations = json!({"service.portolan.dev/scheduler": "rr"});
    let dataplane = programmed(&world, mode, json!({}), annotations);
    if !dataplane.supports(plan::Scheduler::RoundRobin) {
        return;
    }
    let order: Vec<SocketAddr> = (0..2 * ENDPOINTS.len()).map(|_| request(&world)).collect();
    let (first, second) = order.split_at(ENDPOINTS.len());
    assert_eq!(first, second, "the same turn follows");
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), ENDPOINTS.len());
}

/// Opens a data plane at the node; skips the test without its programs.
pub(crate) fn opened(world: &World, mode: Mode) -> Box<dyn Dataplane + Send> {
    match world.node().enter(mode.open) {
        Err(DataplaneError::Program {
            source: error @ ProgramError::Start { .. },
        }) => testbed::skip_inside(&error.to_string()),
        opened => opened.unwrap(),
    }
}

/// Returns a data plane with one Service, whose spec and annotations are given.
fn programmed(world: &World, mode: Mode, spec: Value, annotations: Value) -> Box<dyn Dataplane + Send> {
    let mut dataplane = opened(world, mode);
    let mut plan = Plan::new(Settings {
        node_addresses: World::node_addresses(),
        default_scheduler: mode.default_scheduler(),
        ..Settings::default()
    });
    let mut service = json!({
        "metadata": {"namespace": "ns", "name": "s", "annotations": annotations},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 80}]},
    });
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    let service: Service = serde_json::from_value(service).unwrap();
    let endpoints = ENDPOINTS.map(|ip| json!({"addresses": [ip]}));
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": endpoints,
    }))
    .unwrap();
    plan.apply_service(&service);
    plan.apply_slice(&slice);
    let changes = plan.take_changes();
    let applied = world.node().enter(|| dataplane.apply(&plan, &changes).unwrap());
    assert_eq!(applied.skipped, []);
    dataplane
}

/// Returns the endpoint that serves a connection of the client.
fn request(world: &World) -> SocketAddr {
    let frontend: SocketAddr = FRONTEND.parse().unwrap();
    match world.members[CLIENT]
        .open(Protocol::Tcp, frontend.ip(), 0)
        .request(frontend, true)
    {
        Outcome::Answered { by, .. } => by,
        outcome => panic!("{outcome:?}"),
    }
}
