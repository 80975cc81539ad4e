//! Ingresses at the edge. The Service of a class has the addresses, the listeners and the routes. Each Service to
//! which routes lead is an entry of the settings without addresses. A change of its endpoints therefore changes no
//! route.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use api::object::{Ingress, IngressClass, ObjectKey, Protocol, Service};
use client::events::EventText;
use edge::routes::{HostRoutes, Route, RouteTable};
use edge::settings::{Certificate, Frontend, Listener, ServiceSettings};
use edge::{PortKey, Transport};

use super::awaited_secrets::AwaitedSecrets;
use super::backend_budget::BackendBudget;
use super::class_settings::{
    HTTP, describe_problem, find_port, listeners, service_name, target_name, target_policy,
};
use super::{EdgeState, ServedService};
use crate::annotations::{FrontendSpec, ListenerSpec, http_backend_protocol};
use crate::ingress::class_plan::{BackendPlan, ClassPlan, HostPlan};
use crate::ingress::class_service::{self, HTTPS_PORT};
use crate::serving::certificates::Certificates;

/// Maximum number of Events of one Ingress at the same time.
const EVENTS_MAX: usize = 8;

/// Ports of a Service to which routes lead.
type TargetPorts = BTreeSet<u16>;

/// Caches of Ingresses, and the plans of their classes.
#[derive(Debug, Default)]
pub(super) struct IngressState {
    classes: HashMap<Arc<str>, IngressClass>,
    ingresses: HashMap<ObjectKey, Ingress>,
    /// All Services; read only while this edge serves a class.
    services: HashMap<ObjectKey, Service>,
    /// Plan of each class, by its Service.
    plans: HashMap<ObjectKey, ClassPlan>,
    /// Plan of each class as it is served: a host whose Secret is unread keeps its former plan.
    served: HashMap<ObjectKey, ClassPlan>,
    /// Secrets for which the Services of classes wait.
    awaited: AwaitedSecrets,
    /// Services of classes whose plan to renew.
    outdated: BTreeSet<ObjectKey>,
    /// Services to which the routes of a class lead, by the Service of the class.
    targets: HashMap<ObjectKey, BTreeMap<ObjectKey, TargetPorts>>,
    /// Services with changed endpoints to which routes lead.
    pub(super) changed_targets: BTreeSet<ObjectKey>,
    /// Events of Ingresses, by the Service of the class.
    events: HashMap<ObjectKey, BTreeMap<ObjectKey, Vec<EventText>>>,
    /// True once the caches are complete.
    is_synced: bool,
}

/// Result of the build of a class.
pub(super) struct ClassBuild {
    pub(super) settings: ServiceSettings,
    pub(super) faults: Vec<String>,
    plan: ClassPlan,
    targets: BTreeMap<ObjectKey, TargetPorts>,
    events: BTreeMap<ObjectKey, Vec<EventText>>,
}

impl ClassBuild {
    fn add_event(&mut self, ingress: &ObjectKey, reason: &'static str, message: String) {
        let events = self.events.entry(ingress.clone()).or_default();
        let event = EventText::warning(reason, message);
        if events.len() < EVENTS_MAX && !events.contains(&event) {
            events.push(event);
        }
    }
}

impl IngressState {
    /// Returns true if the Service may be that of a class whose objects are not read yet.
    pub(super) fn awaits(&self, served: &ServedService) -> bool {
        !self.is_synced && class_service::is_of_class(&served.service)
    }

    /// Returns the class whose Service this is.
    fn class(&self, key: &ObjectKey, service: &Service) -> Option<&IngressClass> {
        let class = self.classes.get(class_service::class_of(key)?)?;
        (class.is_own() && class_service::is_owned(service, class)).then_some(class)
    }

    /// Returns the Secrets of a class, by its Service: those of the plan, and those that are served.
    pub(super) fn secrets(&self, key: &ObjectKey) -> impl Iterator<Item = &ObjectKey> {
        let plans = self.plans.get(key).into_iter().chain(self.served.get(key));
        plans.flat_map(ClassPlan::secrets)
    }

    /// Begins the wait of the Service of a class for the Secrets that are unread. No wait begins before the caches are
    /// complete, because the Secrets are not known before.
    pub(super) fn await_secrets(&mut self, key: &ObjectKey, certificates: &Certificates) {
        if !self.is_synced {
            return;
        }
        let unread = self.secrets(key).filter(|secret| !certificates.is_read(secret));
        let unread = unread.cloned().collect();
        self.awaited.begin_or_continue(key, unread);
    }

    /// Returns true while the Service of a class waits for Secrets.
    pub(super) fn awaits_secrets(&self, key: &ObjectKey) -> bool {
        self.awaited.has(key)
    }

    /// Ends the wait of a Service.
    pub(super) fn end_wait(&mut self, key: &ObjectKey) {
        self.awaited.end(key);
    }

    /// Returns true if the Ingresses of a class name Secrets that are unread.
    pub(super) fn has_unread_secrets(&self, key: &ObjectKey, certificates: &Certificates) -> bool {
        let mut secrets = self.secrets(key);
        secrets.any(|secret| !certificates.is_read(secret))
    }

    /// Returns the Services of classes with routes to a Service.
    pub(super) fn classes_with_target(&self, target: &ObjectKey) -> Vec<ObjectKey> {
        let classes = self.targets.iter();
        classes
            .filter(|(_, targets)| targets.contains_key(target))
            .map(|(class, _)| class.clone())
            .collect()
    }

    /// Returns true if routes lead to the Service.
    pub(super) fn has_routes_to(&self, target: &ObjectKey) -> bool {
        self.targets.values().any(|targets| targets.contains_key(target))
    }

    fn mark_outdated(&mut self, class: Option<&str>) {
        self.outdated.extend(class.and_then(class_service::key));
    }
}

impl EdgeState {
    /// Returns true if this node has the address of a class.
    pub(in crate::serving) fn has_classes(&self) -> bool {
        let mut here = self.services.values().filter(|served| self.is_here(served));
        here.any(|served| class_service::is_of_class(&served.service))
    }

    /// Adds or replaces a class.
    pub(in crate::serving) fn apply_class(&mut self, class: IngressClass) {
        let name = class.metadata.name.clone();
        self.ingress.classes.insert(name.as_str().into(), class);
        self.class_changed(&name);
    }

    /// Removes a class.
    pub(in crate::serving) fn remove_class(&mut self, key: &ObjectKey) {
        self.ingress.classes.remove(&*key.name);
        self.class_changed(&key.name);
    }

    /// Marks the Service of a class as changed: the name can belong to another Service now, with the same Ingresses.
    fn class_changed(&mut self, name: &str) {
        self.ingress.mark_outdated(Some(name));
        self.changed.extend(class_service::key(name));
    }

    /// Adds or replaces an Ingress.
    pub(in crate::serving) fn apply_ingress(&mut self, ingress: Ingress) {
        let state = &mut self.ingress;
        let key = ingress.metadata.key();
        let former = state.ingresses.get(&key);
        // A watch that starts again reports all Ingresses, and each write of a status reports one.
        if former.is_none_or(|former| !is_planned_alike(former, &ingress)) {
            let classes =
                [former.and_then(Ingress::class), ingress.class()].map(|class| class.map(str::to_owned));
            for class in classes {
                state.mark_outdated(class.as_deref());
            }
        }
        state.ingresses.insert(key, ingress);
    }

    /// Removes an Ingress.
    pub(in crate::serving) fn remove_ingress(&mut self, key: &ObjectKey) {
        if let Some(former) = self.ingress.ingresses.remove(key) {
            self.ingress.mark_outdated(former.class());
        }
    }

    /// Adds or replaces a Service to which routes may lead.
    pub(in crate::serving) fn apply_target(&mut self, service: Service) {
        let key = service.metadata.key();
        let former = self.ingress.services.get(&key);
        // Status and metadata do not matter. A watch that starts again reports all Services.
        if former.is_none_or(|former| former.spec != service.spec) {
            self.target_changed(&key);
        }
        self.ingress.services.insert(key, service);
    }

    /// Removes a Service to which routes may lead.
    pub(in crate::serving) fn remove_target(&mut self, key: &ObjectKey) {
        if self.ingress.services.remove(key).is_some() {
            self.target_changed(key);
        }
    }

    /// Marks the classes whose routes name a Service.
    fn target_changed(&mut self, service: &ObjectKey) {
        if self.ingress.has_routes_to(service) {
            self.ingress.changed_targets.insert(service.clone());
        }
        let plans = self.ingress.plans.iter();
        let affected = plans.filter(|(_, plan)| plan.services().any(|named| named == service));
        self.changed.extend(affected.map(|(class, _)| class.clone()));
    }

    /// Records that the caches of Ingresses are complete.
    pub(in crate::serving) fn ingresses_synced(&mut self) {
        self.ingress.is_synced = true;
        let classes = self.ingress.classes.keys();
        let services: Vec<ObjectKey> = classes.filter_map(|class| class_service::key(class)).collect();
        self.ingress.outdated.extend(services);
    }

    /// Drops all Ingresses, after their watch ended.
    pub(in crate::serving) fn clear_ingresses(&mut self) {
        let former = std::mem::take(&mut self.ingress);
        for (class, targets) in former.targets {
            for target in targets.keys() {
                self.settings.remove(&target_name(&class, target));
            }
            self.changed.insert(class);
        }
    }

    /// Returns an Ingress.
    pub(in crate::serving) fn ingress(&self, key: &ObjectKey) -> Option<&Ingress> {
        self.ingress.ingresses.get(key)
    }

    /// Returns the Events of Ingresses, as of the last [`EdgeState::rebuild`].
    pub(in crate::serving) fn ingress_events(&self) -> impl Iterator<Item = (&ObjectKey, &Vec<EventText>)> {
        self.ingress.events.values().flatten()
    }

    /// Renews the plans of classes with changed Ingresses.
    pub(in crate::serving) fn renew_ingress_plans(&mut self) {
        let state = &mut self.ingress;
        if !state.is_synced {
            return;
        }
        for key in std::mem::take(&mut state.outdated) {
            let class = class_service::class_of(&key).unwrap_or_default();
            let ingresses = state.ingresses.values();
            let class_ingresses = ingresses.filter(|ingress| ingress.class() == Some(class));
            let plan = ClassPlan::new(class_ingresses);
            if state.plans.get(&key) != Some(&plan) {
                state.plans.insert(key.clone(), plan);
                self.changed.insert(key);
            }
        }
    }

    /// Builds the settings of the Service of a class; `None` for another Service.
    pub(super) fn build_class(&self, key: &ObjectKey, served: &ServedService) -> Option<ClassBuild> {
        self.ingress.class(key, &served.service)?;
        let plan = self.plan_to_serve(key)?;
        let spec = &served.spec;
        let mut faults = Vec::new();
        let access_log = spec.access_log.as_ref();
        let settings = ServiceSettings {
            addresses: self.addresses_of(served).into_iter().collect(),
            listeners: Vec::new(),
            policy: spec.policy.clone(),
            access_log: access_log.and_then(|log| self.access_log(&key.namespace, log, &mut faults)),
            routes: None,
        };
        let mut build = ClassBuild {
            settings,
            faults,
            plan: ClassPlan::default(),
            targets: BTreeMap::new(),
            events: BTreeMap::new(),
        };
        for (ingress, problems) in &plan.problems {
            for problem in problems {
                let (reason, message) = describe_problem(problem);
                build.add_event(ingress, reason, message);
            }
        }
        let certificates = self.certificates_of(key, &plan, &mut build);
        build.settings.listeners = listeners(served, &plan, &certificates);
        let mut routes = RouteTable::default();
        for (host, host_plan) in &plan.hosts {
            let has_certificate = certificates.contains_key(host);
            let host_routes = self.host_routes(key, &plan, host_plan, has_certificate, &mut build);
            routes.insert(host, host_routes);
        }
        build.settings.routes = Some(Arc::new(routes));
        build.plan = plan;
        Some(build)
    }

    /// Returns the plan of a class without the hosts whose Secret is unread. Such a host keeps its former plan if the
    /// plan is of the same namespace. Otherwise the host is not served, because its certificate is missing.
    fn plan_to_serve(&self, class: &ObjectKey) -> Option<ClassPlan> {
        let plan = self.ingress.plans.get(class)?;
        let served = self.ingress.served.get(class);
        let is_read = |of_host: &HostPlan| {
            let tls = of_host.tls.as_ref();
            tls.is_none_or(|tls| self.certificates.is_read(&tls.secret))
        };
        let mut to_serve = plan.clone();
        for (host, of_host) in plan.hosts.iter().filter(|(_, of_host)| !is_read(of_host)) {
            let former = served.and_then(|served| served.hosts.get(host));
            match former.filter(|former| former.namespace == of_host.namespace && is_read(former)) {
                Some(former) => to_serve.hosts.insert(host.clone(), former.clone()),
                None => to_serve.hosts.remove(host),
            };
        }
        Some(to_serve)
    }

    /// Returns the certificates of hosts.
    fn certificates_of(
        &self,
        class: &ObjectKey,
        plan: &ClassPlan,
        build: &mut ClassBuild,
    ) -> BTreeMap<String, Arc<Certificate>> {
        let mut certificates = BTreeMap::new();
        for (host, host_plan) in &plan.hosts {
            let Some(tls) = &host_plan.tls else { continue };
            let (certificate, problem) = self.certificate_in(class, &tls.secret);
            if let Some(problem) = problem {
                let effect = if certificate.is_some() {
                    "keeps its former certificate"
                } else {
                    "is served without TLS"
                };
                let message = format!("host {host} {effect}: {problem}");
                build.add_event(&tls.ingress, "InvalidCertificate", message);
            }
            certificates.extend(certificate.map(|certificate| (host.clone(), certificate)));
        }
        certificates
    }

    /// Returns the certificate in a Secret, and its problem. The former one replaces an invalid one.
    fn certificate_in(
        &self,
        class: &ObjectKey,
        secret: &ObjectKey,
    ) -> (Option<Arc<Certificate>>, Option<String>) {
        match self.certificates.get(&secret.namespace, secret) {
            None => (None, None),
            Some(Err(error)) => (None, Some(error.to_string())),
            Some(Ok(certificate)) => match self.certificates.fault(secret) {
                None => (Some(certificate), None),
                Some(fault) => {
                    let former = self.former_certificate(class, &certificate.source);
                    (former, Some(format!("Secret {secret}: {fault}")))
                }
            },
        }
    }

    /// Returns the certificate that the settings of a class have from this source.
    fn former_certificate(&self, class: &ObjectKey, source: &str) -> Option<Arc<Certificate>> {
        let mut listeners = self.settings.get(&service_name(class))?.listeners.iter();
        listeners.find_map(|listener| {
            let Frontend::Https(tls) = &listener.frontend else {
                return None;
            };
            let mut certificates = tls.certificates.iter();
            certificates
                .find(|certificate| *certificate.source == *source)
                .cloned()
        })
    }

    /// Returns the routes of a host, and records their targets and missing backends in `build`.
    fn host_routes(
        &self,
        class: &ObjectKey,
        plan: &ClassPlan,
        host: &HostPlan,
        has_certificate: bool,
        build: &mut ClassBuild,
    ) -> HostRoutes {
        let redirects = host.tls.as_ref().is_some_and(|tls| tls.redirects) && has_certificate;
        let others = plan.hosts.get("");
        let mut routes = Vec::with_capacity(host.routes.len());
        for route in &host.routes {
            let target = route.backend.as_ref().and_then(|backend| {
                let target = self.target(class, backend);
                match &target {
                    Ok(key) => {
                        let ports = build.targets.entry(backend.service.clone()).or_default();
                        ports.insert(key.port);
                    }
                    Err(message) => {
                        build.add_event(&route.ingress, "BackendNotFound", message.clone());
                    }
                }
                target.ok()
            });
            routes.push(Route {
                path: Arc::clone(&route.path),
                matching: route.matching,
                target,
            });
        }
        HostRoutes {
            owner: Arc::clone(&host.namespace),
            redirects_to_https: redirects.then_some(HTTPS_PORT),
            falls_through: others.is_some_and(|others| others.namespace == host.namespace),
            routes,
        }
    }

    /// Returns the port to which a route leads, or the reason why there is none.
    fn target(&self, class: &ObjectKey, backend: &BackendPlan) -> Result<PortKey, String> {
        let BackendPlan { service, port } = backend;
        let Some(object) = self.ingress.services.get(service) else {
            return Err(format!("expected Service {service}, found none; create it"));
        };
        if object.spec.kind == "ExternalName" {
            return Err(format!(
                "Service {service}: expected another type than ExternalName, which the edge does not serve"
            ));
        }
        let found = find_port(object, port).ok_or_else(|| {
            let shown = if port.name.is_empty() {
                port.number.to_string()
            } else {
                port.name.clone()
            };
            format!("Service {service}: expected the TCP port {shown}, found none; correct the backend")
        })?;
        Ok(PortKey {
            service: target_name(class, service),
            port: found.port,
            transport: Transport::Tcp,
        })
    }

    /// Replaces the targets and Events of a class after its build.
    pub(super) fn finish_class(
        &mut self,
        class: &ObjectKey,
        build: Option<ClassBuild>,
    ) -> Option<(ServiceSettings, Vec<String>)> {
        let (targets, events, settings) = match build {
            Some(build) => {
                self.ingress.served.insert(class.clone(), build.plan);
                (build.targets, build.events, Some((build.settings, build.faults)))
            }
            None => {
                self.ingress.served.remove(class);
                (BTreeMap::new(), BTreeMap::new(), None)
            }
        };
        let former = self.ingress.targets.remove(class).unwrap_or_default();
        for target in former.keys().filter(|target| !targets.contains_key(*target)) {
            self.settings.remove(&target_name(class, target));
        }
        let policy = settings.as_ref().map(|(settings, _)| &settings.policy);
        let former_settings = self.settings.get(&service_name(class));
        let has_former_policy = former_settings.is_some_and(|former| policy == Some(&former.policy));
        // Other changes of a target mark it in `changed_targets`.
        let outdated = targets
            .iter()
            .filter(|(target, ports)| !has_former_policy || former.get(*target) != Some(*ports));
        let outdated: Vec<ObjectKey> = outdated.map(|(target, _)| target.clone()).collect();
        if !targets.is_empty() {
            self.ingress.targets.insert(class.clone(), targets);
        }
        if events.is_empty() {
            self.ingress.events.remove(class);
        } else {
            self.ingress.events.insert(class.clone(), events);
        }
        for target in outdated {
            self.rebuild_target(class, &target);
        }
        settings
    }

    /// Rebuilds the settings of a Service to which routes of a class lead.
    pub(super) fn rebuild_target(&mut self, class: &ObjectKey, target: &ObjectKey) {
        let name = target_name(class, target);
        match self.build_target(class, target) {
            None => {
                self.settings.remove(&name);
            }
            Some(settings) => {
                if self.settings.get(&name).is_none_or(|before| **before != settings) {
                    self.settings.insert(name, Arc::new(settings));
                }
            }
        }
    }

    fn build_target(&self, class: &ObjectKey, target: &ObjectKey) -> Option<ServiceSettings> {
        let ports = self.ingress.targets.get(class)?.get(target)?;
        let service = self.ingress.services.get(target)?;
        let served = self.services.get(class)?;
        let service_ports = service.spec.ports.iter();
        let routed =
            service_ports.filter(|port| port.protocol == Protocol::Tcp && ports.contains(&port.port));
        let mut budget = BackendBudget::new();
        let listeners = routed.map(|port| {
            let spec = ListenerSpec {
                name: port.name.as_str().into(),
                port: port.port,
                protocol: Protocol::Tcp,
                frontend: FrontendSpec::Http {
                    redirects_to_https: None,
                },
                backend_protocol: http_backend_protocol(port),
            };
            Listener {
                name: Arc::clone(&spec.name),
                port: spec.port,
                frontend: HTTP,
                backend_protocol: spec.backend_protocol,
                backends: budget.take(|| self.backends(target, service, &spec, false)),
            }
        });
        Some(ServiceSettings {
            policy: target_policy(&served.spec.policy, service),
            ..ServiceSettings::new(Vec::new(), listeners.collect())
        })
    }
}

/// Returns true if two states of an Ingress lead to the same plan of its class.
fn is_planned_alike(a: &Ingress, b: &Ingress) -> bool {
    let (metadata, other) = (&a.metadata, &b.metadata);
    a.spec == b.spec
        && metadata.uid == other.uid
        && metadata.creation_timestamp == other.creation_timestamp
        && metadata.annotations == other.annotations
        && metadata.deletion_timestamp.is_some() == other.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests;
