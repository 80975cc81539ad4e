//! The recorded network of `conformance/dataplane.json`: two nodes with a plan each, the objects, and the fields that
//! the API server would set.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::object::{EndpointSlice, Node, ObjectKey, Resource, Service};
use plan::{NodeFacts, Plan, PodDetection, Settings};
use serde_json::{Value, json};

/// Returns a required value.
pub(crate) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} in {value}"))
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("address {text}"))
}

/// The network and its objects.
pub(crate) struct World {
    topology: Value,
    objects: BTreeMap<String, Value>,
    plans: BTreeMap<String, Plan>,
    allocated: u32,
}

impl World {
    /// Creates the network with the objects that all cases share.
    pub(crate) fn new(file: &Value) -> Self {
        let topology = file["topology"].clone();
        let mut world = Self {
            topology,
            objects: BTreeMap::new(),
            plans: BTreeMap::new(),
            allocated: 0x0a60_8000,
        };
        for node in ["node-a", "node-b"] {
            world
                .plans
                .insert(node.to_owned(), Plan::new(world.settings(node)));
        }
        for object in file["objects"].as_array().expect("objects") {
            world.put(object.clone());
        }
        world
    }

    fn settings(&self, node: &str) -> Settings {
        let member = &self.topology["members"][node];
        let gateway = &member["gateway"];
        let own = [member, gateway]
            .into_iter()
            .flat_map(|at| [text(at, "ipv4"), text(at, "ipv6")]);
        let nets = |field: &str| {
            let list = self.topology[field].as_array().expect("a list of CIDRs");
            list.iter()
                .map(|net| net.as_str().and_then(|net| net.parse().ok()).expect("CIDR"))
                .collect()
        };
        Settings {
            node_name: node.to_owned(),
            pods: PodDetection::Ranges(nets("cluster_cidrs")),
            service_cidrs: nets("service_cidrs"),
            node_addresses: own.map(ip).collect(),
            ..Settings::default()
        }
    }

    /// Returns the plan of a node.
    pub(crate) fn plan(&self, node: &str) -> &Plan {
        &self.plans[node]
    }

    /// Returns the address of a member of the network.
    pub(crate) fn address_of(&self, member: &str, family: u64) -> Option<IpAddr> {
        let field = if family == 6 { "ipv6" } else { "ipv4" };
        self.topology["members"][member][field].as_str().map(ip)
    }

    /// Returns the node that a member is, or is attached to.
    pub(crate) fn node_of<'a>(&'a self, member: &'a str) -> &'a str {
        let found = &self.topology["members"][member];
        found["node"]
            .as_str()
            .or(found["routes_via"].as_str())
            .unwrap_or(member)
    }

    /// Returns the member with an address, or else the address.
    pub(crate) fn name_of(&self, address: IpAddr) -> String {
        let members = self.topology["members"].as_object().expect("members");
        let has = |member: &Value| {
            [&member["ipv4"], &member["ipv6"]]
                .iter()
                .any(|at| at.as_str().map(ip) == Some(address))
        };
        members
            .iter()
            .find(|(_, member)| has(member))
            .map_or(address.to_string(), |(name, _)| name.clone())
    }

    /// Returns an object by `Kind namespace/name`.
    pub(crate) fn object(&self, name: &str) -> &Value {
        self.objects.get(name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Returns the Service called `name` in the recorded namespaces.
    pub(crate) fn service(&self, name: &str) -> &Value {
        let full = if name.contains('/') {
            format!("Service {name}")
        } else {
            format!("Service dp/{name}")
        };
        self.object(&full)
    }

    /// Applies a change of a step. Changes of sockets and processes do not affect plans.
    pub(crate) fn change(&mut self, change: &Value) {
        if let Some(object) = change.get("create") {
            self.put(object.clone());
        } else if let Some(name) = change["delete"].as_str() {
            self.delete(name);
        } else if let Some(patch) = change.get("merge") {
            let mut object = self.object(text(change, "of")).clone();
            json_patch::merge(&mut object, patch);
            self.put(object);
        }
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&mut self, mut object: Value) {
        let kind = text(&object, "kind").to_owned();
        if kind == "Service" {
            self.fill_in(&mut object);
        }
        for plan in self.plans.values_mut() {
            match kind.as_str() {
                "Service" => plan.apply_service(&read::<Service>(&object)),
                "EndpointSlice" => plan.apply_slice(&read::<EndpointSlice>(&object)),
                "Node" => set_node(plan, &read::<Node>(&object)),
                _ => {}
            }
            plan.take_changes();
        }
        let metadata = &object["metadata"];
        let name = match metadata["namespace"].as_str() {
            Some(namespace) => format!("{kind} {namespace}/{}", text(metadata, "name")),
            None => format!("{kind} {}", text(metadata, "name")),
        };
        self.objects.insert(name, object);
    }

    fn delete(&mut self, name: &str) {
        self.objects.remove(name);
        let (kind, key) = name.split_once(' ').expect("kind and name");
        let (namespace, name) = key.split_once('/').expect("namespace and name");
        let key = ObjectKey::new(namespace, name);
        for plan in self.plans.values_mut() {
            match kind {
                "Service" => plan.remove_service(&key),
                "EndpointSlice" => plan.remove_slice(&key),
                _ => {}
            }
            plan.take_changes();
        }
    }

    /// Sets the fields of a Service that the API server would set: families, cluster IPs, node ports.
    fn fill_in(&mut self, service: &mut Value) {
        let spec = &mut service["spec"];
        let kind = spec["type"].as_str().unwrap_or("ClusterIP").to_owned();
        let is_headless = spec["clusterIP"] == "None";
        if kind != "ExternalName" && !is_headless {
            let policy = spec["ipFamilyPolicy"]
                .as_str()
                .unwrap_or("SingleStack")
                .to_owned();
            let mut families: Vec<Value> = spec["ipFamilies"]
                .as_array()
                .cloned()
                .unwrap_or(vec![json!("IPv4")]);
            match policy.as_str() {
                "SingleStack" => families.truncate(1),
                _ if families.len() < 2 => families.push(json!("IPv6")),
                _ => {}
            }
            let mut ips: Vec<Value> = spec["clusterIPs"].as_array().cloned().unwrap_or_default();
            if ips.is_empty() {
                ips.extend(spec.get("clusterIP").cloned());
            }
            ips.truncate(families.len());
            while ips.len() < families.len() {
                self.allocated += 1;
                let low = self.allocated & 0xffff;
                ips.push(match families[ips.len()].as_str() {
                    Some("IPv6") => json!(format!("fd00:10:96::{low:x}")),
                    _ => json!(IpAddr::from(self.allocated.to_be_bytes()).to_string()),
                });
            }
            spec["clusterIP"] = ips[0].clone();
            spec["clusterIPs"] = ips.into();
            spec["ipFamilies"] = families.into();
        }
        let has_node_ports = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
            && spec["allocateLoadBalancerNodePorts"] != false;
        let mut given: BTreeMap<u64, u32> = BTreeMap::new();
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            if !has_node_ports {
                port.as_object_mut().expect("a port").remove("nodePort");
            } else if port.get("nodePort").is_none() {
                self.allocated += 1;
                let number = port["port"].as_u64().expect("port");
                // One port number with two protocols gets one node port.
                port["nodePort"] = json!(*given.entry(number).or_insert(31_000 + self.allocated % 1_000));
            }
        }
        if kind != "LoadBalancer" {
            service.as_object_mut().expect("a Service").remove("status");
        }
    }
}

fn read<T: Resource>(object: &Value) -> T {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error} in {object}"))
}

fn set_node(plan: &mut Plan, node: &Node) {
    if node.metadata.name == plan.settings().node_name {
        let ips = node
            .status
            .addresses
            .iter()
            .filter_map(|at| at.address.parse().ok())
            .collect();
        plan.set_node(NodeFacts {
            zone: node.zone().map(str::to_owned),
            ips,
            ..NodeFacts::default()
        });
    }
}
