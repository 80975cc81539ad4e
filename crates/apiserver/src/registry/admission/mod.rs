//! Admission: checks and changes of a write after authorization. They depend on several objects, or apply to some
//! users only.
//!
//! [`crate::registry::namespace`] checks that the namespace exists, since that must hold at the commit too.

mod announcer_record;
mod assigned_addresses;
mod certificates;
mod configuration;
mod default_ingress_class;
mod default_tolerations;
mod escalation;
mod external_ips;
mod ingress_hosts;
mod node_restriction;
mod pod_security;
mod pools_in_use;
mod service_account;
mod shared_addresses;
#[cfg(test)]
mod tests;

pub use configuration::{AdmissionConfiguration, AdmissionConfigurationError};
pub(crate) use pod_security::Counts as PodSecurityCounts;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;
use store::Index;

use crate::access::audit::Recorder;
use crate::access::authentication::Identity;
use crate::access::authorization::{Attributes, Authorizer};
use crate::failure::Failure;
use crate::request::route::Target;
use pod_security::PodSecurity;

/// An admission plugin that can be switched on and off, under upstream's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdmissionPlugin {
    /// Approvers of certificate requests need the verb `approve` on the signer.
    CertificateApproval,
    /// Signers of certificates need the verb `sign` on the signer.
    CertificateSigning,
    /// Client certificates cannot have the group `system:masters`.
    CertificateSubjectRestriction,
    /// Ingresses without a class get the default one.
    DefaultIngressClass,
    /// Pods tolerate a Node without heartbeats for a while.
    DefaultTolerationSeconds,
    /// Services get no new external IPs.
    DenyServiceExternalIps,
    /// No objects are created in missing or terminating Namespaces. Always on.
    NamespaceLifecycle,
    /// The agent of a node writes only its own Node, Lease and Pods.
    NodeRestriction,
    /// Pods comply with the Pod Security Standards that the labels of their Namespace select.
    PodSecurity,
    /// Pods have an existing ServiceAccount.
    ServiceAccount,
}

impl AdmissionPlugin {
    const ALL: [AdmissionPlugin; 10] = [
        AdmissionPlugin::CertificateApproval,
        AdmissionPlugin::CertificateSigning,
        AdmissionPlugin::CertificateSubjectRestriction,
        AdmissionPlugin::DefaultIngressClass,
        AdmissionPlugin::DefaultTolerationSeconds,
        AdmissionPlugin::DenyServiceExternalIps,
        AdmissionPlugin::NamespaceLifecycle,
        AdmissionPlugin::NodeRestriction,
        AdmissionPlugin::PodSecurity,
        AdmissionPlugin::ServiceAccount,
    ];

    fn name(self) -> &'static str {
        match self {
            AdmissionPlugin::CertificateApproval => "CertificateApproval",
            AdmissionPlugin::CertificateSigning => "CertificateSigning",
            AdmissionPlugin::CertificateSubjectRestriction => "CertificateSubjectRestriction",
            AdmissionPlugin::DefaultIngressClass => "DefaultIngressClass",
            AdmissionPlugin::DefaultTolerationSeconds => "DefaultTolerationSeconds",
            AdmissionPlugin::DenyServiceExternalIps => "DenyServiceExternalIPs",
            AdmissionPlugin::NamespaceLifecycle => "NamespaceLifecycle",
            AdmissionPlugin::NodeRestriction => "NodeRestriction",
            AdmissionPlugin::PodSecurity => "PodSecurity",
            AdmissionPlugin::ServiceAccount => "ServiceAccount",
        }
    }

    /// Plugins that are on by default.
    pub fn defaults() -> BTreeSet<AdmissionPlugin> {
        let mut plugins = BTreeSet::from(AdmissionPlugin::ALL);
        plugins.remove(&AdmissionPlugin::DenyServiceExternalIps);
        plugins
    }
}

impl fmt::Display for AdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AdmissionPlugin {
    type Err = String;

    fn from_str(text: &str) -> Result<AdmissionPlugin, String> {
        let found = AdmissionPlugin::ALL
            .into_iter()
            .find(|plugin| plugin.name() == text);
        found.ok_or_else(|| {
            let known = AdmissionPlugin::ALL.map(AdmissionPlugin::name).join(", ");
            format!("unknown admission plugin {text:?}; expected one of {known}")
        })
    }
}

/// The admission chain.
pub(crate) struct Admission {
    plugins: BTreeSet<AdmissionPlugin>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) pod_security: PodSecurity,
}

/// A write that admission decides about.
#[derive(Clone, Copy)]
pub(crate) struct WriteAttempt<'a> {
    target: &'a Target,
    /// The client; `None` for a write of the server itself.
    requester: Option<&'a Identity>,
    /// The stored object; `None` for a creation.
    stored: Option<&'a Value>,
    /// Recorder of admission decisions.
    recorder: Recorder<'a>,
}

impl<'a> WriteAttempt<'a> {
    /// Describes a creation.
    pub(crate) fn create(target: &'a Target, requester: Option<&'a Identity>) -> WriteAttempt<'a> {
        WriteAttempt {
            target,
            requester,
            stored: None,
            recorder: Recorder::NONE,
        }
    }

    /// Describes an update.
    pub(crate) fn update(
        target: &'a Target,
        requester: Option<&'a Identity>,
        stored: &'a Value,
    ) -> WriteAttempt<'a> {
        WriteAttempt {
            target,
            requester,
            stored: Some(stored),
            recorder: Recorder::NONE,
        }
    }

    /// Adds a recorder.
    pub(crate) fn recorded(self, recorder: Recorder<'a>) -> WriteAttempt<'a> {
        WriteAttempt { recorder, ..self }
    }

    /// Returns true if the object itself is written, not a subresource.
    fn is_main(&self) -> bool {
        self.target.subresource.is_none()
    }
}

impl Admission {
    pub(crate) fn new(
        plugins: BTreeSet<AdmissionPlugin>,
        authorizer: Arc<Authorizer>,
        configuration: AdmissionConfiguration,
    ) -> Admission {
        Admission {
            plugins,
            authorizer,
            pod_security: PodSecurity::new(configuration.pod_security),
        }
    }

    /// Admits an object before validation, and completes it.
    pub(crate) fn admit(
        &self,
        index: &Index,
        attempt: WriteAttempt<'_>,
        object: &mut Value,
    ) -> Result<(), Failure> {
        match attempt.target.kind.kind {
            "Pod" if attempt.is_main() => {
                if attempt.stored.is_none() && self.has(AdmissionPlugin::ServiceAccount) {
                    service_account::admit(index, attempt.target, object)?;
                }
                if self.has(AdmissionPlugin::DefaultTolerationSeconds) {
                    default_tolerations::admit(object);
                }
            }
            "Ingress"
                if attempt.is_main()
                    && attempt.stored.is_none()
                    && self.has(AdmissionPlugin::DefaultIngressClass) =>
            {
                default_ingress_class::admit(index, object)?;
            }
            "Ingress" if attempt.is_main() && attempt.stored.is_some() => {
                ingress_hosts::admit(index, &attempt, object)?;
            }
            "Service" if attempt.is_main() => {
                if self.has(AdmissionPlugin::DenyServiceExternalIps) {
                    external_ips::admit(&attempt, object)?;
                }
                shared_addresses::admit(index, &attempt, object)?;
            }
            "Service" if attempt.target.subresource == Some("status") => {
                assigned_addresses::admit(self, &attempt, object)?;
            }
            "AddressPool" if attempt.is_main() => pools_in_use::admit_update(index, &attempt, object)?,
            "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => {
                escalation::admit(&self.authorizer, index, &attempt, object)?;
            }
            "CertificateSigningRequest" => certificates::admit(self, &attempt, object)?,
            _ => {}
        }
        if let Some(node) = self.restricted(attempt.requester) {
            node_restriction::admit(node, index, &attempt, object)?;
        }
        if attempt.target.kind.kind == "Lease"
            && let Some(node) = announcer_record::announcer_of(attempt.requester)
        {
            announcer_record::admit(node, index, &attempt, object)?;
        }
        Ok(())
    }

    /// Admits a PUT or PATCH that creates its object. This requires the right to `create` as well (upstream's
    /// `withAuthorization` in `apiserver/pkg/endpoints/handlers/create.go`).
    pub(crate) fn admit_creation(
        &self,
        target: &Target,
        requester: Option<&Identity>,
    ) -> Result<(), Failure> {
        match requester {
            Some(user) => {
                let attributes = Attributes::of_target(user, target, "create", None);
                self.authorizer.check(&attributes)
            }
            None => Ok(()),
        }
    }

    /// Admits a complete and valid object. Returns warnings for the client.
    pub(crate) fn validate(
        &self,
        index: &Index,
        attempt: WriteAttempt<'_>,
        object: &Value,
    ) -> Result<Vec<String>, Failure> {
        match attempt.requester {
            Some(_) if self.has(AdmissionPlugin::PodSecurity) => {
                self.pod_security.validate(index, &attempt, object)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Admits a deletion.
    pub(crate) fn admit_delete(
        &self,
        index: &Index,
        target: &Target,
        requester: &Identity,
    ) -> Result<(), Failure> {
        if target.kind.kind == "AddressPool" {
            pools_in_use::admit_delete(index, target)?;
        }
        match self.restricted(Some(requester)) {
            Some(node) => node_restriction::admit_delete(node, index, target),
            None => Ok(()),
        }
    }

    /// Admits a TokenRequest for the ServiceAccount `target`.
    pub(crate) fn admit_token_request(
        &self,
        index: &Index,
        target: &Target,
        requester: &Identity,
        request: &Value,
    ) -> Result<(), Failure> {
        let Some(node) = self.restricted(Some(requester)) else {
            return Ok(());
        };
        node_restriction::admit_token_request(node, index, target, requester, &self.authorizer, request)
    }

    fn restricted<'i>(&self, requester: Option<&'i Identity>) -> Option<&'i str> {
        let node = requester?.node_name()?;
        self.has(AdmissionPlugin::NodeRestriction).then_some(node)
    }

    fn has(&self, plugin: AdmissionPlugin) -> bool {
        self.plugins.contains(&plugin)
    }
}
