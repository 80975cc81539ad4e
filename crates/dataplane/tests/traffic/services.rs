//! Random Services and their endpoints.

use api::object::{EndpointSlice, ObjectKey, Service};
use plan::Plan;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::POD_PORTS;

/// Addresses of Services, in pairs of families, and one unassigned address of each range.
pub(crate) const SERVICE_IPS: [&str; 10] = [
    "10.96.0.1",
    "fd00:10:96::1",
    "10.96.0.2",
    "fd00:10:96::2",
    "198.51.100.1",
    "2001:db8::1",
    "203.0.113.1",
    "2001:db8:1::1",
    "10.96.0.99",
    "fd00:10:96::99",
];
/// Ports of Services.
pub(crate) const SERVICE_PORTS: [u16; 3] = [80, 81, POD_PORTS[1]];
/// Node ports of Services.
pub(crate) const NODE_PORTS: [u16; 2] = [30_080, 30_081];

const PODS: [([&str; 2], &str); 3] = [
    (["10.244.1.2", "fd00:244:1::2"], "node"),
    (["10.244.1.3", "fd00:244:1::3"], "node"),
    (["10.244.2.2", "fd00:244:2::2"], "other"),
];

/// Schedulers.
const SCHEDULERS: [&str; 4] = ["random", "rr", "maglev", "lc"];

/// Services of a cluster: two at most, so that each has its own addresses.
pub(crate) type Services = Vec<RandomService>;

/// Random cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    services: Services,
}

/// A Service and the Pods that serve it.
#[derive(Clone, Debug)]
pub(crate) struct RandomService {
    is_exposed: bool,
    is_internal_local: bool,
    is_external_local: bool,
    is_sticky: bool,
    has_ranges: bool,
    is_udp: bool,
    pods: [bool; 3],
    pod_port: usize,
    scheduler: &'static str,
    drains: bool,
    has_port_ranges: bool,
}

/// Returns clusters. `serves_ranges` states that Services may have port ranges.
pub(crate) fn cluster(serves_ranges: bool) -> impl Strategy<Value = Cluster> {
    let flags = any::<[bool; 7]>();
    let pods = any::<[bool; 3]>();
    let manner = (prop::sample::select(SCHEDULERS.to_vec()), any::<bool>());
    let service =
        (flags, pods, 0..POD_PORTS.len(), manner).prop_map(move |(flags, pods, pod_port, manner)| {
            RandomService {
                is_exposed: flags[0],
                is_internal_local: flags[1],
                is_external_local: flags[2],
                is_sticky: flags[3],
                has_ranges: flags[4],
                is_udp: flags[5],
                pods,
                pod_port,
                scheduler: manner.0,
                drains: manner.1,
                has_port_ranges: serves_ranges && flags[6],
            }
        });
    prop::collection::vec(service, 1..=2).prop_map(|services| Cluster { services })
}

impl Cluster {
    /// Replaces the objects of a former cluster in a plan.
    pub(crate) fn replace(&self, former: &Self, plan: &mut Plan) {
        for number in self.services.len()..former.services.len() {
            plan.remove_service(&ObjectKey::new("ns", &name(number)));
            for family in 0..2 {
                plan.remove_slice(&ObjectKey::new("ns", &slice_name(number, family)));
            }
        }
        for (number, service) in self.services.iter().enumerate() {
            let read: Service = serde_json::from_value(service.service(number)).expect("a Service");
            plan.apply_service(&read);
            for family in 0..2 {
                let read: EndpointSlice =
                    serde_json::from_value(service.slice(number, family)).expect("a slice");
                plan.apply_slice(&read);
            }
        }
    }

    /// Returns the objects as the API has them.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let of_service = |(number, service): (usize, &RandomService)| {
            [
                service.service(number),
                service.slice(number, 0),
                service.slice(number, 1),
            ]
        };
        self.services.iter().enumerate().flat_map(of_service).collect()
    }
}

impl RandomService {
    fn service(&self, number: usize) -> Value {
        let protocol = if self.is_udp { "UDP" } else { "TCP" };
        let ips = |first: usize| [SERVICE_IPS[first], SERVICE_IPS[first + 1]];
        let local = |is_local: bool| if is_local { "Local" } else { "Cluster" };
        let mut spec = json!({
            "type": "ClusterIP",
            "clusterIP": ips(2 * number)[0],
            "clusterIPs": ips(2 * number),
            "ipFamilies": ["IPv4", "IPv6"],
            "internalTrafficPolicy": local(self.is_internal_local),
            "sessionAffinity": if self.is_sticky { "ClientIP" } else { "None" },
            "ports": [{"name": "p", "protocol": protocol, "port": 80}],
        });
        let mut status = Value::Null;
        if self.is_exposed {
            spec["type"] = json!("LoadBalancer");
            spec["ports"][0]["nodePort"] = json!(NODE_PORTS[number]);
            spec["externalTrafficPolicy"] = json!(local(self.is_external_local));
            if self.has_ranges {
                spec["loadBalancerSourceRanges"] = json!([
                    "10.244.1.0/25",
                    "10.244.1.2/32",
                    "fd00:244:1::2/128",
                    "172.30.0.100/32"
                ]);
            }
            let ingress = ips(4 + 2 * number).map(|ip| json!({"ip": ip}));
            status = json!({"loadBalancer": {"ingress": ingress}});
        }
        let mut annotations = json!({"service.portolan.dev/scheduler": self.scheduler});
        if self.drains {
            annotations["service.portolan.dev/drain-seconds"] = json!("1");
        }
        if self.has_port_ranges {
            annotations["service.portolan.dev/port-ranges"] = json!("8000-8090/TCP,8081/UDP");
        }
        let metadata = json!({"namespace": "ns", "name": name(number), "annotations": annotations});
        match status {
            Value::Null => json!({"kind": "Service", "metadata": metadata, "spec": spec}),
            status => json!({"kind": "Service", "metadata": metadata, "spec": spec, "status": status}),
        }
    }

    fn slice(&self, number: usize, family: usize) -> Value {
        let protocol = if self.is_udp { "UDP" } else { "TCP" };
        let pods = PODS.iter().zip(self.pods).filter(|(_, serves)| *serves);
        let endpoints: Vec<Value> = pods
            .map(|((addresses, node), _)| json!({"addresses": [addresses[family]], "nodeName": node}))
            .collect();
        json!({
            "kind": "EndpointSlice",
            "metadata": {
                "namespace": "ns",
                "name": slice_name(number, family),
                "labels": {"kubernetes.io/service-name": name(number)},
            },
            "addressType": if family == 0 { "IPv4" } else { "IPv6" },
            "ports": [{"name": "p", "protocol": protocol, "port": POD_PORTS[self.pod_port]}],
            "endpoints": endpoints,
        })
    }
}

fn name(number: usize) -> String {
    format!("s{number}")
}

fn slice_name(number: usize, family: usize) -> String {
    format!("s{number}-{family}")
}
