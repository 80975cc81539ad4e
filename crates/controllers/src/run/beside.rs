//! The controllers that have loops of their own ([`crate::keeper`]): they share no caches with the others.

use std::future::Future;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Environment, Options, log_panic};
use crate::selection::Controller;
use crate::{
    backends, certificates, deployment, garbage, node_ipam, node_lifecycle, replicaset, scheduler,
    service_cidr, token_cleaner,
};

/// Their tasks.
pub(super) struct Beside {
    /// They end when this is gone.
    running: watch::Sender<()>,
    tasks: JoinSet<()>,
}

impl Beside {
    /// Starts those that are selected.
    pub(super) fn start(environment: &Environment, options: &Options) -> Self {
        let (running, _) = watch::channel(());
        let mut this = Self {
            running,
            tasks: JoinSet::new(),
        };
        let runs = |controller| options.controllers.contains(controller);
        if runs(Controller::GarbageCollector) {
            let ended = this.ended();
            this.tasks.spawn(garbage::run(environment.clone(), ended));
        }
        if runs(Controller::ServiceCidr) {
            let ended = this.ended();
            this.tasks.spawn(service_cidr::run(environment.clone(), ended));
        }
        if runs(Controller::NodeLifecycle) {
            let (settings, ended) = (options.node_lifecycle.clone(), this.ended());
            this.tasks
                .spawn(node_lifecycle::run(environment.clone(), settings, ended));
        }
        if runs(Controller::BackendHealth) {
            let ended = this.ended();
            this.tasks.spawn(backends::run(environment.clone(), ended));
        }
        if runs(Controller::PodPlacement) {
            let ended = this.ended();
            this.tasks.spawn(scheduler::run(environment.clone(), ended));
        }
        if runs(Controller::Deployment) {
            let ended = this.ended();
            this.tasks.spawn(deployment::run(environment.clone(), ended));
        }
        if runs(Controller::ReplicaSet) {
            let ended = this.ended();
            this.tasks.spawn(replicaset::run(environment.clone(), ended));
        }
        this.start_for_machines(environment, options);
        this
    }

    /// Starts those that machines need which join.
    fn start_for_machines(&mut self, environment: &Environment, options: &Options) {
        let runs = |controller| options.controllers.contains(controller);
        if runs(Controller::NodeIpam)
            && let Some(settings) = options.node_ipam.clone()
        {
            let ended = self.ended();
            self.tasks
                .spawn(node_ipam::run(environment.clone(), settings, ended));
        }
        let settings = certificates::Settings {
            approves: runs(Controller::CertificateApproving),
            cleans: runs(Controller::CertificateCleaner),
            authority: options
                .authority
                .clone()
                .filter(|_| runs(Controller::CertificateSigning)),
            reserved: options.reserved.clone(),
        };
        if settings.approves || settings.cleans || settings.authority.is_some() {
            let ended = self.ended();
            self.tasks
                .spawn(certificates::run(environment.clone(), settings, ended));
        }
        if runs(Controller::TokenCleaner) {
            let ended = self.ended();
            self.tasks.spawn(token_cleaner::run(environment.clone(), ended));
        }
    }

    /// Ends them all; writes under way are finished first.
    pub(super) async fn end(self) {
        let Self { running, mut tasks } = self;
        drop(running);
        while let Some(outcome) = tasks.join_next().await {
            log_panic(outcome);
        }
    }

    fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut running = self.running.subscribe();
        async move { while running.changed().await.is_ok() {} }
    }
}
