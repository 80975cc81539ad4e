//! Resolution of a `proxy` request to a Service's endpoint or a Pod (API-03 to API-05).

use std::net::IpAddr;

use api::kind;
use api::tree::{child, items, number, text};
use serde_json::Value;

use crate::failure::Failure;
use crate::request::route::Target;
use crate::verbs::resource::Resources;

/// Scheme and address of a Pod's port.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) scheme: &'static str,
    /// Address and port.
    pub(super) authority: String,
}

/// A name in the path: `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'n> {
    scheme: &'static str,
    pub(super) name: &'n str,
    pub(super) port: &'n str,
}

impl Destination {
    /// Returns the destination for a port of a Pod's address. Refuses addresses by which the server reaches
    /// itself: kubelets write the addresses of Pods, and could name the server's loopback.
    fn at(scheme: &'static str, ip: IpAddr, port: Option<i64>) -> Result<Destination, Failure> {
        if is_local(ip.to_canonical()) {
            return Err(Failure::bad_request("address not allowed"));
        }
        Ok(Destination {
            scheme,
            authority: authority(ip, port),
        })
    }
}

/// Resolves the destination of `target`. The endpoint of a Service is chosen again for each request.
pub(super) async fn resolve(resources: &Resources, target: &Target) -> Result<Destination, Failure> {
    let singular = target.kind.singular;
    let name = Name::parse(target.name())
        .ok_or_else(|| Failure::bad_request(format!("invalid {singular} request {:?}", target.name())))?;
    match target.kind.kind {
        "Pod" => pod_destination(&find(resources, target, "pods", name.name).await?, &name),
        _ => service_destination(resources, target, &name).await,
    }
}

impl Name<'_> {
    pub(super) fn parse(text: &str) -> Option<Name<'_>> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        let scheme = match scheme {
            "" | "http" => "http",
            "https" => "https",
            _ => return None,
        };
        (!name.is_empty()).then_some(Name { scheme, name, port })
    }
}

async fn service_destination(
    resources: &Resources,
    target: &Target,
    name: &Name<'_>,
) -> Result<Destination, Failure> {
    // As upstream: only the number of a port needs the Service, and absent Endpoints are reported as the Service.
    let port = match name.port.parse::<i64>() {
        Ok(number) => port_name(
            &find(resources, target, "services", name.name).await?,
            name,
            number,
        )?,
        Err(_) => name.port.to_owned(),
    };
    let none = || Failure::unavailable(format!("no endpoints available for service {:?}", target.name()));
    let endpoints = match find(resources, target, "endpoints", name.name).await {
        Err(failure) if failure.code() == http::StatusCode::NOT_FOUND => {
            return Err(Failure::not_found(target.kind, name.name));
        }
        found => found?,
    };
    for subset in iterate_from_random_start(items(&endpoints, "subsets")) {
        let ports = items(subset, "ports").iter();
        let Some(number) = ports
            .filter(|candidate| text(candidate, "name") == port)
            .map(|candidate| number(candidate, "port"))
            .next()
        else {
            continue;
        };
        for address in iterate_from_random_start(items(subset, "addresses")) {
            if let Some(ip) = pod_address(resources, target, address).await? {
                return Destination::at(name.scheme, ip, Some(number));
            }
        }
    }
    Err(none())
}

/// Returns the name of the Service port with a number (API-04).
fn port_name(service: &Value, name: &Name<'_>, requested: i64) -> Result<String, Failure> {
    let mut ports = items(child(service, "spec"), "ports").iter();
    let found = ports.find(|port| number(port, "port") == requested);
    found.map(|port| text(port, "name").to_owned()).ok_or_else(|| {
        Failure::unavailable(format!(
            "no service port {requested} found for service {:?}",
            name.name
        ))
    })
}

/// Returns the address of an endpoint if it belongs to the Pod that the endpoint references.
async fn pod_address(
    resources: &Resources,
    target: &Target,
    address: &Value,
) -> Result<Option<IpAddr>, Failure> {
    let reference = child(address, "targetRef");
    if text(reference, "kind") != "Pod" || text(reference, "namespace") != target.namespace() {
        return Ok(None);
    }
    let pod = match find(resources, target, "pods", text(reference, "name")).await {
        Err(failure) if failure.code() == http::StatusCode::NOT_FOUND => return Ok(None),
        found => found?,
    };
    let ip = text(address, "ip");
    let belongs_to_pod = pod_ips(&pod).any(|own| own == ip);
    Ok(ip.parse().ok().filter(|_| belongs_to_pod))
}

fn pod_destination(pod: &Value, name: &Name<'_>) -> Result<Destination, Failure> {
    let ip = pod_ips(pod).next().and_then(|ip| ip.parse().ok());
    let ip: IpAddr = ip.ok_or_else(|| Failure::bad_request("the pod has no address yet"))?;
    let port = match name.port {
        "" => first_port(pod),
        given => Some(given.parse::<u16>().map(i64::from).map_err(|_| {
            Failure::bad_request(format!(
                "invalid pod request: {given:?} is not the number of a port"
            ))
        })?),
    };
    Destination::at(name.scheme, ip, port)
}

/// Returns the first container port of a Pod.
fn first_port(pod: &Value) -> Option<i64> {
    items(child(pod, "spec"), "containers")
        .iter()
        .flat_map(|container| items(container, "ports"))
        .map(|port| number(port, "containerPort"))
        .next()
}

fn pod_ips(pod: &Value) -> impl Iterator<Item = &str> {
    let status = child(pod, "status");
    let listed = items(status, "podIPs");
    let single = Some(text(status, "podIP")).filter(|ip| listed.is_empty() && !ip.is_empty());
    listed.iter().map(|entry| text(entry, "ip")).chain(single)
}

/// Returns true for addresses by which the server would reach itself or its link.
fn is_local(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || is_link_local
}

/// Returns the host and port of a URL.
pub(super) fn authority(ip: IpAddr, port: Option<i64>) -> String {
    let host = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    port.map_or(host.clone(), |port| format!("{host}:{port}"))
}

/// Iterates over a whole list from a random start.
fn iterate_from_random_start(list: &[Value]) -> impl Iterator<Item = &Value> {
    let begin = if list.is_empty() {
        0
    } else {
        fastrand::usize(..list.len())
    };
    let (before, from) = list.split_at(begin);
    from.iter().chain(before)
}

/// Reads an object in the namespace of `target`.
pub(super) async fn find(
    resources: &Resources,
    target: &Target,
    plural: &str,
    name: &str,
) -> Result<Value, Failure> {
    let kind = kind::find("", "v1", plural).ok_or_else(Failure::no_such_path)?;
    let one = Target::object(kind, target.namespace(), name);
    let stored = resources.stored(&one).await?;
    stored
        .map(|stored| stored.object)
        .ok_or_else(|| Failure::not_found(kind, name))
}

#[cfg(test)]
mod tests;
