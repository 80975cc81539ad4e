//! The expected contents of slices and Endpoints, recomputed from the objects.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use crate::server::{Key, Objects};

/// One endpoint at one port as text: family, address, port, readiness and other fields that consumers use.
type Facts = BTreeSet<String>;

const SLICES: &str = "endpointslice-controller.k8s.io";
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

/// Returns the differences between observed and expected state.
pub(crate) fn differences(objects: &Objects) -> Vec<String> {
    let mut wrong = Vec::new();
    for ((_, _, name), service) in of(objects, "services") {
        if service["spec"]["selector"].is_object() {
            compare(
                &mut wrong,
                "slices",
                name,
                expected(objects, service),
                sliced(objects, name, SLICES),
            );
            let endpoints = objects.get(&key("endpoints", name));
            let first = service["spec"]["ipFamilies"][0]
                .as_str()
                .unwrap_or("IPv4")
                .to_owned();
            let expected = in_endpoints(objects, service, &first);
            compare(
                &mut wrong,
                "Endpoints",
                name,
                expected,
                endpoints.map(subsets).unwrap_or_default(),
            );
            if endpoints.is_none() {
                wrong.push(format!("{name} has no Endpoints"));
            }
            check_slices(&mut wrong, objects, service, name);
        } else {
            let endpoints = objects
                .get(&key("endpoints", name))
                .filter(|endpoints| !skips(endpoints));
            let expected = endpoints.map(subsets).unwrap_or_default();
            compare(
                &mut wrong,
                "mirrored slices",
                name,
                expected,
                sliced(objects, name, MIRRORED),
            );
        }
    }
    // The garbage collector deletes the slices of a deleted Service.
    for ((_, _, name), slice) in of(objects, "endpointslices") {
        let labels = &slice["metadata"]["labels"];
        let service = labels["kubernetes.io/service-name"].as_str().unwrap_or_default();
        let is_mirrored = labels["endpointslice.kubernetes.io/managed-by"] == MIRRORED;
        if is_mirrored && !objects.contains_key(&key("services", service)) {
            wrong.push(format!(
                "slice {name} mirrors for {service}, which does not exist"
            ));
        }
    }
    for ((_, _, name), endpoints) in of(objects, "endpoints") {
        let managed = !endpoints["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"].is_null();
        if managed && !objects.contains_key(&key("services", name)) {
            wrong.push(format!(
                "Endpoints {name} belong to a Service that does not exist"
            ));
        }
    }
    wrong
}

/// Checks the shape of the slices: maximum size, placeholder and owners.
fn check_slices(wrong: &mut Vec<String>, objects: &Objects, service: &Value, name: &str) {
    for family in service["spec"]["ipFamilies"].as_array().into_iter().flatten() {
        let slices = slices(objects, name, SLICES).filter(|slice| slice["addressType"] == *family);
        let slices: Vec<&Value> = slices.collect();
        let sizes: Vec<usize> = slices.iter().map(|slice| endpoints_of(slice).count()).collect();
        if sizes.iter().any(|size| *size > 3) {
            wrong.push(format!("{name} has slices of {sizes:?} endpoints"));
        }
        let empty = sizes.iter().filter(|size| **size == 0).count();
        if sizes.is_empty() || (empty > 0 && sizes.len() > 1) {
            wrong.push(format!("{name} has {family} slices of {sizes:?} endpoints"));
        }
        let foreign =
            |slice: &&Value| slice["metadata"]["ownerReferences"][0]["uid"] != service["metadata"]["uid"];
        if slices.iter().any(foreign) {
            wrong.push(format!("{name} has slices of an earlier Service"));
        }
    }
}

fn compare(wrong: &mut Vec<String>, subject: &str, name: &str, expected: Facts, found: Facts) {
    if expected != found {
        let missing: Vec<_> = expected.difference(&found).collect();
        let extra: Vec<_> = found.difference(&expected).collect();
        wrong.push(format!(
            "{subject} of {name}: missing {missing:?}, too much {extra:?}"
        ));
    }
}

fn expected(objects: &Objects, service: &Value) -> Facts {
    let publishes = service["spec"]["publishNotReadyAddresses"] == true;
    let mut facts = Facts::new();
    for pod in pods(objects, service) {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        let known = objects.get(&("nodes".to_owned(), String::new(), node.to_owned()));
        if known.is_none() && !publishes {
            continue;
        }
        let zone = known.map_or(
            &Value::Null,
            |node| &node["metadata"]["labels"]["topology.kubernetes.io/zone"],
        );
        for family in service["spec"]["ipFamilies"].as_array().into_iter().flatten() {
            for ip in addresses(pod, family.as_str().unwrap_or_default()) {
                let serving = is_ready(pod);
                let terminating = is_terminating(pod);
                let ready = publishes || (serving && !terminating);
                let uid = &pod["metadata"]["uid"];
                let port = port(pod, service);
                facts.insert(format!(
                    "{family} {ip} {port:?} {ready} {serving} {terminating} {zone} {uid}"
                ));
            }
        }
    }
    facts
}

fn sliced(objects: &Objects, name: &str, managed_by: &str) -> Facts {
    let mut facts = Facts::new();
    for slice in slices(objects, name, managed_by) {
        let port = slice["ports"][0]["port"].as_u64();
        for endpoint in endpoints_of(slice) {
            let ip = endpoint["addresses"][0].as_str().unwrap_or_default();
            let conditions = &endpoint["conditions"];
            let line = if managed_by == MIRRORED {
                format!("{ip} {port:?} {}", conditions["ready"])
            } else {
                let family = &slice["addressType"];
                let (ready, serving) = (&conditions["ready"], &conditions["serving"]);
                let (terminating, zone) = (&conditions["terminating"], &endpoint["zone"]);
                let uid = &endpoint["targetRef"]["uid"];
                format!("{family} {ip} {port:?} {ready} {serving} {terminating} {zone} {uid}")
            };
            if !facts.insert(line.clone()) {
                facts.insert(format!("twice: {line}"));
            }
        }
    }
    facts
}

fn in_endpoints(objects: &Objects, service: &Value, family: &str) -> Facts {
    let publishes = service["spec"]["publishNotReadyAddresses"] == true;
    let counted = pods(objects, service).filter(|pod| publishes || !is_terminating(pod));
    let lines = counted.filter_map(|pod| {
        let ip = addresses(pod, family).next()?;
        let port = port(pod, service)?;
        Some(format!("{ip} Some({port}) {}", publishes || is_ready(pod)))
    });
    lines.collect()
}

fn subsets(endpoints: &Value) -> Facts {
    let mut facts = Facts::new();
    for subset in endpoints["subsets"].as_array().into_iter().flatten() {
        for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
            for address in subset[field].as_array().into_iter().flatten() {
                let ip = address["ip"].as_str().unwrap_or_default();
                let port = subset["ports"][0]["port"].as_u64();
                facts.insert(format!("{ip} {port:?} {ready}"));
            }
        }
    }
    facts
}

fn pods<'a>(objects: &'a Objects, service: &'a Value) -> impl Iterator<Item = &'a Value> {
    let selector = &service["spec"]["selector"]["app"];
    of(objects, "pods").map(|(_, pod)| pod).filter(move |pod| {
        pod["metadata"]["labels"]["app"] == *selector && pod["status"]["phase"] == "Running"
    })
}

fn addresses<'a>(pod: &'a Value, family: &'a str) -> impl Iterator<Item = &'a str> {
    let all = pod["status"]["podIPs"].as_array().into_iter().flatten();
    let all = all.filter_map(|ip| ip["ip"].as_str());
    all.filter(move |ip| match ip.parse() {
        Ok(IpAddr::V4(_)) => family == "IPv4",
        Ok(IpAddr::V6(_)) => family == "IPv6",
        Err(_) => false,
    })
}

fn port(pod: &Value, service: &Value) -> Option<u64> {
    let target = &service["spec"]["ports"][0]["targetPort"];
    target
        .as_u64()
        .or_else(|| pod["spec"]["containers"][0]["ports"][0]["containerPort"].as_u64())
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn skips(endpoints: &Value) -> bool {
    endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] == "true"
}

fn slices<'a>(objects: &'a Objects, name: &'a str, managed_by: &'a str) -> impl Iterator<Item = &'a Value> {
    of(objects, "endpointslices")
        .map(|(_, slice)| slice)
        .filter(move |slice| {
            let labels = &slice["metadata"]["labels"];
            labels["kubernetes.io/service-name"] == name
                && labels["endpointslice.kubernetes.io/managed-by"] == managed_by
        })
}

fn endpoints_of(slice: &Value) -> impl Iterator<Item = &Value> {
    slice["endpoints"].as_array().into_iter().flatten()
}

/// Iterates over the objects of a kind.
pub(crate) fn of<'a>(objects: &'a Objects, plural: &'a str) -> impl Iterator<Item = (&'a Key, &'a Value)> {
    objects.iter().filter(move |((p, ..), _)| p == plural)
}

/// Returns the ranges of a ServiceCIDR.
pub(crate) fn ranges(cidr: &Value) -> impl Iterator<Item = ipnet::IpNet> {
    let ranges = cidr["spec"]["cidrs"].as_array().into_iter().flatten();
    ranges.filter_map(|range| range.as_str()?.parse().ok())
}

/// Returns true if an address would be in no lasting range without this one.
pub(crate) fn would_orphan(objects: &Objects, cidr: &Value) -> bool {
    let stays = |other: &&Value| other["metadata"]["deletionTimestamp"].is_null();
    let all = of(objects, "servicecidrs").map(|(_, other)| other);
    let others: Vec<ipnet::IpNet> = all.filter(stays).flat_map(ranges).collect();
    let addresses = of(objects, "ipaddresses").filter_map(|((_, _, name), _)| name.parse::<IpAddr>().ok());
    let within: Vec<IpAddr> = addresses
        .filter(|ip| ranges(cidr).any(|range| range.contains(ip)))
        .collect();
    within
        .iter()
        .any(|ip| !others.iter().any(|other| other.contains(ip)))
}

fn key(plural: &str, name: &str) -> Key {
    (plural.to_owned(), "n".to_owned(), name.to_owned())
}
