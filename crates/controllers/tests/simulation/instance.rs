//! The processes that run the controllers: start, shutdown and kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use client::WallClock;
use client::election::{self, Settings};
use controllers::{Environment, Options, Selection, node_lifecycle};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::history::Plan;
use crate::server::Server;

/// All instances.
pub(crate) struct Instances {
    server: Server,
    has_election: bool,
    options: Options,
    instances: Vec<Instance>,
}

/// The monitor grace period of Nodes.
pub(crate) const GRACE: Duration = Duration::from_secs(20);

struct Instance {
    number: usize,
    /// Number of starts; each start is another candidate of the election.
    starts: usize,
    /// Clock skew in seconds.
    skew: Arc<AtomicI64>,
    running: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

impl Instances {
    pub(crate) fn new(server: &Server, plan: &Plan) -> Self {
        let instance = |number| Instance {
            number,
            starts: 0,
            skew: Arc::default(),
            running: None,
        };
        if plan.has_election {
            server.require_leader();
        }
        Self {
            server: server.clone(),
            has_election: plan.has_election,
            options: options(plan),
            instances: (0..plan.instances).map(instance).collect(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn start_all(&mut self) {
        for number in 0..self.instances.len() {
            self.start(number);
        }
    }

    /// Starts an instance unless it runs.
    pub(crate) fn start(&mut self, number: usize) {
        let (server, role) = (self.server.clone(), (self.has_election, self.options.clone()));
        let Some(instance) = self
            .instances
            .get_mut(number)
            .filter(|instance| instance.running.is_none())
        else {
            return;
        };
        instance.starts += 1;
        let identity = format!("{}-{}", instance.number, instance.starts);
        let skew = Arc::clone(&instance.skew);
        let began = tokio::time::Instant::now();
        let clock = WallClock::of(move || {
            let elapsed = SignedDuration::try_from(began.elapsed()).unwrap_or_default();
            let skew = SignedDuration::from_secs(skew.load(Ordering::Relaxed));
            Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1_000) + elapsed + skew
        });
        let (end, ended) = watch::channel(false);
        let task = tokio::spawn(process(server, identity, clock, role, ended));
        instance.running = Some((end, task));
    }

    /// Kills an instance.
    pub(crate) fn kill(&mut self, number: usize) {
        if let Some((_, task)) = self
            .instances
            .get_mut(number)
            .and_then(|instance| instance.running.take())
        {
            task.abort();
        }
    }

    /// Requests the shutdown of an instance without waiting for it.
    pub(crate) fn end(&mut self, number: usize) {
        if let Some((end, _)) = self
            .instances
            .get_mut(number)
            .and_then(|instance| instance.running.take())
        {
            end.send_replace(true);
        }
    }

    /// Sets the clock of an instance.
    pub(crate) fn set_clock(&mut self, number: usize, seconds: i64) {
        if let Some(instance) = self.instances.get(number) {
            instance.skew.store(seconds, Ordering::Relaxed);
        }
    }
}

/// Returns the options of the controllers.
fn options(plan: &Plan) -> Options {
    let mut controllers = vec![
        "endpointslice-controller",
        "endpoints-controller",
        "endpointslice-mirroring-controller",
    ];
    if plan.has_independent_controllers {
        controllers.extend([
            "service-cidr-controller",
            "node-lifecycle-controller",
            "garbage-collector-controller",
        ]);
    }
    if plan.has_workloads {
        controllers = vec![
            "deployment-controller",
            "replicaset-controller",
            "garbage-collector-controller",
        ];
    }
    Options {
        controllers: Selection::parse(&controllers).expect("names of controllers"),
        max_endpoints_per_slice: 3,
        node_lifecycle: node_lifecycle::Settings {
            monitor_period: Duration::from_secs(1),
            monitor_grace_period: GRACE,
            startup_grace_period: GRACE,
            eviction_rate_per_second: 0.5,
            ..node_lifecycle::Settings::default()
        },
        ..Options::default()
    }
}

async fn process(
    server: Server,
    identity: String,
    clock: WallClock,
    (has_election, options): (bool, Options),
    ended: watch::Receiver<bool>,
) {
    let client = server.client(&identity);
    if !has_election {
        let environment = Environment::with_clock(client, clock);
        controllers::run(environment, options, election::shutdown_requested(ended)).await;
        return;
    }
    let settings = Settings {
        identity,
        namespace: "kube-system".to_owned(),
        name: "lock".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    let work = |client, ended| {
        let environment = Environment::with_clock(client, clock.clone());
        controllers::run(environment, options.clone(), election::shutdown_requested(ended))
    };
    let is_leader = watch::Sender::new(false);
    let shutdown = election::shutdown_requested(ended);
    election::run_as_leader(client, settings, clock.clone(), is_leader, shutdown, work).await;
}
