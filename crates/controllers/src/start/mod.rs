//! Start and shutdown of the selected controllers.

mod supervision;

use std::future::Future;

use api::object::{DaemonSet, Job, ReplicationController, StatefulSet};
use client::election::RequestCompletion;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::supervision::{Shutdown, supervise};
use crate::environment::Environment;
use crate::metrics::Phase;
use crate::options::Options;
use crate::selection::Controller;
use crate::workload::{self, Workload};
use crate::{
    backends, certificates, deployment, endpoint_controllers, garbage_collector, multicluster, node_ipam,
    node_lifecycle, replica_set, scheduler, service_cidr, taint_eviction, token_cleaner,
};

/// Runs the selected controllers until `shutdown` resolves, then waits for writes in progress, with a timeout.
pub async fn run(
    environment: Environment,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> RequestCompletion {
    let independent = IndependentControllers::start(&environment, &options);
    let completion = endpoint_controllers::run(environment.clone(), options, shutdown).await;
    independent.shut_down().await;
    environment.metrics.enter(Phase::StandingBy);
    completion
}

/// The controllers with private caches, each in a task with a [`reconcile::run`] loop.
struct IndependentControllers {
    environment: Environment,
    /// Dropped to request the shutdown of all tasks.
    running: watch::Sender<()>,
    tasks: JoinSet<()>,
}

impl IndependentControllers {
    fn start(environment: &Environment, options: &Options) -> Self {
        let (running, _) = watch::channel(());
        let mut this = Self {
            environment: environment.clone(),
            running,
            tasks: JoinSet::new(),
        };
        this.start_workload_controllers(options);
        this.start_node_controllers(options);
        this.start_certificate_controllers(options);
        this.start_multicluster_controller(options);
        this
    }

    /// Starts a controller. `start` returns one run of it.
    fn start_controller<F>(
        &mut self,
        name: &'static str,
        start: impl Fn(Environment, Shutdown) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let environment = self.environment.clone();
        let start = move |shutdown| start(environment.clone(), shutdown);
        self.tasks.spawn(supervise(name, self.running.subscribe(), start));
    }

    /// Starts a controller if it is selected. `start` returns one run of it.
    fn start_selected<F>(
        &mut self,
        options: &Options,
        controller: Controller,
        start: impl Fn(Environment, Shutdown) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        if options.controllers.contains(controller) {
            self.start_controller(controller.name(), start);
        }
    }

    fn start_workload_controllers(&mut self, options: &Options) {
        self.start_selected(options, Controller::GarbageCollector, garbage_collector::run);
        self.start_selected(options, Controller::ServiceCidr, service_cidr::run);
        self.start_selected(options, Controller::BackendHealth, backends::run);
        self.start_selected(options, Controller::Scheduler, scheduler::run);
        self.start_selected(options, Controller::Deployment, deployment::run);
        self.start_selected(options, Controller::ReplicaSet, replica_set::run);
        self.start_workload::<StatefulSet>(options);
        self.start_workload::<DaemonSet>(options);
        self.start_workload::<Job>(options);
        self.start_workload::<ReplicationController>(options);
        self.start_selected(options, Controller::TaintEviction, taint_eviction::run);
    }

    fn start_workload<W: Workload>(&mut self, options: &Options) {
        self.start_selected(options, W::CONTROLLER, |environment, shutdown| {
            workload::run::<W>(environment, shutdown)
        });
    }

    fn start_multicluster_controller(&mut self, options: &Options) {
        if let Some(settings) = options.multicluster.clone() {
            self.start_selected(
                options,
                Controller::MultiClusterService,
                move |environment, shutdown| multicluster::run(environment, settings.clone(), shutdown),
            );
        }
    }

    fn start_node_controllers(&mut self, options: &Options) {
        let settings = options.node_lifecycle.clone();
        self.start_selected(
            options,
            Controller::NodeLifecycle,
            move |environment, shutdown| node_lifecycle::run(environment, settings.clone(), shutdown),
        );
        if let Some(settings) = options.node_ipam.clone() {
            self.start_selected(options, Controller::NodeIpam, move |environment, shutdown| {
                node_ipam::run(environment, settings.clone(), shutdown)
            });
        }
        self.start_selected(options, Controller::TokenCleaner, token_cleaner::run);
    }

    /// Starts the three controllers of certificates, which share a task.
    fn start_certificate_controllers(&mut self, options: &Options) {
        let is_selected = |controller| options.controllers.contains(controller);
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
            self.start_controller("certificate controllers", move |environment, shutdown| {
                certificates::run(environment, settings.clone(), shutdown)
            });
        }
    }

    /// Stops all controllers and waits until their writes in progress are finished.
    async fn shut_down(self) {
        let Self {
            running, mut tasks, ..
        } = self;
        drop(running);
        while let Some(result) = tasks.join_next().await {
            if let Err(error) = result {
                tracing::error!(%error, "supervision of a controller panicked");
            }
        }
    }
}
