//! Start and shutdown of the selected controllers.

use std::future::Future;

use api::object::{DaemonSet, Job, ReplicationController, StatefulSet};
use client::election::Ending;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::environment::Environment;
use crate::metrics::Phase;
use crate::options::Options;
use crate::selection::Controller;
use crate::workload::{self, Workload};
use crate::{
    backends, certificates, deployment, endpoint_controllers, garbage_collector, multicluster, node_ipam,
    node_lifecycle, replicaset, scheduler, service_cidr, taint_eviction, token_cleaner,
};

/// Runs the selected controllers until `shutdown` resolves, then waits for writes in progress, with a timeout.
pub async fn run(environment: Environment, options: Options, shutdown: impl Future<Output = ()>) -> Ending {
    let independent = IndependentControllers::start(&environment, &options);
    let ending = endpoint_controllers::run(environment.clone(), options, shutdown).await;
    independent.shut_down().await;
    environment.metrics.enter(Phase::StandingBy);
    ending
}

/// The controllers with private caches, each in a task with a [`reconcile::run`] loop.
struct IndependentControllers {
    /// Dropped to request the shutdown of all tasks.
    running: watch::Sender<()>,
    tasks: JoinSet<()>,
}

impl IndependentControllers {
    fn start(environment: &Environment, options: &Options) -> Self {
        let (running, _) = watch::channel(());
        let mut this = Self {
            running,
            tasks: JoinSet::new(),
        };
        this.start_workload_controllers(environment, options);
        this.start_node_controllers(environment, options);
        this.start_multicluster_controller(environment, options);
        this
    }

    fn start_workload_controllers(&mut self, environment: &Environment, options: &Options) {
        let is_selected = |controller| options.controllers.contains(controller);
        if is_selected(Controller::GarbageCollector) {
            let shutdown = self.shutdown();
            self.tasks
                .spawn(garbage_collector::run(environment.clone(), shutdown));
        }
        if is_selected(Controller::ServiceCidr) {
            let shutdown = self.shutdown();
            self.tasks.spawn(service_cidr::run(environment.clone(), shutdown));
        }
        if is_selected(Controller::BackendHealth) {
            let shutdown = self.shutdown();
            self.tasks.spawn(backends::run(environment.clone(), shutdown));
        }
        if is_selected(Controller::Scheduler) {
            let shutdown = self.shutdown();
            self.tasks.spawn(scheduler::run(environment.clone(), shutdown));
        }
        if is_selected(Controller::Deployment) {
            let shutdown = self.shutdown();
            self.tasks.spawn(deployment::run(environment.clone(), shutdown));
        }
        if is_selected(Controller::ReplicaSet) {
            let shutdown = self.shutdown();
            self.tasks.spawn(replicaset::run(environment.clone(), shutdown));
        }
        self.start_workload::<StatefulSet>(environment, options);
        self.start_workload::<DaemonSet>(environment, options);
        self.start_workload::<Job>(environment, options);
        self.start_workload::<ReplicationController>(environment, options);
        if is_selected(Controller::TaintEviction) {
            let shutdown = self.shutdown();
            self.tasks
                .spawn(taint_eviction::run(environment.clone(), shutdown));
        }
    }

    fn start_workload<W: Workload>(&mut self, environment: &Environment, options: &Options) {
        if options.controllers.contains(W::CONTROLLER) {
            let shutdown = self.shutdown();
            self.tasks
                .spawn(workload::run::<W>(environment.clone(), shutdown));
        }
    }

    fn start_multicluster_controller(&mut self, environment: &Environment, options: &Options) {
        if options.controllers.contains(Controller::MultiClusterService)
            && let Some(settings) = options.multicluster.clone()
        {
            let shutdown = self.shutdown();
            self.tasks
                .spawn(multicluster::run(environment.clone(), settings, shutdown));
        }
    }

    fn start_node_controllers(&mut self, environment: &Environment, options: &Options) {
        let is_selected = |controller| options.controllers.contains(controller);
        if is_selected(Controller::NodeLifecycle) {
            let (settings, shutdown) = (options.node_lifecycle.clone(), self.shutdown());
            self.tasks
                .spawn(node_lifecycle::run(environment.clone(), settings, shutdown));
        }
        if is_selected(Controller::NodeIpam)
            && let Some(settings) = options.node_ipam.clone()
        {
            let shutdown = self.shutdown();
            self.tasks
                .spawn(node_ipam::run(environment.clone(), settings, shutdown));
        }
        let settings = certificates::Settings {
            approves: is_selected(Controller::CertificateApproving),
            cleans: is_selected(Controller::CertificateCleaner),
            authority: options
                .authority
                .clone()
                .filter(|_| is_selected(Controller::CertificateSigning)),
            reserved: options.reserved.clone(),
        };
        if settings.approves || settings.cleans || settings.authority.is_some() {
            let shutdown = self.shutdown();
            self.tasks
                .spawn(certificates::run(environment.clone(), settings, shutdown));
        }
        if is_selected(Controller::TokenCleaner) {
            let shutdown = self.shutdown();
            self.tasks
                .spawn(token_cleaner::run(environment.clone(), shutdown));
        }
    }

    /// Stops all controllers and waits until their writes in progress are finished.
    async fn shut_down(self) {
        let Self { running, mut tasks } = self;
        drop(running);
        while let Some(result) = tasks.join_next().await {
            if let Err(error) = result {
                tracing::error!(%error, "controller task panicked");
            }
        }
    }

    /// Returns a future that resolves when `running` is dropped.
    fn shutdown(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut running = self.running.subscribe();
        async move { while running.changed().await.is_ok() {} }
    }
}
