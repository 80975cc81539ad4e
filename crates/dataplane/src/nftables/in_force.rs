//! What is in force, as far as it was written from here.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api::object::ObjectKey;
use plan::{Family, Plan, Set};

use super::bytes::Bytes;
use super::codes::Codes;
use super::item::{Item, difference};
use super::layout::Map;
use super::port::{Port, Shared};
use super::stand_ins::{StandIns, written};

/// The Services in force.
#[derive(Debug, Default)]
pub struct InForce {
    services: HashMap<ObjectKey, Box<[Port]>>,
    /// How often Service ports need something that others may need, too.
    counts: HashMap<Shared, u32>,
}

/// Elements that go and elements that come.
#[derive(Debug, Default)]
pub struct Difference {
    /// They go.
    pub going: Vec<Item>,
    /// They come, when all others have gone.
    pub coming: Vec<Item>,
}

impl InForce {
    /// The Services.
    pub fn services(&self) -> impl Iterator<Item = (&ObjectKey, &[Port])> {
        self.services.iter().map(|(key, ports)| (key, &**ports))
    }

    /// What several Service ports may need and one does.
    pub fn shared(&self) -> impl Iterator<Item = Shared> + '_ {
        self.counts.keys().copied()
    }

    /// Whether a Service port needs this.
    pub fn has_shared(&self, shared: Shared) -> bool {
        self.counts.contains_key(&shared)
    }

    /// Hands over all elements of a map that belong to Service ports.
    pub fn each_item(&self, map: Map, family: Family, each: &mut dyn FnMut(Item)) {
        let mut items = Vec::new();
        for (service, ports) in self.services() {
            for port in ports.iter().filter(|port| port.family() == family) {
                port.items(map, &comment(service, port), &mut items);
            }
            items.drain(..).for_each(&mut *each);
        }
    }

    /// The ports of a Service.
    pub fn ports(&self, service: &ObjectKey) -> &[Port] {
        self.services
            .get(service)
            .map(|ports| &**ports)
            .unwrap_or_default()
    }

    /// The ports that the plan has for a Service, with endpoints at the indexes where they are.
    pub fn planned(
        &self,
        plan: &Plan,
        service: &ObjectKey,
        stand_ins: Option<&StandIns>,
        codes: &mut Codes,
    ) -> Box<[Port]> {
        let former = |key: &Bytes, set: Set| -> Vec<SocketAddr> {
            let port = self.ports(service).iter().find(|port| port.key() == *key);
            let endpoints = port.into_iter().flat_map(|port| port.endpoints(set));
            endpoints.map(|backend| backend.address).collect()
        };
        plan.ports_of(service)
            .map(|port| {
                Port::new(&written(stand_ins, port), former, |treatment| {
                    codes.code(treatment)
                })
            })
            .collect()
    }

    /// Gives a Service other ports; what goes and comes of that is appended: its own elements to `own`, those
    /// that others may need to `common`. Its former ports.
    pub fn replace(
        &mut self,
        service: &ObjectKey,
        ports: Box<[Port]>,
        own: &mut Difference,
        common: &mut Difference,
    ) -> Box<[Port]> {
        let former = if ports.is_empty() {
            self.services.remove(service).unwrap_or_default()
        } else {
            self.services.insert(service.clone(), ports).unwrap_or_default()
        };
        let now = self
            .services
            .get(service)
            .map(|ports| &**ports)
            .unwrap_or_default();
        let (going, coming) = difference(items(service, &former), items(service, now));
        own.going.extend(going);
        own.coming.extend(coming);
        for shared in now.iter().flat_map(Port::shared) {
            let count = self.counts.entry(shared).or_default();
            *count += 1;
            if *count == 1 {
                common.coming.push(shared.item());
            }
        }
        for shared in former.iter().flat_map(Port::shared) {
            if let Some(count) = self.counts.get_mut(&shared) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&shared);
                    common.going.push(shared.item());
                }
            }
        }
        former
    }
}

/// What elements of a Service port say it is for.
pub fn comment(service: &ObjectKey, port: &Port) -> Arc<str> {
    match port.name() {
        "" => service.to_string().into(),
        name => format!("{service}:{name}").into(),
    }
}

fn items(service: &ObjectKey, ports: &[Port]) -> Vec<Item> {
    let mut items = Vec::new();
    for port in ports {
        port.all_items(&comment(service, port), &mut items);
    }
    items
}
