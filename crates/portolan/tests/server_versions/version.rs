//! Versions of the API server, as far as they affect components of a node and of the cluster.

use serde_json::{Value, json};

/// Name of the ServiceAccount in refusals.
const USER: &str = "system:serviceaccount:kube-system:kube-proxy";

/// Rights of the user of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// All.
    All,
    /// The ClusterRole `system:node-proxier` of the server's version.
    NodeProxier,
    /// The ClusterRole `system:coredns` that kubeadm creates.
    CoreDns,
    /// None, as while a role is replaced.
    None,
}

/// A server of version 1.`minor` with a user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    pub minor: u8,
    pub rights: Rights,
}

/// Response in the place of the server's.
pub(crate) struct Answer {
    pub code: u16,
    pub content_type: &'static str,
    pub body: String,
}

/// A request, as the filter sees it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub method: String,
    pub path: String,
    pub query: String,
}

impl ReceivedRequest {
    /// Returns the verb of authorization.
    pub(crate) fn verb(&self) -> &'static str {
        let is_collection = self.path.ends_with(&format!("/{}", self.resource()));
        match self.method.as_str() {
            "GET" if self.query.contains("watch=true") => "watch",
            "GET" if is_collection => "list",
            "GET" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            _ => "delete",
        }
    }

    /// Returns the group, or "" for the core group.
    fn group(&self) -> &str {
        let group = self
            .path
            .strip_prefix("/apis/")
            .and_then(|rest| rest.split('/').next());
        group.unwrap_or_default()
    }

    /// Returns the resource, such as `services`.
    pub(crate) fn resource(&self) -> &str {
        let parts: Vec<&str> = self.path.trim_start_matches('/').split('/').collect();
        let rest = match parts.first() {
            Some(&"api") => &parts[2.min(parts.len())..],
            Some(&"apis") => &parts[3.min(parts.len())..],
            _ => &[],
        };
        match rest {
            ["namespaces", _, resource, ..] | [resource, ..] => resource,
            [] => "",
        }
    }
}

impl Version {
    /// Returns the response of a server of this version, if it differs from that of the server behind the filter.
    /// Upstream authorizes before it looks for the path, and reads selectors last.
    pub(crate) fn answer(self, seen: &ReceivedRequest) -> Option<Answer> {
        if seen.path == "/version" {
            let version = json!({
                "major": "1", "minor": self.minor.to_string(), "gitVersion": format!("v1.{}.0", self.minor),
            });
            return Some(json_answer(200, &version));
        }
        if !self.allows(seen) {
            return Some(self.forbidden(seen));
        }
        if self.lacks(seen) {
            return Some(Answer {
                code: 404,
                content_type: "text/plain; charset=utf-8",
                body: "404 page not found\n".to_owned(),
            });
        }
        self.rejected_field(seen).map(|field| {
            let message = format!(
                "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
            );
            json_answer(400, &status(400, "BadRequest", &message))
        })
    }

    /// ServiceCIDR and IPAddress are served by default from 1.33 on, in v1.
    fn lacks(self, seen: &ReceivedRequest) -> bool {
        let is_new = matches!(seen.resource(), "servicecidrs" | "ipaddresses");
        is_new && (self.minor < 33 || !seen.path.contains("/v1/"))
    }

    /// Services have selectable fields besides their metadata since 1.31.
    fn rejected_field(self, seen: &ReceivedRequest) -> Option<&'static str> {
        let is_rejected = self.minor < 31 && seen.resource() == "services";
        let fields = ["spec.clusterIP", "spec.type"];
        fields
            .into_iter()
            .find(|field| is_rejected && seen.query.contains(&format!("fieldSelector={field}")))
    }

    fn allows(self, seen: &ReceivedRequest) -> bool {
        let is_read = matches!(seen.verb(), "list" | "watch");
        match (self.rights, seen.group(), seen.resource()) {
            (Rights::All, _, _) => true,
            (Rights::None, _, _) => false,
            (Rights::NodeProxier, "", "services" | "endpoints")
            | (Rights::NodeProxier | Rights::CoreDns, "discovery.k8s.io", "endpointslices")
            | (Rights::CoreDns, "", "services" | "endpoints" | "pods" | "namespaces") => is_read,
            (Rights::NodeProxier, "", "nodes") => is_read || seen.verb() == "get",
            (Rights::NodeProxier, "" | "events.k8s.io", "events") => {
                matches!(seen.verb(), "create" | "patch" | "update")
            }
            (Rights::NodeProxier, "networking.k8s.io", "servicecidrs") => is_read && self.minor >= 33,
            _ => false,
        }
    }

    fn forbidden(self, seen: &ReceivedRequest) -> Answer {
        let (group, resource) = (seen.group(), seen.resource());
        let qualified = if group.is_empty() {
            resource.to_owned()
        } else {
            format!("{resource}.{group}")
        };
        let message = format!(
            "{qualified} is forbidden: User \"{USER}\" cannot {} resource \"{resource}\" in API group \"{group}\" at the cluster scope",
            seen.verb()
        );
        json_answer(403, &status(403, "Forbidden", &message))
    }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    })
}

fn json_answer(code: u16, body: &Value) -> Answer {
    Answer {
        code,
        content_type: "application/json",
        body: body.to_string(),
    }
}
