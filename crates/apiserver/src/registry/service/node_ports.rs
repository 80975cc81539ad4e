//! Node ports of Services (NP-04 to NP-09, VAL-67, VAL-68).

use std::collections::{HashMap, HashSet};

use api::field::{FieldError, Path};
use api::service::View;
use api::tree::{items_mut, number, set, text};
use serde_json::Value;

use super::Failure;
use super::allocation::Allocation;
use super::pools::PortError;

/// Reserves the node ports of a new Service.
pub(super) fn allocate(allocation: &mut Allocation, service: &mut Value) -> Result<(), Failure> {
    if View::of(service).needs_node_ports() {
        allocate_ports(allocation, service)?;
    }
    if View::of(service).needs_health_check_node_port() {
        allocate_health_check(allocation, service)?;
    }
    Ok(())
}

/// Reserves and releases node ports after a change.
pub(super) fn update(allocation: &mut Allocation, new: &mut Value, old: &Value) -> Result<(), Failure> {
    let before = View::of(old);
    let held = before.node_ports();
    if before.needs_node_ports() && matches!(View::of(new).kind(), "ClusterIP" | "ExternalName") {
        held.iter().for_each(|port| allocation.release_port(*port));
    }
    if View::of(new).needs_node_ports() {
        update_ports(allocation, new, &held)?;
    }
    match (
        before.needs_health_check_node_port(),
        View::of(new).needs_health_check_node_port(),
    ) {
        (false, true) => allocate_health_check(allocation, new)?,
        (true, false) => allocation.release_port(before.health_check_node_port()),
        _ => {}
    }
    Ok(())
}

/// Releases all node ports of a deleted Service.
pub(super) fn release(allocation: &mut Allocation, service: View<'_>) {
    for port in service.node_ports() {
        allocation.release_port(port);
    }
    if service.needs_health_check_node_port() && service.health_check_node_port() > 0 {
        allocation.release_port(service.health_check_node_port());
    }
}

/// Reserves a node port for each port number. Ports of one number share it, whatever their protocols; a requested
/// one takes precedence (NP-04).
fn allocate_ports(allocation: &mut Allocation, service: &mut Value) -> Result<(), Failure> {
    let view = View::of(service);
    let allocates = view.allocates_node_ports();
    let mut requested: HashMap<i64, i64> = HashMap::new();
    for port in view.ports() {
        if number(port, "nodePort") != 0 {
            requested
                .entry(number(port, "port"))
                .or_insert(number(port, "nodePort"));
        }
    }
    let mut chosen: HashMap<i64, i64> = HashMap::new();
    for (index, port) in ports_mut(service).iter_mut().enumerate() {
        let (service_port, given) = (number(port, "port"), number(port, "nodePort"));
        if given == 0 && !allocates {
            continue;
        }
        match chosen.get(&service_port) {
            None => {
                let node_port = match requested.get(&service_port) {
                    Some(requested) => {
                        allocation
                            .take_port(*requested)
                            .map_err(|error| rejection(index, *requested, &error))?;
                        *requested
                    }
                    None => take_next(allocation)?,
                };
                set(port, "nodePort", node_port);
                chosen.insert(service_port, node_port);
            }
            Some(shared) if given == 0 => set(port, "nodePort", *shared),
            Some(shared) if given == *shared => {}
            Some(_) => allocation
                .take_port(given)
                .map_err(|error| rejection(index, given, &error))?,
        }
    }
    Ok(())
}

/// Reserves new node ports and releases dropped ones. Node ports of the Service may move between its ports
/// (NP-05).
fn update_ports(allocation: &mut Allocation, new: &mut Value, held: &[i64]) -> Result<(), Failure> {
    let allocates = View::of(new).allocates_node_ports();
    let given_before: HashSet<i64> = held.iter().copied().collect();
    let mut taken: HashSet<i64> = HashSet::new();
    let mut seen: HashSet<(String, i64)> = HashSet::new();
    for (index, port) in ports_mut(new).iter_mut().enumerate() {
        let given = number(port, "nodePort");
        if given == 0 && !allocates {
            continue;
        }
        let node_port = if given == 0 {
            let next = take_next(allocation)?;
            set(port, "nodePort", next);
            next
        } else {
            if !given_before.contains(&given) && !taken.contains(&given) {
                allocation
                    .take_port(given)
                    .map_err(|error| rejection(index, given, &error))?;
                taken.insert(given);
            }
            given
        };
        let pair = (text(port, "protocol").to_owned(), node_port);
        if seen.contains(&pair) {
            return Err(Failure::Unclassified(format!(
                "duplicate nodePort: {{{} {}}}",
                pair.0, pair.1
            )));
        }
        seen.insert(pair);
    }
    let kept: HashSet<i64> = View::of(new).node_ports().into_iter().collect();
    for port in held.iter().filter(|port| !kept.contains(port)) {
        allocation.release_port(*port);
    }
    Ok(())
}

/// Reserves the health check node port, which is of the same range (NP-08).
fn allocate_health_check(allocation: &mut Allocation, service: &mut Value) -> Result<(), Failure> {
    let requested = View::of(service).health_check_node_port();
    if requested != 0 {
        return allocation.take_port(requested).map_err(|error| {
            let message = format!("failed to allocate requested HealthCheck NodePort {requested}: {error}");
            Failure::Internal(message)
        });
    }
    let port = allocation.take_next_port().ok_or_else(|| {
        Failure::Internal("failed to allocate a HealthCheck NodePort 0: range is full".to_owned())
    })?;
    if let Some(spec) = service.get_mut("spec") {
        set(spec, "healthCheckNodePort", port);
    }
    Ok(())
}

fn take_next(allocation: &mut Allocation) -> Result<i64, Failure> {
    allocation
        .take_next_port()
        .ok_or_else(|| Failure::Internal("failed to allocate a nodePort: range is full".to_owned()))
}

fn rejection(index: usize, port: i64, error: &PortError) -> Failure {
    let path = Path::new("spec").child("ports").index(index).child("nodePort");
    Failure::Invalid(vec![FieldError::invalid(&path, port, error)])
}

fn ports_mut(service: &mut Value) -> &mut [Value] {
    match service.get_mut("spec") {
        Some(spec) => items_mut(spec, "ports"),
        None => &mut [],
    }
}
