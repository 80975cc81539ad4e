//! PodSecurity: Pods comply with the level of the Pod Security Standards that the labels of their Namespace
//! select.
//!
//! [`api::pod_security`] has the standards. The order of decisions is that of
//! `k8s.io/pod-security-admission/admission`.

mod counts;

pub(crate) use counts::Counts;

use std::time::{Duration, Instant};

use api::field::FieldErrors;
use api::pod_security::{
    Configuration, Evaluation, Level, LevelVersion, PREFIX, PodView, Policy, evaluate, existing_pod_warnings,
    is_significant_update, policy_of_labels,
};
use api::tree::{child, text};
use serde_json::Value;
use store::Index;

use super::WriteAttempt;
use crate::failure::Failure;
use crate::registry::namespace::namespace_kind;
use counts::{Decision, Mode, RequestLabels};

/// Time limit for checking the Pods of a Namespace whose labels change (upstream's
/// `defaultNamespacePodCheckTimeout`).
const EXISTING_PODS_TIMEOUT: Duration = Duration::from_secs(1);

/// Subresources of Pods that cannot change the spec (upstream's `ignoredPodSubresources`).
const IGNORED_SUBRESOURCES: [&str; 8] = [
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

/// Audit annotation with the enforced level.
const ENFORCED_POLICY: &str = "enforce-policy";

/// Kinds whose Pod templates are checked.
const CONTROLLERS: [&str; 6] = [
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
];

/// The admission plugin.
#[derive(Default)]
pub(crate) struct PodSecurity {
    configuration: Configuration,
    pub(crate) counts: Counts,
}

impl PodSecurity {
    pub(crate) fn new(configuration: Configuration) -> PodSecurity {
        PodSecurity {
            configuration,
            counts: Counts::default(),
        }
    }

    /// Checks a write of a Namespace, a Pod or a controller; other writes pass. Returns warnings for the client.
    pub(super) fn validate(
        &self,
        index: &Index,
        attempt: &WriteAttempt<'_>,
        object: &Value,
    ) -> Result<Vec<String>, Failure> {
        let kind = attempt.target.kind;
        match (kind.group, kind.kind) {
            ("", "Namespace") if attempt.is_main() => self.validate_namespace(index, attempt, object),
            ("", "Pod") if !is_ignored(attempt) => self.validate_pod(index, attempt, object),
            ("" | "apps" | "batch", kind) if CONTROLLERS.contains(&kind) && attempt.is_main() => {
                Ok(self.validate_controller(index, attempt, object))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Rejects labels with new faults. Warns about existing Pods that violate a stricter level.
    fn validate_namespace(
        &self,
        index: &Index,
        attempt: &WriteAttempt<'_>,
        namespace: &Value,
    ) -> Result<Vec<String>, Failure> {
        let defaults = self.configuration.defaults;
        let name = text(child(namespace, "metadata"), "name");
        let (new, errors) = policy_of_labels(namespace, defaults);
        let old = attempt.stored.map(|stored| policy_of_labels(stored, defaults));
        let has_new_faults = old.as_ref().is_none_or(|(_, old_errors)| errors != *old_errors);
        if !errors.is_empty() && has_new_faults {
            return Err(Failure::invalid(attempt.target.kind, name, &errors));
        }
        let Some((old, _)) = old else {
            return Ok(Vec::new());
        };
        let is_relaxed = new.enforce.version == old.enforce.version && new.enforce.level <= old.enforce.level;
        if is_relaxed || new.enforce.level == Level::Privileged {
            return Ok(Vec::new());
        }
        if self.configuration.exemptions.has_namespace(name) {
            annotate(attempt, "exempt", "namespace");
            return Ok(Vec::new());
        }
        Ok(self.check_existing(index, name, new.enforce))
    }

    fn check_existing(&self, index: &Index, namespace: &str, enforce: LevelVersion) -> Vec<String> {
        let deadline = Instant::now() + EXISTING_PODS_TIMEOUT;
        let pods = api::kind::find("", "v1", "pods");
        let listed = pods.map(|kind| index.list(&kind.store_prefix(Some(namespace)), None, None, None));
        let Some(Ok(listing)) = listed else {
            return vec!["failed to list pods while checking new PodSecurity enforce level".to_owned()];
        };
        let exemptions = &self.configuration.exemptions;
        existing_pod_warnings(
            namespace,
            enforce,
            listing.entries.iter().map(|entry| entry.value.as_ref()),
            |runtime_class| exemptions.has_runtime_class(runtime_class),
            || Instant::now() >= deadline,
        )
    }

    /// Evaluates a Pod, and returns warnings. A violation of the enforced level is a failure.
    fn validate_pod(
        &self,
        index: &Index,
        attempt: &WriteAttempt<'_>,
        pod: &Value,
    ) -> Result<Vec<String>, Failure> {
        let request = RequestLabels::of(attempt);
        if let Some(reason) = self.exemption(attempt) {
            self.counts.count_exemption(request);
            annotate(attempt, "exempt", reason);
            return Ok(Vec::new());
        }
        let Some((policy, errors)) = self.policy(index, attempt) else {
            self.counts.count_error(true, request);
            let namespace = attempt.target.namespace();
            return Err(Failure::internal(format!(
                "failed to lookup namespace {namespace}"
            )));
        };
        let is_privileged = |mode: LevelVersion| mode.level == Level::Privileged;
        if errors.is_empty()
            && [policy.enforce, policy.warn, policy.audit]
                .into_iter()
                .all(is_privileged)
        {
            self.counts
                .count_evaluation(Decision::Allow, policy.enforce, Mode::Enforce, request);
            annotate(attempt, ENFORCED_POLICY, &policy.enforce.to_string());
            return Ok(Vec::new());
        }
        let is_insignificant = |stored| !is_significant_update(pod, stored);
        if attempt.stored.is_some_and(is_insignificant) {
            return Ok(Vec::new());
        }
        let view = PodView::new(pod);
        if self.is_runtime_class_exempt(attempt, &view, request) {
            return Ok(Vec::new());
        }
        self.record_faults(attempt, &errors, request);
        let evaluation = evaluate(policy.enforce, &view);
        let decision = Decision::of(&evaluation);
        self.counts
            .count_evaluation(decision, policy.enforce, Mode::Enforce, request);
        annotate(attempt, ENFORCED_POLICY, &policy.enforce.to_string());
        self.audit(attempt, policy, &view, request);
        if !evaluation.is_allowed() {
            let name = text(child(pod, "metadata"), "name");
            let message = format!(
                "violates PodSecurity \"{}\": {}",
                policy.enforce,
                evaluation.details()
            );
            return Err(Failure::forbidden(attempt.target.kind, name, &message));
        }
        Ok(self.warn(policy, &view, request))
    }

    /// Checks the Pod template of a controller. The controller is not refused: its Pods are checked when they are
    /// created.
    fn validate_controller(
        &self,
        index: &Index,
        attempt: &WriteAttempt<'_>,
        controller: &Value,
    ) -> Vec<String> {
        let request = RequestLabels::of(attempt);
        if let Some(reason) = self.exemption(attempt) {
            self.counts.count_exemption(request);
            annotate(attempt, "exempt", reason);
            return Vec::new();
        }
        let Some((policy, errors)) = self.policy(index, attempt) else {
            self.counts.count_error(true, request);
            return Vec::new();
        };
        let is_privileged = |mode: LevelVersion| mode.level == Level::Privileged;
        if errors.is_empty() && is_privileged(policy.warn) && is_privileged(policy.audit) {
            return Vec::new();
        }
        let Some(view) = PodView::of_controller(controller) else {
            return Vec::new();
        };
        if self.is_runtime_class_exempt(attempt, &view, request) {
            return Vec::new();
        }
        self.record_faults(attempt, &errors, request);
        self.audit(attempt, policy, &view, request);
        self.warn(policy, &view, request)
    }

    /// Returns upstream's name of the exemption of a request.
    fn exemption(&self, attempt: &WriteAttempt<'_>) -> Option<&'static str> {
        let exemptions = &self.configuration.exemptions;
        let user = attempt.requester.map_or("", |requester| requester.user.as_str());
        if exemptions.has_namespace(attempt.target.namespace()) {
            return Some("namespace");
        }
        exemptions.has_user(user).then_some("user")
    }

    fn is_runtime_class_exempt(
        &self,
        attempt: &WriteAttempt<'_>,
        pod: &PodView<'_>,
        request: RequestLabels,
    ) -> bool {
        let is_exempt = self
            .configuration
            .exemptions
            .has_runtime_class(pod.runtime_class());
        if is_exempt {
            self.counts.count_exemption(request);
            annotate(attempt, "exempt", "runtimeClass");
        }
        is_exempt
    }

    /// Returns the policy of the request's Namespace and the faults of its labels; `None` if the Namespace is not
    /// readable.
    fn policy(&self, index: &Index, attempt: &WriteAttempt<'_>) -> Option<(Policy, FieldErrors)> {
        let key = namespace_kind().ok()?.store_key("", attempt.target.namespace());
        let namespace: Value = serde_json::from_slice(&index.get(&key)?.value).ok()?;
        Some(policy_of_labels(&namespace, self.configuration.defaults))
    }

    fn record_faults(&self, attempt: &WriteAttempt<'_>, errors: &FieldErrors, request: RequestLabels) {
        if !errors.is_empty() {
            self.counts.count_error(false, request);
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let text = format!("Failed to parse policy: {}", texts.join(", "));
            annotate(attempt, "error", &text);
        }
    }

    fn audit(&self, attempt: &WriteAttempt<'_>, policy: Policy, pod: &PodView<'_>, request: RequestLabels) {
        let evaluation = evaluate(policy.audit, pod);
        if !evaluation.is_allowed() {
            self.counts
                .count_evaluation(Decision::Deny, policy.audit, Mode::Audit, request);
            annotate(
                attempt,
                "audit-violations",
                &would_violate(policy.audit, &evaluation),
            );
        }
    }

    fn warn(&self, policy: Policy, pod: &PodView<'_>, request: RequestLabels) -> Vec<String> {
        let evaluation = evaluate(policy.warn, pod);
        if evaluation.is_allowed() {
            return Vec::new();
        }
        self.counts
            .count_evaluation(Decision::Deny, policy.warn, Mode::Warn, request);
        vec![would_violate(policy.warn, &evaluation)]
    }
}

fn is_ignored(attempt: &WriteAttempt<'_>) -> bool {
    attempt
        .target
        .subresource
        .is_some_and(|subresource| IGNORED_SUBRESOURCES.contains(&subresource))
}

/// Adds an annotation to the audit events of the request.
fn annotate(attempt: &WriteAttempt<'_>, key: &str, value: &str) {
    attempt.recorder.annotate(&format!("{PREFIX}{key}"), value);
}

fn would_violate(policy: LevelVersion, evaluation: &Evaluation) -> String {
    format!("would violate PodSecurity \"{policy}\": {}", evaluation.details())
}
